/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-ovsdb.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "acdc-dpif.h"
#include "acdc-match.h"
#include "connectivity.h"
#include "coverage.h"
#include "dpif.h"
#include "netdev.h"
#include "netdev-provider.h"
#include "odp-util.h"
#include "ofproto/ofproto.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/shash.h"
#include "openvswitch/vlog.h"
#include "ovsdb-idl.h"
#include "seq.h"
#include "simap.h"
#include "smap.h"
#include "sset.h"
#include "svec.h"
#include "timeval.h"
#include "util.h"
#include "uuid.h"
#include "vswitch-idl.h"

VLOG_DEFINE_THIS_MODULE(acdc_ovsdb);

COVERAGE_DEFINE(acdc_reconcile);
COVERAGE_DEFINE(acdc_tenant_set);
COVERAGE_DEFINE(acdc_tenant_del);
COVERAGE_DEFINE(acdc_port_set);
COVERAGE_DEFINE(acdc_stats_update);

/* A hypervisor binds a few hundred ports when it starts. */
static struct vlog_rate_limit rl = VLOG_RATE_LIMIT_INIT(60, 500);

/* Counters that an operator wants to hear of when they move. */
static const struct event {
    enum acdc_counter counter;
    enum vlog_level level;
} events[] = {
    { ACDC_C_POLICED_PACKETS, VLL_INFO },
    { ACDC_C_FORGED, VLL_WARN },
    { ACDC_C_FEEDBACK_BAD, VLL_WARN },
    { ACDC_C_FEEDBACK_LOST, VLL_INFO },
    { ACDC_C_UNTOUCHED_TABLE_FULL, VLL_WARN },
    { ACDC_C_UNTOUCHED_HALF_OPEN, VLL_WARN },
    { ACDC_C_UNTOUCHED_MEMORY, VLL_WARN },
};

struct tenant {
    struct acdc_ovsdb_tenant up;
    unsigned int generation;    /* Of 'up.config'; never 0. */
    bool usable;                /* 'up.config' may be sent to a datapath. */
    bool in_db;                 /* Seen in the database in this pass. */
    char *dp_error;             /* From the datapaths, or NULL. */

    /* Sums over the datapaths, at the latest update of statistics. */
    struct acdc_tenant_stats stats;
    bool has_stats;             /* There was one. */
    uint64_t seen[ARRAY_SIZE(events)]; /* Of 'stats', last looked at. */
};

/* A datapath type in use. */
struct datapath {
    struct simap sent;          /* Tenant name -> 'generation' last sent. */
    struct shash ports;         /* Wanted: interface name -> tenant name. */
};

/* An interface with other_config:acdc-tenant. */
struct guest {
    char *tenant;
    char *error;                /* Why it is not bound, or NULL. */
};

static struct shash tenants = SHASH_INITIALIZER(&tenants);
static struct shash datapaths = SHASH_INITIALIZER(&datapaths);
static struct shash guests = SHASH_INITIALIZER(&guests);

/* What is wrong with settings in tables other than our own, which have no
 * place for it. */
static struct sset warnings = SSET_INITIALIZER(&warnings);

static uint64_t connectivity_seqno;
static unsigned int last_generation;

/* Writing statistics and status. */
static struct ovsdb_idl_txn *status_txn;
static bool status_dirty;
static long long int stats_timer = LLONG_MAX;
#define STATUS_RETRY_MSEC 1000

static void
replace(char **sp, char *s)
{
    free(*sp);
    *sp = s;
}

/* Reading the configuration. ---------------------------------------------- */

static bool
parse_integer(const char *s, long long int min, long long int max,
              long long int *valuep)
{
    return str_to_llong(s, 0, valuep) && *valuep >= min && *valuep <= max;
}

/* Returns the integer at 'key' of 'other_config', 'def' if there is none.  If
 * it is not within 'min'...'max', appends why to 'errors' and returns
 * 'def'. */
static long long int
get_integer(const struct smap *other_config, const char *key,
            long long int min, long long int max, long long int def,
            struct ds *errors)
{
    const char *s = smap_get(other_config, key);
    long long int value;

    if (!s) {
        return def;
    }
    if (!parse_integer(s, min, max, &value)) {
        ds_put_format(errors, "other_config:%s: \"%s\" is not an integer "
                      "between %lld and %lld; ", key, s, min, max);
        return def;
    }
    return value;
}

static bool
get_bool(const struct smap *other_config, const char *key, bool def,
         struct ds *errors)
{
    const char *s = smap_get(other_config, key);

    if (!s) {
        return def;
    }
    if (strcmp(s, "true") && strcmp(s, "false")) {
        ds_put_format(errors, "other_config:%s: \"%s\" is neither true nor "
                      "false; ", key, s);
        return def;
    }
    return !strcmp(s, "true");
}

/* As get_integer(), for Open_vSwitch:other_config. */
static long long int
get_global(const struct smap *other_config, const char *key,
           long long int min, long long int max, long long int def,
           struct sset *new_warnings)
{
    struct ds errors = DS_EMPTY_INITIALIZER;
    long long int value = get_integer(other_config, key, min, max, def,
                                      &errors);

    if (errors.length) {
        ds_put_format(&errors, "using the default, %lld", def);
        sset_add_and_free(new_warnings, xasprintf("Open_vSwitch %s",
                                                  ds_cstr(&errors)));
    }
    ds_destroy(&errors);
    return value;
}

static void
parse_config(const struct ovsrec_open_vswitch *cfg, struct acdc_config *c,
             struct sset *new_warnings)
{
    const struct smap *oc = &cfg->other_config;

    c->max_flows = get_global(oc, "acdc-max-flows", 1, ACDC_FLOWS_MAX,
                              ACDC_MAX_FLOWS_DEFAULT, new_warnings);
    c->idle_timeout = get_global(oc, "acdc-idle-timeout", 1, 2000000,
                                 ACDC_IDLE_TIMEOUT_DEFAULT, new_warnings);
    c->exid = get_global(oc, "acdc-exid", 0, UINT16_MAX, ACDC_OPT_EXID,
                         new_warnings);
}

/* Our keys of other_config, by table. */
static const char *const global_keys[] = {
    "acdc-max-flows", "acdc-idle-timeout", "acdc-exid", NULL
};
static const char *const iface_keys[] = { "acdc-tenant", NULL };
static const char *const no_keys[] = { NULL };
static const char *const rule_keys[] = {
    "ecn-syn", "align-mss", "spread-cuts", "small-windows", NULL
};
static const char *const tenant_keys[] = {
    "ecn-syn", "align-mss", "spread-cuts", "small-windows", "max-half-open",
    NULL
};

static bool
is_known(const char *const *known, const char *key)
{
    for (; *known; known++) {
        if (!strcmp(*known, key)) {
            return true;
        }
    }
    return false;
}

/* Appends to 'ds' the keys of 'other_config', of a row of our own tables, that
 * are not in 'known'. */
static void
check_keys(const struct smap *other_config, const char *const *known,
           struct ds *ds)
{
    const struct smap_node **nodes = smap_sort(other_config);

    for (size_t i = 0; i < smap_count(other_config); i++) {
        if (!is_known(known, nodes[i]->key)) {
            ds_put_format(ds, "other_config:%s: unknown key, not used; "
                          "allowed:", nodes[i]->key);
            for (const char *const *k = known; *k; k++) {
                ds_put_format(ds, " %s", *k);
            }
            ds_put_cstr(ds, "; ");
        }
    }
    free(nodes);
}

/* Likewise, of a row of another table: those that begin with "acdc-". */
static void
check_other_keys(const char *table, const char *name,
                 const struct smap *other_config, const char *const *known,
                 struct sset *new_warnings)
{
    const struct smap_node *node;

    SMAP_FOR_EACH (node, other_config) {
        if (!strncmp(node->key, "acdc-", 5) && !is_known(known, node->key)) {
            sset_add_and_free(new_warnings, xasprintf(
                "%s%s%s other_config:%s: unknown key, not used; AC/DC has "
                "Interface other_config:acdc-tenant and Open_vSwitch "
                "other_config:acdc-max-flows, acdc-idle-timeout, acdc-exid",
                table, name[0] ? " " : "", name, node->key));
        }
    }
}

static uint32_t
fraction_from_double(double d)
{
    return d * ACDC_FIX_ONE + .5;
}

static uint8_t
name_to_index(const char *name, const char *const *names, uint8_t n,
              uint8_t def)
{
    for (uint8_t i = 0; i < n; i++) {
        if (!strcmp(name, names[i])) {
            return i;
        }
    }
    return def;                 /* Not reached, the schema has an enum. */
}

/* Overrides '*P' by the columns that are set in ROW, which points to a row of
 * ACDC or ACDC_Rule: the columns have the same names.  Appends what is wrong
 * to ERRORS. */
#define PARSE_PARAMS(ROW, P, ERRORS)                                        \
    do {                                                                    \
        if ((ROW)->n_enabled) {                                             \
            (P)->enabled = (ROW)->enabled[0];                               \
        }                                                                   \
        if ((ROW)->algorithm) {                                             \
            (P)->algorithm = name_to_index((ROW)->algorithm,                \
                                           acdc_algorithm_names,            \
                                           ACDC_N_ALGS, (P)->algorithm);    \
        }                                                                   \
        if ((ROW)->fallback) {                                              \
            (P)->fallback = name_to_index((ROW)->fallback,                  \
                                          acdc_algorithm_names,             \
                                          ACDC_N_ALGS, (P)->fallback);      \
        }                                                                   \
        if ((ROW)->mode) {                                                  \
            (P)->mode = name_to_index((ROW)->mode, acdc_mode_names,         \
                                      ACDC_N_MODES, (P)->mode);             \
        }                                                                   \
        if ((ROW)->n_beta) {                                                \
            (P)->beta = fraction_from_double((ROW)->beta[0]);               \
        }                                                                   \
        if ((ROW)->n_gain) {                                                \
            (P)->gain = MAX(fraction_from_double((ROW)->gain[0]), 1);       \
        }                                                                   \
        if ((ROW)->n_initial_window) {                                      \
            (P)->initial_window = (ROW)->initial_window[0];                 \
        }                                                                   \
        if ((ROW)->n_min_window) {                                          \
            (P)->min_window = (ROW)->min_window[0];                         \
        }                                                                   \
        if ((ROW)->n_max_window) {                                          \
            (P)->max_window = (ROW)->max_window[0];                         \
        }                                                                   \
        if ((ROW)->n_police) {                                              \
            (P)->police = (ROW)->police[0];                                 \
        }                                                                   \
        (P)->ecn_syn = get_bool(&(ROW)->other_config, "ecn-syn",            \
                                (P)->ecn_syn, ERRORS);                      \
        (P)->align_mss = get_bool(&(ROW)->other_config, "align-mss",        \
                                  (P)->align_mss, ERRORS);                  \
        (P)->spread_cuts = get_bool(&(ROW)->other_config, "spread-cuts",    \
                                    (P)->spread_cuts, ERRORS);              \
        (P)->small_windows = get_bool(&(ROW)->other_config,                 \
                                      "small-windows",                      \
                                      (P)->small_windows, ERRORS);          \
        if ((P)->max_window && (P)->min_window > (P)->max_window) {         \
            ds_put_format(ERRORS, "min_window %"PRIu32" exceeds "           \
                          "max_window %"PRIu32"; ",                         \
                          (P)->min_window, (P)->max_window);                \
        }                                                                   \
    } while (0)

/* Larger priority first.  Among equals the order must only be stable, so that
 * unrelated changes do not look like a change of the tenant. */
static int
compare_rules(const void *a_, const void *b_)
{
    const struct ovsrec_acdc_rule *a = *(struct ovsrec_acdc_rule *const *) a_;
    const struct ovsrec_acdc_rule *b = *(struct ovsrec_acdc_rule *const *) b_;

    return (a->priority != b->priority
            ? (a->priority < b->priority ? 1 : -1)
            : uuid_compare_3way(&a->header_.uuid, &b->header_.uuid));
}

static void
parse_rules(const struct ovsrec_acdc *row, struct acdc_ovsdb_tenant *t,
            struct ds *errors, struct ds *warns)
{
    struct ovsrec_acdc_rule **rows = xmemdup(row->rules,
                                             row->n_rules * sizeof *rows);
    struct acdc_rule *rules = xcalloc(row->n_rules, sizeof *rules);
    size_t n = 0;

    qsort(rows, row->n_rules, sizeof *rows, compare_rules);
    t->matches = xcalloc(row->n_rules, sizeof *t->matches);
    for (size_t i = 0; i < row->n_rules; i++) {
        const struct ovsrec_acdc_rule *rule = rows[i];
        struct ds rule_errors = DS_EMPTY_INITIALIZER;
        struct ds rule_warns = DS_EMPTY_INITIALIZER;
        char error[256];

        rules[n].priority = rule->priority;
        rules[n].params = t->config.params;
        PARSE_PARAMS(rule, &rules[n].params, &rule_errors);
        if (!acdc_match_parse(rule->match, &rules[n].match,
                              error, sizeof error)) {
            ds_put_format(&rule_errors, "match \"%s\": %s; ",
                          rule->match, error);
        }
        if (rule_errors.length) {
            ds_put_format(errors, "rule "UUID_FMT": %s",
                          UUID_ARGS(&rule->header_.uuid),
                          ds_cstr(&rule_errors));
        } else {
            t->matches[n++] = xstrdup(rule->match);
        }
        check_keys(&rule->other_config, rule_keys, &rule_warns);
        if (rule_warns.length) {
            ds_put_format(warns, "rule "UUID_FMT": %s",
                          UUID_ARGS(&rule->header_.uuid),
                          ds_cstr(&rule_warns));
        }
        ds_destroy(&rule_errors);
        ds_destroy(&rule_warns);
    }
    t->config.rules = rules;
    t->config.n_rules = n;
    free(rows);
}

/* Takes 'ds', a list each of whose elements ends with "; ".  Returns it as a
 * string, NULL if it is empty. */
static char *
steal_list(struct ds *ds)
{
    ds_chomp(ds, ' ');
    ds_chomp(ds, ';');
    if (!ds->length) {
        ds_destroy(ds);
        return NULL;
    }
    return ds_steal_cstr(ds);
}

static void
parse_tenant(const struct ovsrec_acdc *row, struct acdc_ovsdb_tenant *t)
{
    struct ds errors = DS_EMPTY_INITIALIZER;
    struct ds warns = DS_EMPTY_INITIALIZER;

    memset(t, 0, sizeof *t);
    t->config.params = acdc_params_default;
    PARSE_PARAMS(row, &t->config.params, &errors);
    t->config.max_half_open = get_integer(&row->other_config, "max-half-open",
                                          1, ACDC_FLOWS_MAX,
                                          ACDC_HALF_OPEN_DEFAULT, &errors);
    check_keys(&row->other_config, tenant_keys, &warns);
    parse_rules(row, t, &errors, &warns);

    /* The schema limits characters, which may have several bytes. */
    if (strlen(row->name) >= sizeof t->config.name) {
        ds_put_format(&errors, "name is longer than %"PRIuSIZE" bytes; ",
                      sizeof t->config.name - 1);
    } else {
        ovs_strlcpy(t->config.name, row->name, sizeof t->config.name);
    }

    t->error = steal_list(&errors);
    t->warning = steal_list(&warns);
}

static void
tenant_uninit(struct acdc_ovsdb_tenant *t)
{
    for (size_t i = 0; i < t->config.n_rules; i++) {
        free(t->matches[i]);
    }
    free(t->matches);
    free(CONST_CAST(struct acdc_rule *, t->config.rules));
    free(t->error);
    free(t->warning);
}

/* memcmp() would compare the padding, too. */
static bool
params_equal(const struct acdc_params *a, const struct acdc_params *b)
{
    return (a->beta == b->beta
            && a->gain == b->gain
            && a->initial_window == b->initial_window
            && a->min_window == b->min_window
            && a->max_window == b->max_window
            && a->algorithm == b->algorithm
            && a->fallback == b->fallback
            && a->mode == b->mode
            && a->enabled == b->enabled
            && a->police == b->police
            && a->ecn_syn == b->ecn_syn
            && a->align_mss == b->align_mss
            && a->spread_cuts == b->spread_cuts
            && a->small_windows == b->small_windows);
}

static bool
tenant_equal(const struct acdc_ovsdb_tenant *a,
             const struct acdc_ovsdb_tenant *b)
{
    if (!params_equal(&a->config.params, &b->config.params)
        || a->config.max_half_open != b->config.max_half_open
        || a->config.n_rules != b->config.n_rules) {
        return false;
    }
    for (size_t i = 0; i < a->config.n_rules; i++) {
        const struct acdc_rule *x = &a->config.rules[i];
        const struct acdc_rule *y = &b->config.rules[i];

        if (x->priority != y->priority
            || strcmp(a->matches[i], b->matches[i])
            || !params_equal(&x->params, &y->params)) {
            return false;
        }
    }
    return true;
}

/* Logs 'new', what is wrong with the tenant's row, unless it is what 'old' is
 * already. */
static void
log_tenant(const char *name, const char *old, const char *new)
{
    if (!nullable_string_is_equal(old, new)) {
        if (new) {
            VLOG_WARN("tenant %s: %s", name, new);
        }
        status_dirty = true;
    }
}

/* Brings 'tenants' up to date with the database.  A tenant whose row has an
 * error keeps the configuration it had; a new one, for example after a
 * restart, gets what is valid. */
static void
read_tenants(const struct ovsdb_idl *idl)
{
    const struct ovsrec_acdc *row;
    struct shash_node *node;

    SHASH_FOR_EACH (node, &tenants) {
        struct tenant *t = node->data;

        t->in_db = false;
    }

    OVSREC_ACDC_FOR_EACH (row, idl) {
        struct tenant *t = shash_find_data(&tenants, row->name);
        struct acdc_ovsdb_tenant new;

        parse_tenant(row, &new);
        log_tenant(row->name, t ? t->up.error : NULL, new.error);
        log_tenant(row->name, t ? t->up.warning : NULL, new.warning);
        if (!t) {
            t = xzalloc(sizeof *t);
            t->up = new;
            t->usable = new.config.name[0] != '\0';
            t->generation = ++last_generation;
            shash_add(&tenants, row->name, t);
        } else if (new.error || tenant_equal(&t->up, &new)) {
            replace(&t->up.error, nullable_xstrdup(new.error));
            replace(&t->up.warning, nullable_xstrdup(new.warning));
            tenant_uninit(&new);
        } else {
            tenant_uninit(&t->up);
            t->up = new;
            t->generation = ++last_generation;
        }
        t->in_db = true;
        replace(&t->dp_error, NULL);
    }

    SHASH_FOR_EACH_SAFE (node, &tenants) {
        struct tenant *t = node->data;

        if (!t->in_db) {
            shash_delete(&tenants, node);
            tenant_uninit(&t->up);
            free(t->dp_error);
            free(t);
        }
    }
}

/* Brings 'datapaths' and their wanted ports up to date with the database. */
static void
read_datapaths(const struct ovsrec_open_vswitch *cfg,
               struct sset *new_warnings)
{
    struct shash old = SHASH_INITIALIZER(&old);
    struct shash_node *node;

    shash_swap(&old, &datapaths);
    for (size_t i = 0; i < cfg->n_bridges; i++) {
        const struct ovsrec_bridge *br = cfg->bridges[i];
        const char *type = ofproto_normalize_type(br->datapath_type);
        struct datapath *dp = shash_find_data(&datapaths, type);

        if (!dp) {
            dp = shash_find_and_delete(&old, type);
            if (dp) {
                shash_clear_free_data(&dp->ports);
            } else {
                dp = xmalloc(sizeof *dp);
                simap_init(&dp->sent);
                shash_init(&dp->ports);
            }
            shash_add(&datapaths, type, dp);
        }

        check_other_keys("Bridge", br->name, &br->other_config, no_keys,
                         new_warnings);
        for (size_t j = 0; j < br->n_ports; j++) {
            const struct ovsrec_port *port = br->ports[j];

            check_other_keys("Port", port->name, &port->other_config, no_keys,
                             new_warnings);
            for (size_t k = 0; k < port->n_interfaces; k++) {
                const struct ovsrec_interface *iface = port->interfaces[k];
                const char *tenant = smap_get(&iface->other_config,
                                              "acdc-tenant");

                check_other_keys("Interface", iface->name,
                                 &iface->other_config, iface_keys,
                                 new_warnings);
                if (tenant) {
                    shash_add_once(&dp->ports, iface->name, xstrdup(tenant));
                }
            }
        }
    }

    SHASH_FOR_EACH (node, &old) {
        struct datapath *dp = node->data;

        simap_destroy(&dp->sent);
        shash_destroy_free_data(&dp->ports);
        free(dp);
    }
    shash_destroy(&old);
}

/* Bringing a datapath to the wanted state. -------------------------------- */

static int
apply_config(struct dpif *dpif, const struct acdc_config *wanted)
{
    struct acdc_config has;
    int error = acdc_dpif_get_config(dpif, &has);

    if (!error && (has.max_flows != wanted->max_flows
                   || has.idle_timeout != wanted->idle_timeout
                   || has.exid != wanted->exid)) {
        error = acdc_dpif_set_config(dpif, wanted);
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
        struct tenant *t = shash_find_data(&tenants, sent->name);

        if (!t || !t->usable) {
            COVERAGE_INC(acdc_tenant_del);
            acdc_dpif_del_tenant(dpif, sent->name);
            simap_delete(&dp->sent, sent);
        }
    }
    SHASH_FOR_EACH (node, &tenants) {
        struct tenant *t = node->data;
        int error;

        if (!t->usable
            || simap_get(&dp->sent, node->name) == t->generation) {
            continue;
        }
        COVERAGE_INC(acdc_tenant_set);
        status_dirty = true;
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

/* Interfaces have names as long as they like, the engine keeps a part. */
static bool
same_name(const char *a, const char *b)
{
    return !strncmp(a, b, ACDC_NAME_LEN - 1);
}

/* Binds the interface 'name', which is 'odp_port' of the datapath and
 * currently bound as 'has' says (NULL: it is not), to the tenant of 'g'. */
static void
bind_port(const char *type, struct dpif *dpif, const char *name,
          odp_port_t odp_port, const struct acdc_port_info *has,
          struct guest *g)
{
    int error;

    if (has && same_name(has->name, name) && !strcmp(has->tenant, g->tenant)) {
        return;
    }
    if (has && !same_name(has->name, name)) {
        /* The number was another interface's: its flows must not stay. */
        acdc_dpif_set_port(dpif, odp_port, has->name, NULL);
    }
    COVERAGE_INC(acdc_port_set);
    error = acdc_dpif_set_port(dpif, odp_port, name, g->tenant);
    if (error) {
        g->error = xasprintf("datapath %s: %s", type, ovs_strerror(error));
    }
}

/* Moves 'dp->ports' to 'new_guests', with what became of each. */
static void
apply_ports(const char *type, struct datapath *dp, struct dpif *dpif,
            struct shash *new_guests)
{
    struct shash has = SHASH_INITIALIZER(&has);     /* By port number. */
    struct simap numbers = SIMAP_INITIALIZER(&numbers);
    struct acdc_port_info info;
    struct shash_node *node;
    char number[16];

    for (unsigned int i = 0; !acdc_dpif_get_port(dpif, i, &info); i++) {
        snprintf(number, sizeof number, "%"PRIu32, info.port_no);
        shash_add(&has, number, xmemdup(&info, sizeof info));
    }
    if (!shash_is_empty(&dp->ports)) {
        struct dpif_port_dump dump;
        struct dpif_port port;

        DPIF_PORT_FOR_EACH (&port, &dump, dpif) {
            simap_put(&numbers, port.name, odp_to_u32(port.port_no));
        }
    }

    SHASH_FOR_EACH (node, &dp->ports) {
        struct simap_node *n = simap_find(&numbers, node->name);
        struct guest *g = xzalloc(sizeof *g);
        struct tenant *t;

        g->tenant = xstrdup(node->data);
        shash_add(new_guests, node->name, g);
        t = shash_find_data(&tenants, g->tenant);
        if (!t) {
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
            bind_port(type, dpif, node->name, u32_to_odp(n->data), old, g);
            free(old);
        }
    }

    /* What is left in 'has' nobody wants. */
    SHASH_FOR_EACH (node, &has) {
        const struct acdc_port_info *old = node->data;

        COVERAGE_INC(acdc_port_set);
        acdc_dpif_set_port(dpif, u32_to_odp(old->port_no), old->name, NULL);
    }
    shash_destroy_free_data(&has);
    simap_destroy(&numbers);
}

static void
apply_datapath(const char *type, struct datapath *dp,
               const struct acdc_config *config, struct shash *new_guests)
{
    struct dpif *dpif = NULL;
    int error = acdc_ovsdb_open(type, &dpif);

    if (!error) {
        error = apply_config(dpif, config);
    }
    if (!error) {
        apply_tenants(type, dp, dpif);
        apply_ports(type, dp, dpif, new_guests);
    } else {
        struct shash_node *node;

        simap_clear(&dp->sent);
        SHASH_FOR_EACH (node, &dp->ports) {
            struct guest *g = xzalloc(sizeof *g);

            g->tenant = xstrdup(node->data);
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

/* Interface:status is bridge.c's to write, which it does when the netdev
 * says that it changed. */
static void
iface_status_changed(const char *name)
{
    struct netdev *netdev = netdev_from_name(name);

    if (netdev) {
        netdev_change_seq_changed(netdev);
        netdev_close(netdev);
    }
}

/* Has what the database says of interfaces written again where it is not
 * what acdc_ovsdb_iface_status() says.  That happens when two transactions
 * overlap: the IDL leaves out of the second what equals the database before
 * the first. */
static void
check_iface_status(const struct ovsdb_idl *idl)
{
    const struct ovsrec_interface *iface;

    OVSREC_INTERFACE_FOR_EACH (iface, idl) {
        const struct guest *g = shash_find_data(&guests, iface->name);
        const char *error = smap_get(&iface->status, "acdc_error");
        const char *tenant = smap_get(&iface->status, "acdc_tenant");

        if (!nullable_string_is_equal(error, g ? g->error : NULL)
            || !nullable_string_is_equal(tenant, (g && !g->error
                                                  ? g->tenant : NULL))) {
            iface_status_changed(iface->name);
        }
    }
}

/* Makes 'new' the guests, logs the differences. */
static void
swap_guests(struct shash *new)
{
    struct shash_node *node;

    SHASH_FOR_EACH (node, new) {
        const struct guest *old = shash_find_data(&guests, node->name);
        const struct guest *g = node->data;

        if (old && !strcmp(old->tenant, g->tenant)
            && nullable_string_is_equal(old->error, g->error)) {
            continue;
        }
        status_dirty = true;
        if (g->error) {
            VLOG_WARN_RL(&rl, "port %s, tenant %s: %s",
                         node->name, g->tenant, g->error);
        } else {
            VLOG_INFO_RL(&rl, "port %s: bound to tenant %s",
                         node->name, g->tenant);
        }
        iface_status_changed(node->name);
    }
    SHASH_FOR_EACH (node, &guests) {
        struct guest *g = node->data;

        if (!shash_find(new, node->name)) {
            VLOG_INFO_RL(&rl, "port %s: no longer of tenant %s",
                         node->name, g->tenant);
            status_dirty = true;
            iface_status_changed(node->name);
        }
        free(g->tenant);
        free(g->error);
    }
    shash_clear_free_data(&guests);
    shash_swap(&guests, new);
    if (status_dirty) {
        stats_timer = MIN(stats_timer, time_msec() + STATUS_RETRY_MSEC);
    }
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

    parse_config(cfg, &config, &new_warnings);
    check_other_keys("Open_vSwitch", "", &cfg->other_config, global_keys,
                     &new_warnings);
    read_tenants(idl);
    read_datapaths(cfg, &new_warnings);
    swap_warnings(&new_warnings);
    sset_destroy(&new_warnings);
    SHASH_FOR_EACH (node, &datapaths) {
        apply_datapath(node->name, node->data, &config, &new_guests);
    }
    swap_guests(&new_guests);
    shash_destroy(&new_guests);
}

/* Statistics and status. -------------------------------------------------- */

/* The most of both, for quantiles. */
static void
add_stats(struct acdc_tenant_stats *sum, const struct acdc_tenant_stats *s)
{
    sum->n_ports += s->n_ports;
    sum->n_flows += s->n_flows;
    sum->n_half_open += s->n_half_open;
    sum->n_capable += s->n_capable;
    sum->n_fallback += s->n_fallback;
    sum->rtt_p50_us = MAX(sum->rtt_p50_us, s->rtt_p50_us);
    sum->rtt_p99_us = MAX(sum->rtt_p99_us, s->rtt_p99_us);
    for (size_t i = 0; i < ACDC_N_COUNTERS; i++) {
        sum->counters[i] += s->counters[i];
    }
}

/* Appends the names of the ports that are bound to 'tenant'. */
static void
put_ports(const char *tenant, struct ds *ds)
{
    struct shash_node *node;
    const char *sep = "";

    SHASH_FOR_EACH (node, &guests) {
        const struct guest *g = node->data;

        if (!g->error && !strcmp(g->tenant, tenant)) {
            ds_put_format(ds, "%s%s", sep, node->name);
            sep = ", ";
        }
    }
}

/* Logs which of 'events' happened since the last time.  The first time, as
 * after a restart, there is nothing to compare the kernel's counters with. */
static void
log_events(const char *name, struct tenant *t)
{
    static struct vlog_rate_limit events_rl = VLOG_RATE_LIMIT_INIT(6, 12);

    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        const struct event *e = &events[i];
        uint64_t value = t->stats.counters[e->counter];

        /* Less: a datapath went, or was made again. */
        if (t->has_stats && value > t->seen[i]
            && !vlog_should_drop(&this_module, e->level, &events_rl)) {
            struct ds ports = DS_EMPTY_INITIALIZER;

            put_ports(name, &ports);
            VLOG(e->level, "tenant %s (ports: %s): %s +%"PRIu64": %s", name,
                 ds_cstr(&ports), acdc_counter_names[e->counter],
                 value - t->seen[i], acdc_counter_help[e->counter]);
            ds_destroy(&ports);
        }
        t->seen[i] = value;
    }
    t->has_stats = true;
}

static void
collect_stats(void)
{
    struct shash_node *node;

    COVERAGE_INC(acdc_stats_update);

    SHASH_FOR_EACH (node, &tenants) {
        struct tenant *t = node->data;

        memset(&t->stats, 0, sizeof t->stats);
    }
    SHASH_FOR_EACH (node, &datapaths) {
        struct acdc_tenant_stats s;
        struct dpif *dpif;

        if (acdc_ovsdb_open(node->name, &dpif)) {
            continue;
        }
        for (unsigned int i = 0; !acdc_dpif_get_tenant(dpif, i, &s); i++) {
            struct tenant *t = shash_find_data(&tenants, s.name);

            if (t) {
                add_stats(&t->stats, &s);
            }
        }
        dpif_close(dpif);
    }
    SHASH_FOR_EACH (node, &tenants) {
        log_events(node->name, node->data);
    }
}

static void
write_statistics(const struct ovsrec_acdc *row, const struct tenant *t)
{
    const char *keys[ACDC_N_COUNTERS + 6];
    int64_t values[ACDC_N_COUNTERS + 6];
    size_t n = 0;

#define STAT(NAME) keys[n] = #NAME, values[n++] = t->stats.NAME
    STAT(n_flows);
    STAT(n_half_open);
    STAT(n_capable);
    STAT(n_fallback);
    STAT(rtt_p50_us);
    STAT(rtt_p99_us);
#undef STAT
    for (size_t i = 0; i < ACDC_N_COUNTERS; i++) {
        keys[n] = acdc_counter_names[i];
        values[n++] = MIN(t->stats.counters[i], INT64_MAX);
    }
    ovsrec_acdc_set_statistics(row, keys, values, n);
}

static void
write_status(const struct ovsrec_acdc *row, const struct tenant *t)
{
    struct ds ports = DS_EMPTY_INITIALIZER;
    struct ds errors = DS_EMPTY_INITIALIZER;
    struct smap status = SMAP_INITIALIZER(&status);
    const struct shash_node **nodes = shash_sort(&guests);

    if (t->up.error) {
        ds_put_format(&errors, "%s; ", t->up.error);
    }
    if (t->dp_error) {
        ds_put_format(&errors, "%s; ", t->dp_error);
    }
    for (size_t i = 0; i < shash_count(&guests); i++) {
        const struct guest *g = nodes[i]->data;

        if (strcmp(g->tenant, row->name)) {
            continue;
        }
        if (!g->error) {
            ds_put_format(&ports, "%s,", nodes[i]->name);
        } else if (t->usable) {
            ds_put_format(&errors, "port %s: %s; ", nodes[i]->name, g->error);
        }
    }
    free(nodes);

    if (ds_chomp(&ports, ',')) {
        smap_add(&status, "ports", ds_cstr(&ports));
    }
    ds_chomp(&errors, ' ');
    if (ds_chomp(&errors, ';')) {
        smap_add(&status, "error", ds_cstr(&errors));
    }
    if (t->up.warning) {
        smap_add(&status, "warning", t->up.warning);
    }
    smap_add_format(&status, "flows", "%"PRIu32, t->stats.n_flows);
    ovsrec_acdc_set_status(row, &status);

    smap_destroy(&status);
    ds_destroy(&ports);
    ds_destroy(&errors);
}

static void
run_status(struct ovsdb_idl *idl)
{
    enum ovsdb_idl_txn_status result;

    /* Not a new one before the previous one is done. */
    if (!status_txn) {
        const struct ovsrec_acdc *row;

        if (!status_dirty) {
            return;
        }
        status_dirty = false;
        if (shash_is_empty(&tenants)) {
            return;
        }
        collect_stats();
        status_txn = ovsdb_idl_txn_create(idl);
        OVSREC_ACDC_FOR_EACH (row, idl) {
            const struct tenant *t = shash_find_data(&tenants, row->name);

            if (t) {
                write_statistics(row, t);
                write_status(row, t);
            }
        }
    }

    result = ovsdb_idl_txn_commit(status_txn);
    if (result != TXN_INCOMPLETE) {
        ovsdb_idl_txn_destroy(status_txn);
        status_txn = NULL;
        if (result == TXN_TRY_AGAIN) {
            stats_timer = time_msec() + STATUS_RETRY_MSEC;
        }
    }
}

/* As in run_stats_update() of bridge.c. */
static int
stats_interval(const struct ovsrec_open_vswitch *cfg)
{
    return MAX(smap_get_int(&cfg->other_config, "stats-update-interval", 5000),
               5000);
}

/* Whether trying again may help. */
static bool
any_error(void)
{
    struct shash_node *node;

    SHASH_FOR_EACH (node, &guests) {
        if (((struct guest *) node->data)->error) {
            return true;
        }
    }
    SHASH_FOR_EACH (node, &tenants) {
        if (((struct tenant *) node->data)->dp_error) {
            return true;
        }
    }
    return false;
}

/* Public functions. ------------------------------------------------------- */

void
acdc_ovsdb_init(struct ovsdb_idl *idl)
{
    ovsdb_idl_omit_alert(idl, &ovsrec_acdc_col_statistics);
    ovsdb_idl_omit_alert(idl, &ovsrec_acdc_col_status);
    ovsdb_idl_omit(idl, &ovsrec_acdc_col_external_ids);
    ovsdb_idl_omit(idl, &ovsrec_acdc_rule_col_external_ids);
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
    bool stats_due = time_msec() >= stats_timer;

    if (!cfg) {
        return;
    }
    if (stats_due) {
        stats_timer = (shash_is_empty(&tenants) && shash_is_empty(&guests)
                       ? LLONG_MAX
                       : time_msec() + stats_interval(cfg));
        status_dirty = true;
        check_iface_status(idl);
    }

    /* Connectivity changes, too, when a port comes or goes. */
    if ((seqno != connectivity_seqno && !shash_is_empty(&guests))
        || (stats_due && any_error())) {
        reconcile(idl, cfg);
    }
    run_status(idl);

    /* Opening a dpif opens the netdevs of its tunnels, which is a change of
     * connectivity too: not one to reconcile for, again and again. */
    connectivity_seqno = seq_read(connectivity_seq_get());
}

void
acdc_ovsdb_wait(void)
{
    if (status_txn) {
        ovsdb_idl_txn_wait(status_txn);
    } else if (status_dirty) {
        poll_immediate_wake();
    }
    poll_timer_wait_until(stats_timer);
    if (!shash_is_empty(&guests)) {
        seq_wait(connectivity_seq_get(), connectivity_seqno);
    }
}

void
acdc_ovsdb_iface_status(const char *name, struct smap *status)
{
    const struct guest *g = shash_find_data(&guests, name);

    if (g && g->error) {
        smap_add(status, "acdc_error", g->error);
    } else if (g) {
        smap_add(status, "acdc_tenant", g->tenant);
    }
}

const struct acdc_ovsdb_tenant *
acdc_ovsdb_get_tenant(const char *name)
{
    const struct tenant *t = shash_find_data(&tenants, name);

    return t ? &t->up : NULL;
}

void
acdc_ovsdb_get_problems(const char *tenant, struct svec *problems)
{
    struct shash_node *node;
    const char *warning;

    SHASH_FOR_EACH (node, &tenants) {
        const struct tenant *t = node->data;
        const char *error = t->usable ? t->dp_error : t->up.error;

        if (error && (!tenant || !strcmp(tenant, node->name))) {
            svec_add_nocopy(problems, xasprintf("tenant %s: %s", node->name,
                                                error));
        }
    }
    SHASH_FOR_EACH (node, &guests) {
        const struct guest *g = node->data;

        if (g->error && (!tenant || !strcmp(tenant, g->tenant))) {
            svec_add_nocopy(problems, xasprintf("port %s, tenant %s: %s",
                                                node->name, g->tenant,
                                                g->error));
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
acdc_ovsdb_get_datapaths(struct sset *types)
{
    struct shash_node *node;

    SHASH_FOR_EACH (node, &datapaths) {
        sset_add(types, node->name);
    }
}

int
acdc_ovsdb_open(const char *type, struct dpif **dpifp)
{
    /* The name that open_dpif_backer() of ofproto-dpif.c gives it. */
    char *name = xasprintf("ovs-%s", type);
    int error = dpif_open(name, type, dpifp);

    free(name);
    return error;
}
