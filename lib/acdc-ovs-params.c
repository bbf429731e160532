/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-ovs-params.h"

#include <string.h>

#include "openvswitch/dynamic-string.h"
#include "openvswitch/json.h"
#include "ovsdb-data.h"
#include "ovsdb-idl.h"
#include "smap.h"
#include "util.h"
#include "vswitch-idl.h"

enum type { TYPE_BOOL, TYPE_FRACTION, TYPE_INTEGER, TYPE_NAME };

/* The list's kinds of values: type, and names in the order of their numbers. */
#define KIND_ALGORITHM TYPE_NAME, acdc_algorithm_names
#define KIND_FALLBACK TYPE_NAME, acdc_algorithm_names
#define KIND_MODE TYPE_NAME, acdc_mode_names
#define KIND_BOOL TYPE_BOOL, NULL
#define KIND_FRACTION TYPE_FRACTION, NULL
#define KIND_INTEGER TYPE_INTEGER, NULL

/* A parameter, as the list describes it. */
struct param {
    const char *name;
    const char *key;            /* Of other_config; NULL: it is a column. */
    const struct ovsdb_idl_column *tenant, *rule;   /* NULL: it is a key. */
    enum type type;
    const char *const *names;
    uint32_t min, max;
    const char *zero, *other;   /* For acdc/show. */
};

#define KEY_COLUMN NULL
#define KEY_KEY(NAME) NAME
#define IN_TABLE_COLUMN(COLUMN) &COLUMN
#define IN_TABLE_KEY(NAME) NO_COLUMN_OF
#define NO_COLUMN_OF(COLUMN) NULL

static const struct param params[] = {
#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, MIN, MAX, DEFAULT, WHERE, ZERO,    \
                   OTHER)                                                     \
    { #NAME, KEY_##WHERE, IN_TABLE_##WHERE(ovsrec_acdc_col_##NAME),           \
      IN_TABLE_##WHERE(ovsrec_acdc_rule_col_##NAME), KIND_##KIND,             \
      MIN, MAX, ZERO, OTHER },
#include "acdc-params.h"
};

#define N_PARAMS ARRAY_SIZE(params)

/* Of 'p' the members, in the order of 'params'. */
static void
get_values(const struct acdc_params *p, uint32_t values[N_PARAMS])
{
#define ACDC_PARAM(NR, SYMBOL, NAME, ...) *values++ = p->NAME;
#include "acdc-params.h"
}

static void
set_values(struct acdc_params *p, const uint32_t values[N_PARAMS])
{
#define ACDC_PARAM(NR, SYMBOL, NAME, ...) p->NAME = *values++;
#include "acdc-params.h"
}

bool
acdc_params_equal(const struct acdc_params *a, const struct acdc_params *b)
{
    uint32_t va[N_PARAMS], vb[N_PARAMS];

    get_values(a, va);
    get_values(b, vb);
    return !memcmp(va, vb, sizeof va);
}

/* From the database. ------------------------------------------------------ */

static uint32_t
parse_atom(const struct param *param, const union ovsdb_atom *atom)
{
    uint32_t value = param->min;

    switch (param->type) {
    case TYPE_BOOL:
        value = atom->boolean;
        break;
    case TYPE_INTEGER:
        value = atom->integer;
        break;
    case TYPE_FRACTION:
        value = atom->real * ACDC_FIX_ONE + .5;
        break;
    case TYPE_NAME:
        while (value < param->max
               && strcmp(json_string(atom->s), param->names[value])) {
            value++;
        }
        break;
    }
    /* The schema has the limits, but fractions are rounded. */
    return MIN(MAX(value, param->min), param->max);
}

/* Only booleans are keys. */
static void
parse_key(const struct param *param, const struct smap *other_config,
          uint32_t *value, struct ds *errors)
{
    const char *s = smap_get(other_config, param->key);

    if (s && strcmp(s, "true") && strcmp(s, "false")) {
        ds_put_format(errors, "other_config:%s: \"%s\" is neither true nor "
                      "false; ", param->key, s);
    } else if (s) {
        *value = !strcmp(s, "true");
    }
}

static void
parse_row(const struct ovsdb_idl_row *row, bool is_rule,
          const struct smap *other_config, struct acdc_params *p,
          struct ds *errors)
{
    uint32_t values[N_PARAMS];

    get_values(p, values);
    for (size_t i = 0; i < N_PARAMS; i++) {
        const struct param *param = &params[i];
        const struct ovsdb_datum *datum;

        if (param->key) {
            parse_key(param, other_config, &values[i], errors);
            continue;
        }
        datum = ovsdb_idl_read(row, is_rule ? param->rule : param->tenant);
        if (datum->n) {
            values[i] = parse_atom(param, &datum->keys[0]);
        }
    }
    set_values(p, values);
    if (p->max_window && p->min_window > p->max_window) {
        ds_put_format(errors, "min_window %"PRIu32" exceeds "
                      "max_window %"PRIu32"; ", p->min_window, p->max_window);
    }
}

void
acdc_params_parse_tenant(const struct ovsrec_acdc *row,
                         struct acdc_params *p, struct ds *errors)
{
    parse_row(&row->header_, false, &row->other_config, p, errors);
}

void
acdc_params_parse_rule(const struct ovsrec_acdc_rule *row,
                       struct acdc_params *p, struct ds *errors)
{
    parse_row(&row->header_, true, &row->other_config, p, errors);
}

static bool
is_key(const char *key)
{
    for (size_t i = 0; i < N_PARAMS; i++) {
        if (nullable_string_is_equal(params[i].key, key)) {
            return true;
        }
    }
    return false;
}

void
acdc_params_check_keys(const struct smap *other_config, const char *another,
                       struct ds *warnings)
{
    const struct smap_node **nodes = smap_sort(other_config);

    for (size_t i = 0; i < smap_count(other_config); i++) {
        const char *key = nodes[i]->key;

        if (is_key(key) || nullable_string_is_equal(another, key)) {
            continue;
        }
        ds_put_format(warnings, "other_config:%s: unknown key, not used; "
                      "allowed:", key);
        for (size_t j = 0; j < N_PARAMS; j++) {
            if (params[j].key) {
                ds_put_format(warnings, " %s", params[j].key);
            }
        }
        ds_put_format(warnings, "%s%s; ", another ? " " : "",
                      another ? another : "");
    }
    free(nodes);
}

/* To be read. ------------------------------------------------------------- */

double
acdc_fraction(uint64_t fixed)
{
    return (double) fixed / ACDC_FIX_ONE;
}

/* Appends 'text' with the value instead of its %s. */
static void
format_value(const struct param *param, uint32_t value, const char *text,
             struct ds *ds)
{
    char number[32] = "";

    if (param->type == TYPE_INTEGER) {
        snprintf(number, sizeof number, "%"PRIu32, value);
    } else if (param->type == TYPE_FRACTION) {
        snprintf(number, sizeof number, "%.6g", acdc_fraction(value));
    }
    ds_put_format(ds, text, param->names ? param->names[value] : number);
}

void
acdc_params_format(const struct acdc_params *p, struct ds *ds)
{
    uint32_t values[N_PARAMS];

    get_values(p, values);
    ds_put_format(ds, "%s %s",
                  p->enabled ? acdc_mode_names[p->mode] : "disabled:",
                  acdc_algorithm_names[p->algorithm]);
    for (size_t i = 0; i < N_PARAMS; i++) {
        const char *text = values[i] ? params[i].other : params[i].zero;

        if (text) {
            ds_put_cstr(ds, ", ");
            format_value(&params[i], values[i], text, ds);
        }
    }
    ds_put_char(ds, '\n');
}

static struct json *
value_to_json(const struct param *param, uint32_t value)
{
    switch (param->type) {
    case TYPE_BOOL:
        return json_boolean_create(value);
    case TYPE_INTEGER:
        return json_integer_create(value);
    case TYPE_FRACTION:
        return json_real_create(acdc_fraction(value));
    case TYPE_NAME:
        return json_string_create(param->names[value]);
    }
    OVS_NOT_REACHED();
}

struct json *
acdc_params_to_json(const struct acdc_params *p)
{
    struct json *json = json_object_create();
    uint32_t values[N_PARAMS];

    get_values(p, values);
    for (size_t i = 0; i < N_PARAMS; i++) {
        json_object_put(json, params[i].name,
                        value_to_json(&params[i], values[i]));
    }
    return json;
}
