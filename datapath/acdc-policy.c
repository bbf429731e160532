// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* Tenants, their policies, and the ports bound to them.  All but
 * acdc_policy_match() runs on the configuration thread. */

#include "acdc-table.h"
#include "acdc-tail.h"

const struct acdc_params acdc_params_default = {
#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, MIN, MAX, DEFAULT, ...) \
    .NAME = DEFAULT,
#include "acdc-params.h"
};

static void
free_host_memory(struct acdc_rcu *rcu)
{
    acdc_host_free(rcu);
}

void
acdc_defer_free(struct acdc_rcu *rcu)
{
    rcu->free = free_host_memory;
    acdc_host_defer(rcu);
}

/* The engine. -------------------------------------------------------------- */

static void
set_config(struct acdc *a, const struct acdc_config *c)
{
    uint32_t max = c->max_flows < ACDC_FLOWS_MAX ? c->max_flows
                                                 : ACDC_FLOWS_MAX;
    /* In milliseconds well below 2^32, see elapsed_ms(). */
    uint32_t idle = c->idle_timeout < 2000000 ? c->idle_timeout : 2000000;

    acdc_a32_set(&a->max_flows, max ? max : 1);
    acdc_a32_set(&a->idle_timeout_ms, (idle ? idle : 1) * 1000);
    acdc_a32_set(&a->exid, c->exid);
    acdc_a32_set(&a->clock_synced, c->clock_synced);
}

struct acdc *
acdc_create(const struct acdc_config *cfg)
{
    static const struct acdc_config def = {
        .max_flows = ACDC_MAX_FLOWS_DEFAULT,
        .idle_timeout = ACDC_IDLE_TIMEOUT_DEFAULT,
        .exid = ACDC_OPT_EXID,
    };
    struct acdc *a = acdc_host_alloc(sizeof *a);

    if (a) {
        acdc_lock_init(&a->lock);
        a->n_refs = 1;
        a->seed = acdc_host_seed();
        a->salt = acdc_hash_mix(acdc_host_seed()) | 1;
        set_config(a, cfg ? cfg : &def);
    }
    return a;
}

void
acdc_set_host(struct acdc *a, unsigned int does)
{
    a->host = (uint8_t) does;
}

void
acdc_config_get(const struct acdc *a, struct acdc_config *c)
{
    c->max_flows = acdc_a32_read(&a->max_flows);
    c->idle_timeout = acdc_a32_read(&a->idle_timeout_ms) / 1000;
    c->exid = (uint16_t) acdc_a32_read(&a->exid);
    c->clock_synced = acdc_a32_read(&a->clock_synced);
}

int
acdc_config_set(struct acdc *a, const struct acdc_config *c)
{
    struct acdc_config old;
    int error = 0;

    acdc_config_get(a, &old);
    set_config(a, c);
    if (a->table) {
        error = acdc_table_ensure(a);
        if (error) {
            set_config(a, &old);
        }
    }
    return error;
}

/* Takes away one of 'n_refs', of the port with index 'idx' if there was one. */
static void
unref(struct acdc *a, const uint16_t *idx)
{
    bool last;

    acdc_lock(&a->lock);
    if (idx) {
        acdc_ptr_store(&a->port_dir->ports[*idx], NULL);
    }
    last = !--a->n_refs;
    acdc_unlock(&a->lock);
    if (last) {
        acdc_host_free(a->port_dir);
        acdc_host_free(a);
    }
}

void
acdc_destroy(struct acdc *a)
{
    if (!a) {
        return;
    }
    while (a->tenants) {
        acdc_tenant_del(a, a->tenants->name);
    }
    if (a->table) {
        acdc_defer_free(&a->table->rcu);
    }
    unref(a, NULL);
}

/* Tenants. ----------------------------------------------------------------- */

struct acdc_tenant *
acdc_tenant_find(const struct acdc *a, const char *name)
{
    struct acdc_tenant *t;

    for (t = acdc_ptr_load(&a->tenants); t; t = acdc_ptr_load(&t->next)) {
        if (!strcmp(t->name, name)) {
            return t;
        }
    }
    return NULL;
}

bool
acdc_tenant_exists(const struct acdc *a, const char *name)
{
    return acdc_tenant_find(a, name) != NULL;
}

static bool
within(uint32_t value, uint32_t min, uint32_t max)
{
    return value >= min && value <= max;
}

static bool
params_ok(const struct acdc_params *p)
{
    return acdc_is_fallback(p->fallback)
#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, MIN, MAX, ...) \
           && within(p->NAME, MIN, MAX)
#include "acdc-params.h"
           ;
}

static struct acdc_policy *
make_policy(struct acdc *a, const struct acdc_tenant_config *tc, int *error)
{
    struct acdc_policy *policy;
    uint32_t i, j;

    *error = EINVAL;
    if (tc->n_rules > ACDC_RULES_MAX || !params_ok(&tc->params)) {
        return NULL;
    }
    for (i = 0; i < tc->n_rules; i++) {
        if (!params_ok(&tc->rules[i].params)
            || tc->rules[i].match.remote_plen > 128) {
            return NULL;
        }
    }
    *error = ENOMEM;
    policy = acdc_host_alloc(sizeof *policy
                             + (tc->n_rules + 1) * sizeof policy->rules[0]);
    if (!policy) {
        return NULL;
    }
    *error = 0;
    a->gen = a->gen == 0xffff ? 1 : (uint16_t) (a->gen + 1);
    policy->gen = a->gen;
    policy->max_half_open = tc->max_half_open ? tc->max_half_open
                                              : ACDC_HALF_OPEN_DEFAULT;
    policy->n_rules = tc->n_rules;
    policy->paces = tc->params.pace;
    /* Insertion sort, stable: among equals the order given decides. */
    for (i = 0; i < tc->n_rules; i++) {
        for (j = i; j > 0 && policy->rules[j - 1].priority
                             < tc->rules[i].priority; j--) {
            policy->rules[j] = policy->rules[j - 1];
        }
        policy->rules[j] = tc->rules[i];
        policy->paces = policy->paces || tc->rules[i].params.pace;
    }
    policy->rules[tc->n_rules].params = tc->params;
    return policy;
}

int
acdc_tenant_set(struct acdc *a, const struct acdc_tenant_config *tc)
{
    struct acdc_policy *policy, *old;
    struct acdc_tenant *t;
    int error;

    if (!tc->name[0] || !memchr(tc->name, '\0', sizeof tc->name)) {
        return EINVAL;
    }
    policy = make_policy(a, tc, &error);
    if (!policy) {
        return error;
    }
    t = acdc_tenant_find(a, tc->name);
    if (t) {
        old = t->policy;
        acdc_ptr_store(&t->policy, policy);
        acdc_defer_free(&old->rcu);
        return 0;
    }

    t = acdc_host_alloc(sizeof *t);
    if (t) {
        t->slots = acdc_host_alloc(ACDC_N_SLOTS * sizeof *t->slots);
    }
    if (!t || !t->slots) {
        acdc_host_free(t);
        acdc_host_free(policy);
        return ENOMEM;
    }
    memcpy(t->name, tc->name, strlen(tc->name) + 1);
    t->acdc = a;
    t->policy = policy;
    t->next = a->tenants;
    acdc_ptr_store(&a->tenants, t);
    acdc_count_add(&a->n_tenants, 1);
    return 0;
}

static void
free_tenant(struct acdc_rcu *rcu)
{
    struct acdc_tenant *t = (struct acdc_tenant *) rcu;

    acdc_host_free(t->policy);
    acdc_host_free(t->slots);
    acdc_host_free(t);
}

/* Any thread.  The engine may have been destroyed meanwhile. */
static void
free_port(struct acdc_rcu *rcu)
{
    struct acdc_port *port = (struct acdc_port *) rcu;

    acdc_tail_unbind(port);
    unref(port->acdc, &port->idx);
    acdc_host_free(port);
}

static void
unbind(struct acdc *a, struct acdc_port **link)
{
    struct acdc_port *port = *link;

    /* From here on acdc_flow_create() makes no flow for the port. */
    acdc_lock(&a->lock);
    acdc_ptr_store(&port->tenant, NULL);
    acdc_unlock(&a->lock);

    acdc_ptr_store(link, port->next);
    acdc_table_flush(a, NULL, port);
    acdc_count_add(&port->owner->n_ports, -1);
    port->rcu.free = free_port;
    acdc_host_defer(&port->rcu);
}

int
acdc_tenant_del(struct acdc *a, const char *name)
{
    struct acdc_tenant *t = acdc_tenant_find(a, name);
    struct acdc_tenant **tp;
    struct acdc_port **pp;

    if (!t) {
        return ENOENT;
    }
    for (pp = &a->ports; *pp; ) {
        if ((*pp)->owner == t) {
            unbind(a, pp);
        } else {
            pp = &(*pp)->next;
        }
    }
    for (tp = &a->tenants; *tp != t; tp = &(*tp)->next) {
        continue;
    }
    acdc_ptr_store(tp, t->next);
    acdc_count_add(&a->n_tenants, -1);
    t->rcu.free = free_tenant;
    acdc_host_defer(&t->rcu);
    return 0;
}

/* Ports. ------------------------------------------------------------------- */

static struct acdc_port **
find_port(struct acdc *a, uint32_t port_no)
{
    struct acdc_port **pp;

    for (pp = &a->ports; *pp; pp = &(*pp)->next) {
        if ((*pp)->port_no == port_no) {
            return pp;
        }
    }
    return NULL;
}

/* Makes the directory, or one twice as large. */
static bool
grow_port_dir(struct acdc *a)
{
    struct acdc_port_dir *old = a->port_dir;
    uint32_t size = old ? 2 * old->size : 16;
    struct acdc_port_dir *new;

    if (size > ACDC_PORTS_MAX) {
        return false;
    }
    new = acdc_host_alloc(sizeof *new + size * sizeof new->ports[0]);
    if (!new) {
        return false;
    }
    new->size = size;
    acdc_lock(&a->lock);
    if (old) {
        memcpy(new->ports, old->ports, old->size * sizeof old->ports[0]);
    }
    acdc_ptr_store(&a->port_dir, new);
    acdc_unlock(&a->lock);
    if (old) {
        acdc_defer_free(&old->rcu);
    }
    return true;
}

/* Sets '*idx' to that of a free place in the directory.  Returns false if there
 * is none. */
static bool
find_place(struct acdc *a, uint16_t *idx)
{
    uint32_t i = 1;             /* 0 is nobody's, see acdc_nil(). */

    /* Others only free places meanwhile. */
    while (a->port_dir && i < a->port_dir->size
           && acdc_ptr_load(&a->port_dir->ports[i])) {
        i++;
    }
    *idx = (uint16_t) i;
    return (a->port_dir && i < a->port_dir->size) || grow_port_dir(a);
}

bool
acdc_port_is(const struct acdc_port *port, const char *port_name,
             const char *tenant)
{
    return !strcmp(port->owner->name, tenant)
           && (!port_name
               || !strncmp(port->name, port_name, ACDC_NAME_LEN - 1));
}

struct acdc_port *
acdc_port_bind(struct acdc *a, uint32_t port_no, const char *port_name,
               const char *tenant, uint32_t mtu)
{
    struct acdc_tenant *t = acdc_tenant_find(a, tenant);
    struct acdc_port **pp = find_port(a, port_no);
    size_t len = strlen(port_name);
    struct acdc_port *port;

    if (!t) {
        return NULL;
    }
    if (pp && acdc_port_is(*pp, port_name, tenant)) {
        acdc_a32_set(&(*pp)->mtu, mtu);
        return *pp;
    }
    port = acdc_host_alloc(sizeof *port);
    if (!port || acdc_table_ensure(a) || !find_place(a, &port->idx)) {
        acdc_host_free(port);
        return NULL;
    }
    if (pp) {
        unbind(a, pp);
    }
    port->acdc = a;
    port->owner = port->tenant = t;
    port->port_no = port_no;
    port->basis = acdc_hash_basis(a, port->idx);
    acdc_lock_init(&port->recall_lock);
    acdc_a32_set(&port->mtu, mtu);
    memcpy(port->name, port_name,
           len < ACDC_NAME_LEN ? len : ACDC_NAME_LEN - 1);
    acdc_count_add(&t->n_ports, 1);
    acdc_lock(&a->lock);
    a->n_refs++;
    acdc_ptr_store(&a->port_dir->ports[port->idx], port);
    acdc_unlock(&a->lock);
    port->next = a->ports;
    acdc_ptr_store(&a->ports, port);
    return port;
}

void
acdc_port_set_mtu(struct acdc_port *port, uint32_t mtu)
{
    acdc_port_note_mtu(port, mtu);
}

int
acdc_port_unbind(struct acdc *a, uint32_t port_no)
{
    struct acdc_port **pp = find_port(a, port_no);

    if (!pp) {
        return ENOENT;
    }
    unbind(a, pp);
    return 0;
}

/* Flush. ------------------------------------------------------------------- */

uint32_t
acdc_flush(struct acdc *a, const char *tenant, const uint32_t *port_no)
{
    const struct acdc_tenant *t = tenant ? acdc_tenant_find(a, tenant) : NULL;
    struct acdc_port **pp = port_no ? find_port(a, *port_no) : NULL;

    if ((tenant && !t) || (port_no && !pp)) {
        return 0;
    }
    return acdc_table_flush(a, t, pp ? *pp : NULL);
}

/* Rules. ------------------------------------------------------------------- */

bool
acdc_match_remote(const struct acdc_match *m, const uint8_t addr[16])
{
    unsigned int bytes = m->remote_plen / 8;
    unsigned int bits = m->remote_plen % 8;

    return !memcmp(addr, m->remote, bytes)
           && (!bits || !((addr[bytes] ^ m->remote[bytes]) >> (8 - bits)));
}

uint32_t
acdc_policy_match(const struct acdc_policy *policy, const struct acdc_flow *f)
{
    struct acdc_end local, remote;
    uint32_t i;

    if (!policy->n_rules) {
        return 0;
    }
    acdc_flow_ends(f, &local, &remote);
    for (i = 0; i < policy->n_rules; i++) {
        const struct acdc_match *m = &policy->rules[i].match;

        if (remote.port >= m->remote_port_min
            && remote.port <= m->remote_port_max
            && local.port >= m->local_port_min
            && local.port <= m->local_port_max
            && acdc_match_remote(m, remote.addr)) {
            break;
        }
    }
    return i;
}
