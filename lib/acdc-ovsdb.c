/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-ovsdb-private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acdc-compat.h"
#include "acdc-dpif.h"
#include "acdc-match.h"
#include "acdc-offload.h"
#include "connectivity.h"
#include "coverage.h"
#include "dpif.h"
#include "odp-util.h"
#include "ofproto/ofproto-dpif.h"
#include "ofproto/ofproto-dpif-upcall.h"
#include "openvswitch/vlog.h"
#include "ovsdb-idl.h"
#include "seq.h"
#include "simap.h"
#include "smap.h"
#include "sset.h"
#include "svec.h"
#include "util.h"
#include "vswitch-idl.h"

VLOG_DEFINE_THIS_MODULE(acdc_ovsdb);

COVERAGE_DEFINE(acdc_reconcile);
COVERAGE_DEFINE(acdc_tenant_set);
COVERAGE_DEFINE(acdc_tenant_del);
COVERAGE_DEFINE(acdc_port_set);

/* A hypervisor binds a few hundred ports when it starts. */
static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(60, 500);

/* A datapath type in use. */
struct datapath {
    struct simap sent;          /* Tenant name -> 'generation' last sent. */
    struct shash ports;         /* Wanted: interface name -> struct guest. */
    int config_error;           /* Of the settings in Open_vSwitch. */
    bool in_use;                /* By a bridge. */
};

struct shash acdc_tenants = SHASH_INITIALIZER(&acdc_tenants);
struct shash acdc_guests = SHASH_INITIALIZER(&acdc_guests);
static struct shash datapaths = SHASH_INITIALIZER(&datapaths);

/* What is wrong with settings in tables other than our own, which have no
 * place for it. */
static struct sset warnings = SSET_INITIALIZER(&warnings);

static uint64_t connectivity_seqno;
static bool binds_changed;
static bool has_run;            /* Since the last wait. */
static unsigned int last_generation;

static void
replace(char **sp, char *s)
{
    free(*sp);
    *sp = s;
}

/* Reading the configuration. ---------------------------------------------- */

/* Logs 'new', what is wrong with the tenant's row, unless it is what 'old' is
 * already. */
static void
log_tenant(const char *name, const char *old, const char *new)
{
    if (!nullable_string_is_equal(old, new)) {
        if (new) {
            VLOG_WARN("tenant %s: %s", name, new);
        }
        acdc_ovsdb_status_changed();
    }
}

/* Brings 'acdc_tenants' up to date with the database.  A tenant whose row has
 * an error keeps the configuration it had; a new one, for example after a
 * restart, gets what is valid. */
static void
read_tenants(const struct ovsdb_idl *idl)
{
    const struct ovsrec_acdc *row;
    struct shash_node *node;

    SHASH_FOR_EACH (node, &acdc_tenants) {
        struct tenant *t = node->data;

        t->in_db = false;
    }

    OVSREC_ACDC_FOR_EACH (row, idl) {
        struct tenant *t = shash_find_data(&acdc_tenants, row->name);
        struct acdc_ovsdb_tenant new;

        acdc_ovsdb_parse_tenant(row, &new);
        log_tenant(row->name, t ? t->up.error : NULL, new.error);
        log_tenant(row->name, t ? t->up.warning : NULL, new.warning);
        if (!t) {
            t = xzalloc(sizeof *t);
            t->up = new;
            t->usable = new.config.name[0] != '\0';
            t->generation = ++last_generation;
            shash_add(&acdc_tenants, row->name, t);
        } else if (new.error || acdc_ovsdb_tenant_equal(&t->up, &new)) {
            replace(&t->up.error, nullable_xstrdup(new.error));
            replace(&t->up.warning, nullable_xstrdup(new.warning));
            acdc_ovsdb_tenant_uninit(&new);
        } else {
            acdc_ovsdb_tenant_uninit(&t->up);
            t->up = new;
            t->generation = ++last_generation;
        }
        t->in_db = true;
        replace(&t->dp_error, NULL);
    }

    SHASH_FOR_EACH_SAFE (node, &acdc_tenants) {
        struct tenant *t = node->data;

        if (!t->in_db) {
            shash_delete(&acdc_tenants, node);
            acdc_ovsdb_tenant_uninit(&t->up);
            free(t->dp_error);
            free(t);
        }
    }
}

static void
clear_guests(struct shash *guests)
{
    struct shash_node *node;

    SHASH_FOR_EACH (node, guests) {
        acdc_guest_destroy(node->data);
    }
    shash_clear(guests);
}

/* Brings 'datapaths' and their wanted ports up to date with the database. */
static void
read_datapaths(const struct ovsrec_open_vswitch *cfg,
               struct sset *new_warnings)
{
    struct shash_node *node;

    SHASH_FOR_EACH (node, &datapaths) {
        struct datapath *dp = node->data;

        dp->in_use = false;
        clear_guests(&dp->ports);
    }
    for (size_t i = 0; i < cfg->n_bridges; i++) {
        const struct ovsrec_bridge *br = cfg->bridges[i];
        const char *type = ofproto_normalize_type(br->datapath_type);
        struct datapath *dp = shash_find_data(&datapaths, type);

        if (!dp) {
            dp = xmalloc(sizeof *dp);
            simap_init(&dp->sent);
            shash_init(&dp->ports);
            shash_add(&datapaths, type, dp);
        }
        dp->in_use = true;

        acdc_ovsdb_check_keys("Bridge", br->name, &br->other_config,
                              new_warnings);
        for (size_t j = 0; j < br->n_ports; j++) {
            const struct ovsrec_port *port = br->ports[j];

            acdc_ovsdb_check_keys("Port", port->name, &port->other_config,
                                  new_warnings);
            for (size_t k = 0; k < port->n_interfaces; k++) {
                const struct ovsrec_interface *iface = port->interfaces[k];
                struct guest *g = acdc_bind_wanted(port, iface);

                acdc_ovsdb_check_keys("Interface", iface->name,
                                      &iface->other_config, new_warnings);
                if (g && !shash_add_once(&dp->ports, iface->name, g)) {
                    acdc_guest_destroy(g);
                }
            }
        }
    }

    SHASH_FOR_EACH_SAFE (node, &datapaths) {
        struct datapath *dp = node->data;

        if (!dp->in_use) {
            shash_delete(&datapaths, node);
            simap_destroy(&dp->sent);
            clear_guests(&dp->ports);
            shash_destroy(&dp->ports);
            free(dp);
        }
    }
}

/* Bringing a datapath to the wanted state. -------------------------------- */

/* Returns an error if nothing can be configured in the datapath. */
static int
apply_config(const char *type, struct datapath *dp, struct dpif *dpif,
             const struct acdc_config *wanted, struct sset *new_warnings)
{
    struct acdc_config has;
    int error = acdc_dpif_get_config(dpif, &has);

    if (!error && (has.max_flows != wanted->max_flows
                   || has.idle_timeout != wanted->idle_timeout
                   || has.exid != wanted->exid
                   || has.clock_synced != wanted->clock_synced)) {
        dp->config_error = acdc_dpif_set_config(dpif, wanted);
    }
    if (dp->config_error) {
        sset_add_and_free(new_warnings, xasprintf(
            "datapath %s: Open_vSwitch other_config:acdc-max-flows=%"PRIu32" "
            "and what else is new there has no effect: %s", type,
            wanted->max_flows, ovs_strerror(dp->config_error)));
    }
    return error;
}

/* Makes 'dp->sent' what the datapath has, if it is not what we sent: when the
 * daemon or the datapath is new. */
static void
check_sent(struct datapath *dp, struct dpif *dpif)
{
    struct simap has = SIMAP_INITIALIZER(&has);
    size_t n = simap_count(&dp->sent);
    struct acdc_tenant_stats stats;

    /* Statistics of a tenant take longer than all else here. */
    if ((!n || !acdc_dpif_get_tenant(dpif, n - 1, &stats))
        && acdc_dpif_get_tenant(dpif, n, &stats)) {
        return;
    }
    for (unsigned int i = 0; !acdc_dpif_get_tenant(dpif, i, &stats); i++) {
        simap_put(&has, stats.name, 0);
    }
    simap_swap(&has, &dp->sent);
    simap_destroy(&has);
}

static void
apply_tenants(const char *type, struct datapath *dp, struct dpif *dpif)
{
    struct simap_node *sent;
    struct shash_node *node;

    check_sent(dp, dpif);
    SIMAP_FOR_EACH_SAFE (sent, &dp->sent) {
        struct tenant *t = shash_find_data(&acdc_tenants, sent->name);

        if (!t || !t->usable) {
            COVERAGE_INC(acdc_tenant_del);
            acdc_dpif_del_tenant(dpif, sent->name);
            simap_delete(&dp->sent, sent);
        }
    }
    SHASH_FOR_EACH (node, &acdc_tenants) {
        struct tenant *t = node->data;
        int error;

        if (!t->usable
            || simap_get(&dp->sent, node->name) == t->generation) {
            continue;
        }
        COVERAGE_INC(acdc_tenant_set);
        acdc_ovsdb_status_changed();
        error = acdc_dpif_set_tenant(dpif, &t->up.config);
        if (error) {
            replace(&t->dp_error, xasprintf("datapath %s: %s", type,
                                            ovs_strerror(error)));
            VLOG_WARN_RL(&rl, "tenant %s: %s", node->name, t->dp_error);
        } else {
            simap_put(&dp->sent, node->name, t->generation);
        }
    }
}

/* Binds the interface 'name', which is 'odp_port' of the datapath and
 * currently bound as 'has' says (NULL: it is not), to the tenant of 'g', and
 * adds it to 'bound'. */
static void
bind_port(const char *type, struct dpif *dpif, const char *name,
          odp_port_t odp_port, const struct acdc_port_info *has,
          struct guest *g, struct shash *bound)
{
    struct acdc_port_info info = { .port_no = odp_to_u32(odp_port) };
    char *short_name = acdc_ovsdb_short_name(name);
    bool same = has && !strcmp(has->name, short_name);
    int error = 0;

    if (has && !same) {
        /* The number was another interface's: its flows must not stay. */
        acdc_dpif_set_port(dpif, odp_port, has->name, NULL);
    }
    if (!same || strcmp(has->tenant, g->tenant)) {
        COVERAGE_INC(acdc_port_set);
        error = acdc_dpif_set_port(dpif, odp_port, short_name, g->tenant);
    }
    free(short_name);
    if (error) {
        g->error = xasprintf("datapath %s: %s", type, ovs_strerror(error));
    } else {
        ovs_strlcpy(info.tenant, g->tenant, sizeof info.tenant);
        shash_add(bound, name, xmemdup(&info, sizeof info));
    }
}

/* Keeps flows of 'bound' ports out of hardware, and takes out what came there
 * when they were no guests'.  Who sends on gets new flows. */
static void
offload_none_of(const char *type, struct dpif *dpif, const struct shash *bound)
{
    const struct dpif_backer *backer = shash_find_data(&all_dpif_backers, type);

    if (acdc_offload_set_guests(dpif, bound) && acdc_offload_is_enabled()
        && backer) {
        udpif_flush(backer->udpif);
    }
}

/* What the datapath has bound, struct acdc_port_info by number. */
static void
read_bound(struct dpif *dpif, struct shash *has)
{
    struct acdc_port_info info;
    char number[16];

    for (unsigned int i = 0; !acdc_dpif_get_port(dpif, i, &info); i++) {
        snprintf(number, sizeof number, "%"PRIu32, info.port_no);
        shash_add(has, number, xmemdup(&info, sizeof info));
    }
}

/* Moves 'dp->ports' to 'new_guests', with what became of each. */
static void
apply_ports(const char *type, struct datapath *dp, struct dpif *dpif,
            struct shash *new_guests)
{
    struct shash has = SHASH_INITIALIZER(&has);     /* By port number. */
    struct shash bound = SHASH_INITIALIZER(&bound); /* By name. */
    struct simap numbers = SIMAP_INITIALIZER(&numbers);
    struct shash_node *node;
    char number[16];

    read_bound(dpif, &has);
    if (!shash_is_empty(&dp->ports)) {
        struct dpif_port_dump dump;
        struct dpif_port port;

        DPIF_PORT_FOR_EACH (&port, &dump, dpif) {
            simap_put(&numbers, port.name, odp_to_u32(port.port_no));
        }
    }

    SHASH_FOR_EACH (node, &dp->ports) {
        struct simap_node *n = simap_find(&numbers, node->name);
        struct guest *g = acdc_guest_clone(node->data);
        struct tenant *t;

        shash_add(new_guests, node->name, g);
        t = shash_find_data(&acdc_tenants, g->tenant);
        if (g->error) {
            continue;
        } else if (!t) {
            g->error = xasprintf("tenant \"%s\" does not exist, "
                                 "packets pass untouched", g->tenant);
        } else if (!t->usable) {
            g->error = xasprintf("tenant \"%s\": %s", g->tenant, t->up.error);
        } else if (!n) {
            g->error = xasprintf("datapath %s has no port of this name "
                                 "(patch ports and tunnels cannot be guest "
                                 "ports)", type);
        } else {
            struct acdc_port_info *old;

            snprintf(number, sizeof number, "%u", n->data);
            old = shash_find_and_delete(&has, number);
            bind_port(type, dpif, node->name, u32_to_odp(n->data), old, g,
                      &bound);
            free(old);
        }
    }

    /* What is left in 'has' nobody wants. */
    SHASH_FOR_EACH (node, &has) {
        const struct acdc_port_info *old = node->data;

        COVERAGE_INC(acdc_port_set);
        acdc_dpif_set_port(dpif, u32_to_odp(old->port_no), old->name, NULL);
    }
    offload_none_of(type, dpif, &bound);
    shash_destroy_free_data(&bound);
    shash_destroy_free_data(&has);
    simap_destroy(&numbers);
}

static void
apply_datapath(const char *type, struct datapath *dp,
               const struct acdc_config *config, struct shash *new_guests,
               struct sset *new_warnings)
{
    struct dpif *dpif = NULL;
    int error = acdc_ovsdb_open(type, &dpif);

    dp->config_error = 0;
    if (!error) {
        error = apply_config(type, dp, dpif, config, new_warnings);
    }
    if (!error) {
        apply_tenants(type, dp, dpif);
        apply_ports(type, dp, dpif, new_guests);
    } else {
        struct shash_node *node;

        simap_clear(&dp->sent);
        SHASH_FOR_EACH (node, &dp->ports) {
            struct guest *g = acdc_guest_clone(node->data);

            free(g->error);
            g->error = (error == EOPNOTSUPP
                        ? xasprintf("datapath %s does not support AC/DC, "
                                    "packets pass untouched", type)
                        : xasprintf("datapath %s: %s", type,
                                    ovs_strerror(error)));
            shash_add(new_guests, node->name, g);
        }
    }
    dpif_close(dpif);
}

/* Makes 'new' the acdc_guests, logs the differences. */
static void
swap_guests(struct shash *new)
{
    struct shash_node *node;

    SHASH_FOR_EACH (node, new) {
        const struct guest *old = shash_find_data(&acdc_guests, node->name);
        const struct guest *g = node->data;

        if (old && !strcmp(old->tenant, g->tenant)
            && nullable_string_is_equal(old->error, g->error)) {
            continue;
        }
        acdc_ovsdb_status_changed();
        if (g->error) {
            VLOG_WARN_RL(&rl, "port %s, tenant %s: %s",
                         node->name, g->tenant, g->error);
        } else {
            VLOG_INFO_RL(&rl, "port %s: bound to tenant %s",
                         node->name, g->tenant);
        }
        acdc_ovsdb_iface_changed(node->name);
    }
    SHASH_FOR_EACH (node, &acdc_guests) {
        const struct guest *g = node->data;

        if (!shash_find(new, node->name)) {
            VLOG_INFO_RL(&rl, "port %s: no longer of tenant %s",
                         node->name, g->tenant);
            acdc_ovsdb_status_changed();
            acdc_ovsdb_iface_changed(node->name);
        }
    }
    clear_guests(&acdc_guests);
    shash_swap(&acdc_guests, new);
}

/* Makes 'new' the warnings, logs those that are new. */
static void
swap_warnings(struct sset *new)
{
    const char *warning;

    SSET_FOR_EACH (warning, new) {
        if (!sset_contains(&warnings, warning)) {
            VLOG_WARN_RL(&rl, "%s", warning);
        }
    }
    sset_swap(&warnings, new);
}

/* Brings the datapaths to the state that the database describes. */
static void
reconcile(const struct ovsdb_idl *idl, const struct ovsrec_open_vswitch *cfg)
{
    struct shash new_guests = SHASH_INITIALIZER(&new_guests);
    struct sset new_warnings = SSET_INITIALIZER(&new_warnings);
    struct acdc_config config;
    struct shash_node *node;

    COVERAGE_INC(acdc_reconcile);
    binds_changed = false;

    acdc_ovsdb_parse_config(cfg, &config, &new_warnings);
    acdc_ovsdb_check_keys("Open_vSwitch", "", &cfg->other_config,
                          &new_warnings);
    read_tenants(idl);
    acdc_binds_read();
    read_datapaths(cfg, &new_warnings);
    SHASH_FOR_EACH (node, &datapaths) {
        apply_datapath(node->name, node->data, &config, &new_guests,
                       &new_warnings);
    }
    swap_warnings(&new_warnings);
    sset_destroy(&new_warnings);
    swap_guests(&new_guests);
    shash_destroy(&new_guests);
}

/* Whether trying again may help. */
static bool
any_error(void)
{
    struct shash_node *node;

    SHASH_FOR_EACH (node, &acdc_guests) {
        if (((struct guest *) node->data)->error) {
            return true;
        }
    }
    SHASH_FOR_EACH (node, &acdc_tenants) {
        if (((struct tenant *) node->data)->dp_error) {
            return true;
        }
    }
    SHASH_FOR_EACH (node, &datapaths) {
        if (((struct datapath *) node->data)->config_error) {
            return true;
        }
    }
    return false;
}

/* Public functions. ------------------------------------------------------- */

void
acdc_ovsdb_init(struct ovsdb_idl *idl)
{
    acdc_binds_init(idl);
    ovsdb_idl_omit_alert(idl, &ovsrec_acdc_col_statistics);
    ovsdb_idl_omit_alert(idl, &ovsrec_acdc_col_status);
    ovsdb_idl_omit(idl, &ovsrec_acdc_col_external_ids);
    ovsdb_idl_omit(idl, &ovsrec_acdc_rule_col_external_ids);
}

bool
acdc_ovsdb_must_reconfigure(const struct ovsdb_idl *idl, unsigned int *seqno)
{
    binds_changed = acdc_binds_changed(idl, seqno) || binds_changed;
    return ovsdb_idl_get_seqno(idl) != *seqno;
}

void
acdc_ovsdb_reconfigure(const struct ovsdb_idl *idl)
{
    const struct ovsrec_open_vswitch *cfg = ovsrec_open_vswitch_first(idl);

    if (cfg) {
        reconcile(idl, cfg);
    }
}

void
acdc_ovsdb_run(struct ovsdb_idl *idl)
{
    const struct ovsrec_open_vswitch *cfg = ovsrec_open_vswitch_first(idl);
    uint64_t seqno = seq_read(connectivity_seq_get());
    bool stats_due;

    ovsdb_idl_track_clear(idl);
    if (!cfg) {
        return;
    }
    stats_due = acdc_ovsdb_status_due(idl, cfg);
    /* Connectivity changes, too, when a port comes or goes. */
    if ((seqno != connectivity_seqno && !shash_is_empty(&acdc_guests))
        || (stats_due && any_error()) || binds_changed) {
        reconcile(idl, cfg);
    }
    acdc_ovsdb_status_run(idl);

    /* What was changed here is nothing to reconcile for. */
    connectivity_seqno = seq_read(connectivity_seq_get());
    has_run = true;
}

void
acdc_ovsdb_wait(void)
{
    if (!has_run) {
        return;                 /* What is due waits for what keeps it away. */
    }
    has_run = false;
    acdc_ovsdb_status_wait();
    if (!shash_is_empty(&acdc_guests)) {
        seq_wait(connectivity_seq_get(), connectivity_seqno);
    }
}

const struct acdc_ovsdb_tenant *
acdc_ovsdb_get_tenant(const char *name)
{
    const struct tenant *t = shash_find_data(&acdc_tenants, name);

    return t ? &t->up : NULL;
}

void
acdc_ovsdb_get_problems(const char *tenant, struct svec *problems)
{
    struct shash_node *node;
    const char *warning;

    SHASH_FOR_EACH (node, &acdc_tenants) {
        const struct tenant *t = node->data;
        const char *error = t->usable ? t->dp_error : t->up.error;

        if (error && (!tenant || !strcmp(tenant, node->name))) {
            svec_add_nocopy(problems, xasprintf("tenant %s: %s", node->name,
                                                error));
        }
    }
    SHASH_FOR_EACH (node, &acdc_guests) {
        const struct guest *g = node->data;

        if (g->error && (!tenant || acdc_guest_concerns(g, tenant))) {
            svec_add_nocopy(problems, xasprintf(
                "port %s, tenant %s: %s", node->name,
                tenant ? tenant : g->tenant, g->error));
        }
    }
    if (!tenant) {
        SSET_FOR_EACH (warning, &warnings) {
            svec_add(problems, warning);
        }
    }
    svec_sort(problems);
}

void
acdc_ovsdb_get_datapaths(struct svec *types)
{
    struct shash_node *node;

    svec_init(types);
    SHASH_FOR_EACH (node, &datapaths) {
        svec_add(types, node->name);
    }
    svec_sort(types);
}

int
acdc_ovsdb_open(const char *type, struct dpif **dpifp)
{
    /* The name that open_dpif_backer() of ofproto-dpif.c gives it. */
    char *name = xasprintf("ovs-%s", type);
    uint64_t seqno = seq_read(connectivity_seq_get());
    struct sset types;
    int error;

    /* dpif_open() would warn of an unknown type each time. */
    sset_init(&types);
    dp_enumerate_types(&types);
    *dpifp = NULL;
    error = sset_contains(&types, type) ? dpif_open(name, type, dpifp)
                                        : EAFNOSUPPORT;
    sset_destroy(&types);
    free(name);
    /* That opens the netdevs of its tunnels, which is a change of connectivity too:
     * not one to reconcile for. */
    if (seqno == connectivity_seqno) {
        connectivity_seqno = seq_read(connectivity_seq_get());
    }
    return error;
}
