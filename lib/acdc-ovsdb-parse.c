/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-ovsdb-private.h"

#include <stdlib.h>
#include <string.h>

#include "acdc-match.h"
#include "acdc-ovs-params.h"
#include "openvswitch/dynamic-string.h"
#include "smap.h"
#include "sset.h"
#include "util.h"
#include "uuid.h"
#include "vswitch-idl.h"

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

    if (s && (!str_to_llong(s, 0, &value) || value < min || value > max)) {
        ds_put_format(errors, "other_config:%s: \"%s\" is not an integer "
                      "between %lld and %lld; ", key, s, min, max);
        return def;
    }
    return s ? value : def;
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

void
acdc_ovsdb_parse_config(const struct ovsrec_open_vswitch *cfg,
                        struct acdc_config *c, struct sset *new_warnings)
{
    const struct smap *oc = &cfg->other_config;
    const char *clock = smap_get_def(oc, "acdc-clock", "");

    c->max_flows = get_global(oc, "acdc-max-flows", 1, ACDC_FLOWS_MAX,
                              ACDC_MAX_FLOWS_DEFAULT, new_warnings);
    c->idle_timeout = get_global(oc, "acdc-idle-timeout", 1, 2000000,
                                 ACDC_IDLE_TIMEOUT_DEFAULT, new_warnings);
    c->exid = get_global(oc, "acdc-exid", 0, UINT16_MAX, ACDC_OPT_EXID,
                         new_warnings);
    c->clock_synced = !strcmp(clock, "ptp");
    if (clock[0] && !c->clock_synced) {
        sset_add_and_free(new_warnings, xasprintf(
            "Open_vSwitch other_config:acdc-clock: \"%s\" is not ptp; using none",
            clock));
    }
}

static bool
is_known_key(const char *table, const char *key)
{
    static const char *const known[][2] = {
        { "Open_vSwitch", "acdc-max-flows" },
        { "Open_vSwitch", "acdc-idle-timeout" },
        { "Open_vSwitch", "acdc-exid" },
        { "Open_vSwitch", "acdc-clock" },
        { "Interface", "acdc-tenant" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (!strcmp(table, known[i][0]) && !strcmp(key, known[i][1])) {
            return true;
        }
    }
    return false;
}

void
acdc_ovsdb_check_keys(const char *table, const char *name,
                      const struct smap *other_config,
                      struct sset *new_warnings)
{
    const struct smap_node *node;

    SMAP_FOR_EACH (node, other_config) {
        if (!strncmp(node->key, "acdc-", 5)
            && !is_known_key(table, node->key)) {
            sset_add_and_free(new_warnings, xasprintf(
                "%s%s%s other_config:%s: unknown key, not used; AC/DC has "
                "Interface other_config:acdc-tenant and Open_vSwitch "
                "other_config:acdc-max-flows, acdc-idle-timeout, acdc-exid, "
                "acdc-clock",
                table, name[0] ? " " : "", name, node->key));
        }
    }
}

char *
acdc_ovsdb_short_name(const char *name)
{
    size_t n = strnlen(name, ACDC_NAME_LEN - 1);

    while (n && (name[n] & 0xc0) == 0x80) {
        n--;                    /* No character is cut: JSON takes none. */
    }
    return xmemdup0(name, n);
}

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

/* Moves 'src', what there is to say of 'rule', to the end of 'dst'. */
static void
move_list(const struct ovsrec_acdc_rule *rule, struct ds *src, struct ds *dst)
{
    if (src->length) {
        ds_put_format(dst, "rule "UUID_FMT": %s",
                      UUID_ARGS(&rule->header_.uuid), ds_cstr(src));
    }
    ds_destroy(src);
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
        acdc_params_parse_rule(rule, &rules[n].params, &rule_errors);
        if (!acdc_match_parse(rule->match, &rules[n].match,
                              error, sizeof error)) {
            ds_put_format(&rule_errors, "match \"%s\": %s; ",
                          rule->match, error);
        }
        if (!rule_errors.length) {
            t->matches[n++] = xstrdup(rule->match);
        }
        acdc_params_check_keys(&rule->other_config, NULL, &rule_warns);
        move_list(rule, &rule_errors, errors);
        move_list(rule, &rule_warns, warns);
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
parse_binds(const struct ovsrec_acdc *row, struct acdc_ovsdb_tenant *t,
            struct ds *errors)
{
    for (size_t i = 0; i < row->n_bind; i++) {
        if (acdc_bind_is_valid(row->bind[i])) {
            svec_add(&t->binds, row->bind[i]);
        } else {
            ds_put_format(errors, "bind \"%s\": not KEY=VALUE of an "
                          "interface's external_ids, as in "
                          "\"port-profile=blue\"; ", row->bind[i]);
        }
    }
    svec_sort(&t->binds);
}

void
acdc_ovsdb_parse_tenant(const struct ovsrec_acdc *row,
                        struct acdc_ovsdb_tenant *t)
{
    struct ds errors = DS_EMPTY_INITIALIZER;
    struct ds warns = DS_EMPTY_INITIALIZER;

    memset(t, 0, sizeof *t);
    t->config.params = acdc_params_default;
    acdc_params_parse_tenant(row, &t->config.params, &errors);
    t->config.max_half_open = get_integer(&row->other_config, "max-half-open",
                                          1, ACDC_FLOWS_MAX,
                                          ACDC_HALF_OPEN_DEFAULT, &errors);
    acdc_params_check_keys(&row->other_config, "max-half-open", &warns);
    parse_rules(row, t, &errors, &warns);
    parse_binds(row, t, &errors);

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

void
acdc_ovsdb_tenant_uninit(struct acdc_ovsdb_tenant *t)
{
    for (size_t i = 0; i < t->config.n_rules; i++) {
        free(t->matches[i]);
    }
    free(t->matches);
    svec_destroy(&t->binds);
    free(CONST_CAST(struct acdc_rule *, t->config.rules));
    free(t->error);
    free(t->warning);
}

bool
acdc_ovsdb_tenant_equal(const struct acdc_ovsdb_tenant *a,
                        const struct acdc_ovsdb_tenant *b)
{
    if (!acdc_params_equal(&a->config.params, &b->config.params)
        || a->config.max_half_open != b->config.max_half_open
        || a->config.n_rules != b->config.n_rules
        || !svec_equal(&a->binds, &b->binds)) {
        return false;
    }
    for (size_t i = 0; i < a->config.n_rules; i++) {
        const struct acdc_rule *x = &a->config.rules[i];
        const struct acdc_rule *y = &b->config.rules[i];

        if (x->priority != y->priority
            || strcmp(a->matches[i], b->matches[i])
            || !acdc_params_equal(&x->params, &y->params)) {
            return false;
        }
    }
    return true;
}
