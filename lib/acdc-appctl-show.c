/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-appctl-private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acdc-dpif.h"
#include "acdc-ovs-params.h"
#include "acdc-ovsdb.h"
#include "openvswitch/json.h"
#include "svec.h"
#include "util.h"

/* Sums over the established connections of a tenant whose both ends have
 * AC/DC. */
struct means {
    uint64_t n;
    uint64_t alpha, window, srtt_us, net_rtt_us, delay_us;
    /* How many have a value of at most 2 to the power of the index, and of more
     * than half of that. */
    uint32_t windows[32], srtts[32];    /* Bytes; us, 0: no sample. */
    uint32_t net_rtts[32], delays[32];  /* Likewise; of those that are timed. */
};

/* The guest ports of a datapath. */
struct ports {
    struct acdc_port_info *infos;
    size_t n;
};

static double
ratio(double a, double b)
{
    return b ? a / b : 0;
}

static void
put_int(struct json *json, const char *name, int64_t value)
{
    json_object_put(json, name, json_integer_create(value));
}

/* The same for a member of a structure. */
#define PUT_MEMBER(JSON, STRUCT, MEMBER) put_int(JSON, #MEMBER, (STRUCT)->MEMBER)

/* Nothing where there is no 'value'. */
static void
put_string(struct json *json, const char *name, const char *value)
{
    if (value) {
        json_object_put_string(json, name, value);
    }
}

void
acdc_appctl_add_means(struct report *r, const struct acdc_flow_info *f)
{
    struct means *m;

    /* One that sends nothing has the alpha and the window it began with. */
    if (!f->capable || f->state != ACDC_FLOW_ESTABLISHED || !f->fb_total) {
        return;
    }
    m = shash_find_data(&r->means, f->tenant);
    if (!m) {
        m = xzalloc(sizeof *m);
        shash_add(&r->means, f->tenant, m);
    }
    m->n++;
    m->alpha += f->alpha;
    m->window += f->window;
    m->srtt_us += f->srtt_us;
    m->net_rtt_us += f->net_rtt_us;
    m->delay_us += f->delay_us;
    m->windows[log_2_ceil(MAX(f->window, 1)) & 31]++;
    m->srtts[log_2_ceil(MAX(f->srtt_us, 1)) & 31] += f->srtt_us != 0;
    if (f->net_rtt_us) {
        m->net_rtts[log_2_ceil(f->net_rtt_us) & 31]++;
        m->delays[log_2_ceil(MAX(f->delay_us, 1)) & 31]++;
    }
}

/* As text. ---------------------------------------------------------------- */

static void
put_ports(struct ds *ds, const struct ports *ports, const char *tenant)
{
    const char *sep = "";

    ds_put_cstr(ds, "  ports:");
    for (size_t i = 0; i < ports->n; i++) {
        const struct acdc_port_info *info = &ports->infos[i];

        if (!strcmp(info->tenant, tenant)) {
            ds_put_format(ds, "%s %s (%"PRIu32" flows, MTU %"PRIu32")",
                          sep, info->name, info->n_flows, info->mtu);
            sep = ",";
        }
    }
    ds_put_cstr(ds, sep[0] ? "\n" : " none\n");
}

static void
put_untouched(struct ds *ds, const struct acdc_tenant_stats *s)
{
    static const char prefix[] = "untouched_";
    const char *sep = "";

    ds_put_cstr(ds, "  untouched:");
    for (size_t i = 0; i < ACDC_N_COUNTERS; i++) {
        if (!strncmp(acdc_counter_names[i], prefix, strlen(prefix))
            && s->counters[i]) {
            ds_put_format(ds, "%s %"PRIu64" %s", sep, s->counters[i],
                          acdc_counter_names[i] + strlen(prefix));
            sep = ",";
        }
    }
    ds_put_cstr(ds, sep[0] ? "\n" : " none\n");
}

static void
put_configuration(struct ds *ds, const struct acdc_tenant_stats *s)
{
    const struct acdc_ovsdb_tenant *t = acdc_ovsdb_get_tenant(s->name);

    ds_put_format(ds, "tenant %s: ", s->name);
    acdc_params_format(&s->params, ds);
    for (size_t i = 0; t && i < t->config.n_rules; i++) {
        const struct acdc_rule *rule = &t->config.rules[i];

        ds_put_format(ds, "  rule %"PRIuSIZE": priority %"PRIu32", %s: ", i,
                      rule->priority,
                      t->matches[i][0] ? t->matches[i] : "any");
        acdc_params_format(&rule->params, ds);
    }
    if (t && t->error) {
        ds_put_format(ds, "  error: %s\n", t->error);
    }
    if (t && t->warning) {
        ds_put_format(ds, "  warning: %s\n", t->warning);
    }
}

static void
put_tenant(struct ds *ds, const struct ports *ports,
           const struct acdc_tenant_stats *s, const struct means *m)
{
    const uint64_t *c = s->counters;

    put_configuration(ds, s);
    put_ports(ds, ports, s->name);
    ds_put_format(ds, "  flows: %"PRIu32" (%"PRIu32" half open, "
                  "%"PRIu32" with AC/DC at both ends, %"PRIu32" fallback)\n",
                  s->n_flows, s->n_half_open, s->n_capable, s->n_fallback);
    if (m) {
        ds_put_format(ds, "  window: mean %"PRIu64" bytes; alpha: mean %.4f\n",
                      m->window / m->n, acdc_fraction(m->alpha) / m->n);
    }
    ds_put_format(ds, "  CE: %.4f of the bytes received",
                  ratio(c[ACDC_C_CE_BYTES], c[ACDC_C_INGRESS_BYTES]));
    if (c[ACDC_C_ECN_REWRITTEN]) {
        ds_put_format(ds, "; ECN field rewritten on the path in %"PRIu64
                      " packets", c[ACDC_C_ECN_REWRITTEN]);
    }
    ds_put_char(ds, '\n');
    if (c[ACDC_C_RTT_SAMPLES]) {
        ds_put_format(ds, "  RTT: median %"PRIu32" us, p99 %"PRIu32" us\n",
                      s->rtt_p50_us, s->rtt_p99_us);
    }
    ds_put_format(ds, "  cuts: %"PRIu64" by marks, %"PRIu64" by loss; "
                  "%"PRIu64" timeouts, %"PRIu64" idle restarts\n",
                  c[ACDC_C_CUTS_ECN], c[ACDC_C_CUTS_LOSS],
                  c[ACDC_C_TIMEOUTS], c[ACDC_C_IDLE_RESTARTS]);
    ds_put_format(ds, "  feedback: PACK %"PRIu64" sent, %"PRIu64" received; "
                  "FACK %"PRIu64" sent, %"PRIu64" received; "
                  "%"PRIu64" window updates\n",
                  c[ACDC_C_PACK_SENT], c[ACDC_C_PACK_RECEIVED],
                  c[ACDC_C_FACK_SENT], c[ACDC_C_FACK_RECEIVED],
                  c[ACDC_C_WINDOW_UPDATES]);
    ds_put_format(ds, "  policed: %"PRIu64" packets, %"PRIu64" bytes\n",
                  c[ACDC_C_POLICED_PACKETS], c[ACDC_C_POLICED_BYTES]);
    put_untouched(ds, s);
}

static void
put_tenant_counters(struct ds *ds, const struct acdc_tenant_stats *s)
{
    ds_put_format(ds, "tenant %s (counters not shown are 0):\n", s->name);
    for (size_t i = 0; i < ACDC_N_COUNTERS; i++) {
        if (s->counters[i]) {
            ds_put_format(ds, "  %-21s %20"PRIu64"  %s\n",
                          acdc_counter_names[i], s->counters[i],
                          acdc_counter_help[i]);
        }
    }
}

static void
put_datapath(struct report *r, const char *type, const struct acdc_config *c,
             const struct acdc_stats *s)
{
    if (r->cmd == CMD_SHOW) {
        ds_put_format(&r->text, "datapath %s: %"PRIu32" of at most %"PRIu32" "
                      "flows, idle timeout %"PRIu32" s, ExID 0x%04"PRIx16"\n",
                      type, s->n_flows, c->max_flows, c->idle_timeout,
                      c->exid);
        return;
    }
    ds_put_format(&r->text, "datapath %s:\n"
                  "  flows: %"PRIu32" of at most %"PRIu32" (%"PRIu32" "
                  "half open, %"PRIu32" closed)\n", type, s->n_flows,
                  s->max_flows, s->n_half_open, s->n_closed);
    ds_put_format(&r->text, "  memory: %"PRIu64" bytes; a flow %"PRIu32" "
                  "(IPv4), %"PRIu32" (IPv6)\n", s->table_bytes,
                  s->bytes_per_flow4, s->bytes_per_flow6);
}

/* As JSON. ---------------------------------------------------------------- */

static struct json *
ports_to_json(const struct ports *ports, const char *tenant)
{
    struct json *json = json_array_create_empty();

    for (size_t i = 0; i < ports->n; i++) {
        const struct acdc_port_info *info = &ports->infos[i];

        if (!strcmp(info->tenant, tenant)) {
            struct json *port = json_object_create();

            put_string(port, "name", info->name);
            put_int(port, "port_no", info->port_no);
            put_int(port, "flows", info->n_flows);
            put_int(port, "mtu", info->mtu);
            json_array_add(json, port);
        }
    }
    return json;
}

static struct json *
rules_to_json(const struct acdc_ovsdb_tenant *t)
{
    struct json *json = json_array_create_empty();

    for (size_t i = 0; t && i < t->config.n_rules; i++) {
        struct json *rule = acdc_params_to_json(&t->config.rules[i].params);

        put_int(rule, "priority", t->config.rules[i].priority);
        put_string(rule, "match", t->matches[i]);
        json_array_add(json, rule);
    }
    return json;
}

static struct json *
counters_to_json(const struct acdc_tenant_stats *s)
{
    struct json *json = json_object_create();

    for (size_t i = 0; i < ACDC_N_COUNTERS; i++) {
        put_int(json, acdc_counter_names[i], s->counters[i]);
    }
    return json;
}

static struct json *
histogram_to_json(const uint32_t counts[32])
{
    struct json *json = json_array_create_empty();

    for (size_t i = 0; i < 32; i++) {
        json_array_add(json, json_integer_create(counts[i]));
    }
    return json;
}

static void
means_to_json(struct json *json, const struct means *m)
{
    put_int(json, "window_mean", m->window / m->n);
    json_object_put(json, "alpha_mean",
                    json_real_create(acdc_fraction(m->alpha) / m->n));
    put_int(json, "window_sum", m->window);
    put_int(json, "srtt_us_sum", m->srtt_us);
    put_int(json, "net_rtt_us_sum", m->net_rtt_us);
    put_int(json, "delay_us_sum", m->delay_us);
    json_object_put(json, "window_histogram", histogram_to_json(m->windows));
    json_object_put(json, "srtt_us_histogram", histogram_to_json(m->srtts));
    json_object_put(json, "net_rtt_us_histogram", histogram_to_json(m->net_rtts));
    json_object_put(json, "delay_us_histogram", histogram_to_json(m->delays));
}

/* Adds to 'json' what acdc/show has of a tenant, and acdc/stats has not. */
static void
tenant_to_json(struct json *json, const struct ports *ports,
               const struct acdc_tenant_stats *s, const struct means *m)
{
    const struct acdc_ovsdb_tenant *t = acdc_ovsdb_get_tenant(s->name);
    const uint64_t *c = s->counters;

    json_object_put(json, "params", acdc_params_to_json(&s->params));
    json_object_put(json, "rules", rules_to_json(t));
    json_object_put(json, "ports", ports_to_json(ports, s->name));
    put_string(json, "error", t ? t->error : NULL);
    put_string(json, "warning", t ? t->warning : NULL);
    PUT_MEMBER(json, s, n_flows);
    PUT_MEMBER(json, s, n_half_open);
    PUT_MEMBER(json, s, n_capable);
    PUT_MEMBER(json, s, n_fallback);
    if (m) {
        means_to_json(json, m);
    }
    json_object_put(json, "ce_fraction",
                    json_real_create(ratio(c[ACDC_C_CE_BYTES],
                                           c[ACDC_C_INGRESS_BYTES])));
    PUT_MEMBER(json, s, rtt_p50_us);
    PUT_MEMBER(json, s, rtt_p99_us);
}

static struct json *
datapath_to_json(const char *type, const struct acdc_config *c,
                 const struct acdc_stats *s)
{
    struct json *json = json_object_create();

    put_string(json, "datapath", type);
    PUT_MEMBER(json, c, max_flows);
    PUT_MEMBER(json, c, idle_timeout);
    PUT_MEMBER(json, c, exid);
    json_object_put(json, "clock_synced", json_boolean_create(c->clock_synced));
    PUT_MEMBER(json, s, n_flows);
    PUT_MEMBER(json, s, n_half_open);
    PUT_MEMBER(json, s, n_closed);
    PUT_MEMBER(json, s, bytes_per_flow4);
    PUT_MEMBER(json, s, bytes_per_flow6);
    PUT_MEMBER(json, s, table_bytes);
    return json;
}

/* Reports. ---------------------------------------------------------------- */

static int
compare_tenants(const void *a_, const void *b_)
{
    const struct acdc_tenant_stats *a = a_;
    const struct acdc_tenant_stats *b = b_;

    return strcmp(a->name, b->name);
}

/* Returns the tenants of 'dpif' called 'name', NULL: all, sorted by name, '*n'
 * of them.  The caller must free() them. */
static struct acdc_tenant_stats *
get_tenants(struct dpif *dpif, const char *name, size_t *n)
{
    struct acdc_tenant_stats *tenants = NULL;
    size_t allocated = 0;
    int error = 0;

    *n = 0;
    for (int i = 0; !error; i++) {
        if (*n >= allocated) {
            tenants = x2nrealloc(tenants, &allocated, sizeof *tenants);
        }
        error = acdc_dpif_get_tenant(dpif, i, &tenants[*n]);
        if (!error && (!name || !strcmp(name, tenants[*n].name))) {
            ++*n;
        }
    }
    qsort(tenants, *n, sizeof *tenants, compare_tenants);
    return tenants;
}

/* The ports of 'dpif'.  The caller must free() 'infos'. */
static struct ports
get_ports(struct dpif *dpif)
{
    struct ports ports = { .n = 0 };
    size_t allocated = 0;

    for (;; ports.n++) {
        if (ports.n >= allocated) {
            ports.infos = x2nrealloc(ports.infos, &allocated,
                                     sizeof *ports.infos);
        }
        if (acdc_dpif_get_port(dpif, ports.n, &ports.infos[ports.n])) {
            return ports;
        }
    }
}

static void
report_tenant(struct report *r, const char *type, const struct ports *ports,
              const struct acdc_tenant_stats *s)
{
    const struct means *m = shash_find_data(&r->means, s->name);

    if (r->query.json) {
        struct json *json = json_object_create();

        put_string(json, "datapath", type);
        put_string(json, "name", s->name);
        if (r->cmd == CMD_SHOW) {
            tenant_to_json(json, ports, s, m);
        }
        json_object_put(json, "counters", counters_to_json(s));
        json_array_add(r->tenants, json);
    } else if (r->cmd == CMD_SHOW) {
        put_tenant(&r->text, ports, s, m);
    } else {
        put_tenant_counters(&r->text, s);
    }
}

void
acdc_appctl_report_error(struct report *r, const char *type, int error)
{
    ds_put_format(&r->text, "datapath %s: %s\n", type,
                  (error == EOPNOTSUPP ? "does not support AC/DC"
                   : ovs_strerror(error)));
}

void
acdc_appctl_report(struct report *r, const char *type, struct dpif *dpif)
{
    struct acdc_tenant_stats *tenants;
    struct acdc_config config;
    struct acdc_stats stats;
    struct ports ports = { .n = 0 };
    size_t n;
    int error;

    error = acdc_dpif_get_stats(dpif, &stats);
    if (!error) {
        error = acdc_dpif_get_config(dpif, &config);
    }
    if (error) {
        acdc_appctl_report_error(r, type, error);
        return;
    }
    if (r->query.json) {
        json_array_add(r->datapaths, datapath_to_json(type, &config, &stats));
    } else {
        put_datapath(r, type, &config, &stats);
    }

    tenants = get_tenants(dpif, r->query.tenant, &n);
    if (r->cmd == CMD_SHOW) {
        ports = get_ports(dpif);
    }
    for (size_t i = 0; i < n; i++) {
        report_tenant(r, type, &ports, &tenants[i]);
    }
    free(ports.infos);
    free(tenants);
}

char *
acdc_appctl_report_finish(struct report *r)
{
    struct svec problems = SVEC_EMPTY_INITIALIZER;
    struct json *array, *json;
    const char *problem;
    size_t i;
    char *s;

    if (r->cmd == CMD_SHOW) {
        acdc_ovsdb_get_problems(r->query.tenant, &problems);
    }
    if (!r->query.json) {
        SVEC_FOR_EACH (i, problem, &problems) {
            ds_put_format(&r->text, "problem: %s\n", problem);
        }
        svec_destroy(&problems);
        return ds_steal_cstr(&r->text);
    }

    json = json_object_create();
    json_object_put(json, "datapaths", r->datapaths);
    json_object_put(json, "tenants", r->tenants);
    if (r->cmd == CMD_SHOW) {
        array = json_array_create_empty();
        SVEC_FOR_EACH (i, problem, &problems) {
            json_array_add(array, json_string_create(problem));
        }
        json_object_put(json, "problems", array);
    }
    svec_destroy(&problems);
    s = json_to_string(json, JSSF_SORT);
    json_destroy(json);
    return s;
}
