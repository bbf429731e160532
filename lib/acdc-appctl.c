/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-appctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acdc-dpif.h"
#include "acdc-match.h"
#include "acdc-ovs-params.h"
#include "acdc-ovsdb.h"
#include "dpif.h"
#include "odp-util.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/json.h"
#include "openvswitch/list.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/shash.h"
#include "packets.h"
#include "sset.h"
#include "svec.h"
#include "timeval.h"
#include "unixctl.h"
#include "util.h"

/* How long a job may keep the main loop, and how many flows it fetches at
 * once: with 250 bytes a flow, well within the L2 cache. */
#define JOB_MSEC 5
#define JOB_FLOWS 512

/* Visiting flows costs the main loop nothing, but the reply is one string,
 * which unixctl copies and escapes in one go: 0.1 s for this many flows. */
#define DUMP_MAX 50000

enum arg {
    ARG_NAME = 1 << 0,          /* NAME, of a tenant. */
    ARG_TENANT = 1 << 1,        /* tenant=NAME */
    ARG_PORT = 1 << 2,          /* port=NAME */
    ARG_REMOTE = 1 << 3,        /* remote=ADDR[/PLEN] */
    ARG_LIMIT = 1 << 4,         /* limit=N */
};

/* The arguments of a command. */
struct query {
    bool json;
    char *tenant;               /* NULL: any. */
    char *port;                 /* NULL: any. */
    struct acdc_match match;    /* 'remote' only. */
    long long int limit;        /* Of flows to show; 0: DUMP_MAX or error. */
};

/* The reply of acdc/show and acdc/stats with --json: an object of
 * arrays. */
struct report {
    struct json *datapaths;
    struct json *tenants;       /* Each says which datapath it is of. */
    struct json *problems;      /* Strings; NULL: not of this command. */
};

/* A command that visits all flows. */
struct job {
    struct ovs_list node;       /* In 'jobs'. */
    struct unixctl_conn *conn;
    struct query query;
    struct ds reply;
    struct report report;       /* Instead of 'reply', of acdc/show --json. */
    bool is_show;               /* acdc/show rather than acdc/dump-flows. */
    long long int n_shown;      /* Flows in 'reply'. */

    struct svec types;          /* Of datapaths. */
    size_t dp_idx;              /* The one at work, index into 'types'. */
    uint64_t cursor;            /* In its dump. */
    struct acdc_flow_info flows[JOB_FLOWS];
    struct shash means;         /* acdc/show: tenant name -> struct means. */
};

/* Sums over the established connections of a tenant whose both ends have
 * AC/DC. */
struct means {
    uint64_t n;
    uint64_t alpha, window;
};

static struct ovs_list jobs = OVS_LIST_INITIALIZER(&jobs);

static const char no_datapath[] = "no datapath: there is no bridge\n";

static double
ratio(double a, double b)
{
    return b ? a / b : 0;
}

/* Arguments. -------------------------------------------------------------- */

static void
query_destroy(struct query *q)
{
    free(q->tenant);
    free(q->port);
}

static void
put_once(char **dst, const char *name, const char *value, struct ds *error)
{
    if (*dst) {
        ds_put_format(error, "%s given twice", name);
    } else {
        *dst = xstrdup(value);
    }
}

/* Parses one argument other than --json; appends to 'error' what is wrong. */
static void
parse_arg(const char *arg, int allowed, struct query *q, struct ds *error)
{
    if (allowed & ARG_TENANT && !strncmp(arg, "tenant=", 7)) {
        put_once(&q->tenant, "tenant", arg + 7, error);
    } else if (allowed & ARG_PORT && !strncmp(arg, "port=", 5)) {
        put_once(&q->port, "port", arg + 5, error);
    } else if (allowed & ARG_REMOTE && !strncmp(arg, "remote=", 7)) {
        char msg[256];

        if (q->match.remote_set) {
            ds_put_cstr(error, "remote given twice");
        } else if (strchr(arg, ',')) {
            ds_put_format(error, "%s: only one address or prefix", arg);
        } else if (!acdc_match_parse(arg, &q->match, msg, sizeof msg)) {
            ds_put_cstr(error, msg);
        }
    } else if (allowed & ARG_LIMIT && !strncmp(arg, "limit=", 6)) {
        if (q->limit) {
            ds_put_cstr(error, "limit given twice");
        } else if (!str_to_llong(arg + 6, 10, &q->limit)
                   || q->limit < 1 || q->limit > ACDC_FLOWS_MAX) {
            ds_put_format(error, "%s: limit must be an integer between 1 and "
                          "%u", arg, ACDC_FLOWS_MAX);
        }
    } else if (allowed & ARG_NAME && arg[0] != '-') {
        put_once(&q->tenant, "tenant", arg, error);
    } else {
        ds_put_format(error, "%s: unknown argument; allowed:", arg);
        ds_put_cstr(error, allowed & ARG_NAME ? " TENANT" : "");
        ds_put_cstr(error, allowed & ARG_TENANT ? " tenant=NAME" : "");
        ds_put_cstr(error, allowed & ARG_PORT ? " port=NAME" : "");
        ds_put_cstr(error, (allowed & ARG_REMOTE
                            ? " remote=ADDRESS[/LENGTH]" : ""));
        ds_put_cstr(error, allowed & ARG_LIMIT ? " limit=N" : "");
        ds_put_cstr(error, " --json");
    }
}

static void
append_names(const struct sset *names, const char *what, struct ds *error)
{
    const char **sorted = sset_sort(names);

    if (sset_is_empty(names)) {
        ds_put_format(error, "; there is no %s", what);
    } else {
        ds_put_format(error, "; %ss:", what);
        for (size_t i = 0; i < sset_count(names); i++) {
            ds_put_format(error, " %s", sorted[i]);
        }
    }
    free(sorted);
}

/* Checks that the tenant and the port of 'q' exist on some datapath.  A
 * tenant that the database has, but no datapath, for lack of bridges, is all
 * right. */
static bool
check_names(const struct query *q, struct ds *error)
{
    struct sset tenants = SSET_INITIALIZER(&tenants);
    struct sset ports = SSET_INITIALIZER(&ports);
    struct sset types = SSET_INITIALIZER(&types);
    const char *type;
    bool ok = false;

    acdc_ovsdb_get_datapaths(&types);
    SSET_FOR_EACH (type, &types) {
        struct acdc_tenant_stats tenant;
        struct acdc_port_info port;
        struct dpif *dpif;

        if (!acdc_ovsdb_open(type, &dpif)) {
            for (int i = 0; !acdc_dpif_get_tenant(dpif, i, &tenant); i++) {
                sset_add(&tenants, tenant.name);
            }
            for (int i = 0; !acdc_dpif_get_port(dpif, i, &port); i++) {
                sset_add(&ports, port.name);
            }
            dpif_close(dpif);
        }
    }

    if (q->tenant && !sset_contains(&tenants, q->tenant)
        && !acdc_ovsdb_get_tenant(q->tenant)) {
        ds_put_format(error, "%s: no such tenant", q->tenant);
        append_names(&tenants, "tenant", error);
    } else if (q->port && !sset_contains(&ports, q->port)) {
        ds_put_format(error, "%s: no such guest port", q->port);
        append_names(&ports, "guest port", error);
    } else {
        ok = true;
    }
    sset_destroy(&tenants);
    sset_destroy(&ports);
    sset_destroy(&types);
    return ok;
}

/* Parses the arguments into '*q' and returns true, or replies with an error
 * and returns false. */
static bool
parse_args(struct unixctl_conn *conn, int argc, const char *argv[],
           int allowed, struct query *q)
{
    struct ds error = DS_EMPTY_INITIALIZER;

    memset(q, 0, sizeof *q);
    for (int i = 1; i < argc && !error.length; i++) {
        if (!strcmp(argv[i], "--json")) {
            q->json = true;
        } else {
            parse_arg(argv[i], allowed, q, &error);
        }
    }
    if (!error.length && check_names(q, &error)) {
        ds_destroy(&error);
        return true;
    }
    query_destroy(q);
    unixctl_command_reply_error(conn, ds_cstr(&error));
    ds_destroy(&error);
    return false;
}

/* Destroys 'json'. */
static void
reply_json(struct unixctl_conn *conn, struct json *json)
{
    char *s = json_to_string(json, JSSF_SORT);

    unixctl_command_reply(conn, s);
    free(s);
    json_destroy(json);
}

static void
report_init(struct report *r)
{
    r->datapaths = json_array_create_empty();
    r->tenants = json_array_create_empty();
    r->problems = NULL;
}

/* Destroys 'r'. */
static void
report_reply(struct unixctl_conn *conn, struct report *r)
{
    struct json *json = json_object_create();

    json_object_put(json, "datapaths", r->datapaths);
    json_object_put(json, "tenants", r->tenants);
    if (r->problems) {
        json_object_put(json, "problems", r->problems);
    }
    reply_json(conn, json);
}

/* Flows. ------------------------------------------------------------------ */

static bool
flow_matches(const struct acdc_flow_info *f, const struct query *q)
{
    if ((q->tenant && strcmp(q->tenant, f->tenant))
        || (q->port && strcmp(q->port, f->port))) {
        return false;
    }
    if (q->match.remote_set) {
        unsigned int bytes = q->match.remote_plen / 8;
        unsigned int bits = q->match.remote_plen % 8;

        return (!memcmp(f->remote, q->match.remote, bytes)
                && (!bits || !((f->remote[bytes] ^ q->match.remote[bytes])
                               >> (8 - bits))));
    }
    return true;
}

static void
format_address(const struct acdc_flow_info *f, const uint8_t mapped[16],
               char s[INET6_ADDRSTRLEN])
{
    if (f->ip_version == 4) {
        inet_ntop(AF_INET, mapped + 12, s, INET6_ADDRSTRLEN);
    } else {
        inet_ntop(AF_INET6, mapped, s, INET6_ADDRSTRLEN);
    }
}

/* Appends one field of a flow, as NAME=VALUE or as a member of a JSON object.
 * A million flows have forty million fields: no struct json here. */
static void
put_name(struct ds *ds, bool json, const char *name)
{
    char last = ds_last(ds);

    if (json) {
        if (last != '{') {
            ds_put_char(ds, ',');
        }
        ds_put_char(ds, '"');
        ds_put_cstr(ds, name);
        ds_put_cstr(ds, "\":");
    } else {
        if (ds->length && last != '\n') {
            ds_put_char(ds, ' ');
        }
        ds_put_cstr(ds, name);
        ds_put_char(ds, '=');
    }
}

static void
put_string(struct ds *ds, bool json, const char *name, const char *value)
{
    put_name(ds, json, name);
    if (json) {
        json_string_escape(value, ds);
    } else {
        ds_put_cstr(ds, value);
    }
}

static void
put_integer(struct ds *ds, bool json, const char *name, int64_t value)
{
    put_name(ds, json, name);
    ds_put_format(ds, "%"PRId64, value);
}

static void
put_fraction(struct ds *ds, bool json, const char *name, uint32_t value)
{
    put_name(ds, json, name);
    ds_put_format(ds, "%.6g", acdc_fraction(value));
}

static void
put_bool(struct ds *ds, bool json, const char *name, bool value)
{
    put_name(ds, json, name);
    ds_put_cstr(ds, value ? "true" : "false");
}

static void
put_endpoints(struct ds *ds, bool json, const struct acdc_flow_info *f)
{
    char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];

    format_address(f, f->local, local);
    format_address(f, f->remote, remote);
    if (json) {
        put_string(ds, json, "local", local);
        put_integer(ds, json, "local_port", f->local_port);
        put_string(ds, json, "remote", remote);
        put_integer(ds, json, "remote_port", f->remote_port);
    } else {
        bool v4 = f->ip_version == 4;

        ds_put_format(ds, v4 ? " %s:%"PRIu16 : " [%s]:%"PRIu16,
                      local, f->local_port);
        ds_put_format(ds, v4 ? ">%s:%"PRIu16 : ">[%s]:%"PRIu16,
                      remote, f->remote_port);
    }
}

/* Appends 'f' as a line of text or a JSON object. */
static void
put_flow(struct ds *ds, bool json, const char *type,
         const struct acdc_flow_info *f)
{
    if (json) {
        ds_put_char(ds, '{');
    }
    if (type) {
        put_string(ds, json, "datapath", type);
    }
    put_string(ds, json, "tenant", f->tenant);
    put_string(ds, json, "port", f->port);
    put_endpoints(ds, json, f);
    put_string(ds, json, "state", acdc_flow_state_names[f->state]);
    put_string(ds, json, "alg", acdc_algorithm_names[f->algorithm]);
    put_string(ds, json, "mode", acdc_mode_names[f->mode]);
    put_bool(ds, json, "capable", f->capable);
    put_integer(ds, json, "rule", f->rule);
    put_fraction(ds, json, "beta", f->beta);
    put_fraction(ds, json, "alpha", f->alpha);
    put_integer(ds, json, "wnd", f->window);
    put_integer(ds, json, "ssthresh", f->ssthresh);
    put_integer(ds, json, "offered", f->offered);
    put_integer(ds, json, "in_flight", f->in_flight);
    put_integer(ds, json, "mss", f->mss);
    put_integer(ds, json, "srtt_us", f->srtt_us);
    put_integer(ds, json, "fb_ce", f->fb_ce);
    put_integer(ds, json, "fb_total", f->fb_total);
    put_integer(ds, json, "rx_ce", f->rx_ce);
    put_integer(ds, json, "rx_total", f->rx_total);
    put_integer(ds, json, "snd_una", f->snd_una);
    put_integer(ds, json, "snd_nxt", f->snd_nxt);
    put_integer(ds, json, "wscale_local", f->wscale_local);
    put_integer(ds, json, "wscale_remote", f->wscale_remote);
    put_bool(ds, json, "rescaled", f->rescaled);
    put_bool(ds, json, "sack", f->sack);
    put_bool(ds, json, "guest_ecn", f->guest_ecn);
    put_integer(ds, json, "idle_ms", f->idle_ms);
    ds_put_char(ds, json ? '}' : '\n');
}

/* acdc/show. -------------------------------------------------------------- */

static void
put_ports(struct ds *ds, struct dpif *dpif, const char *tenant)
{
    struct acdc_port_info info;
    bool any = false;

    ds_put_cstr(ds, "  ports:");
    for (int i = 0; !acdc_dpif_get_port(dpif, i, &info); i++) {
        if (!strcmp(info.tenant, tenant)) {
            ds_put_format(ds, "%s %s (%"PRIu32" flows, MTU %"PRIu32")",
                          any ? "," : "", info.name, info.n_flows, info.mtu);
            any = true;
        }
    }
    ds_put_cstr(ds, any ? "\n" : " none\n");
}

static struct json *
ports_to_json(struct dpif *dpif, const char *tenant)
{
    struct json *json = json_array_create_empty();
    struct acdc_port_info info;

    for (int i = 0; !acdc_dpif_get_port(dpif, i, &info); i++) {
        if (!strcmp(info.tenant, tenant)) {
            struct json *port = json_object_create();

            json_object_put_string(port, "name", info.name);
            json_object_put(port, "port_no",
                            json_integer_create(info.port_no));
            json_object_put(port, "flows", json_integer_create(info.n_flows));
            json_object_put(port, "mtu", json_integer_create(info.mtu));
            json_array_add(json, port);
        }
    }
    return json;
}

/* Appends the counters whose names begin with 'prefix' and are not zero. */
static void
put_counters(struct ds *ds, const struct acdc_tenant_stats *s,
             const char *prefix)
{
    bool any = false;

    for (size_t i = 0; i < ACDC_N_COUNTERS; i++) {
        if (!strncmp(acdc_counter_names[i], prefix, strlen(prefix))
            && s->counters[i]) {
            ds_put_format(ds, "%s %"PRIu64" %s", any ? "," : "",
                          s->counters[i],
                          acdc_counter_names[i] + strlen(prefix));
            any = true;
        }
    }
    ds_put_cstr(ds, any ? "\n" : " none\n");
}

static void
put_tenant(struct ds *ds, struct dpif *dpif, const struct acdc_tenant_stats *s,
           const struct means *m)
{
    const struct acdc_ovsdb_tenant *t = acdc_ovsdb_get_tenant(s->name);
    const uint64_t *c = s->counters;

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
    put_ports(ds, dpif, s->name);
    ds_put_format(ds, "  flows: %"PRIu32" (%"PRIu32" half open, "
                  "%"PRIu32" with AC/DC at both ends, %"PRIu32" fallback)\n",
                  s->n_flows, s->n_half_open, s->n_capable, s->n_fallback);
    if (m && m->n) {
        ds_put_format(ds, "  window: mean %"PRIu64" bytes; alpha: mean %.4f\n",
                      m->window / m->n, acdc_fraction(m->alpha) / m->n);
    }
    ds_put_format(ds, "  CE: %.4f of the bytes received\n",
                  ratio(c[ACDC_C_CE_BYTES], c[ACDC_C_INGRESS_BYTES]));
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
    ds_put_cstr(ds, "  untouched:");
    put_counters(ds, s, "untouched_");
}

static struct json *
counters_to_json(const struct acdc_tenant_stats *s)
{
    struct json *json = json_object_create();

    for (size_t i = 0; i < ACDC_N_COUNTERS; i++) {
        json_object_put(json, acdc_counter_names[i],
                        json_integer_create(s->counters[i]));
    }
    return json;
}

static struct json *
tenant_to_json(const char *type, struct dpif *dpif,
               const struct acdc_tenant_stats *s, const struct means *m)
{
    const struct acdc_ovsdb_tenant *t = acdc_ovsdb_get_tenant(s->name);
    struct json *json = json_object_create();
    struct json *rules = json_array_create_empty();
    const uint64_t *c = s->counters;

    for (size_t i = 0; t && i < t->config.n_rules; i++) {
        struct json *rule = acdc_params_to_json(&t->config.rules[i].params);

        json_object_put(rule, "priority",
                        json_integer_create(t->config.rules[i].priority));
        json_object_put_string(rule, "match", t->matches[i]);
        json_array_add(rules, rule);
    }
    json_object_put_string(json, "datapath", type);
    json_object_put_string(json, "name", s->name);
    json_object_put(json, "params", acdc_params_to_json(&s->params));
    json_object_put(json, "rules", rules);
    json_object_put(json, "ports", ports_to_json(dpif, s->name));
    if (t && t->error) {
        json_object_put_string(json, "error", t->error);
    }
    if (t && t->warning) {
        json_object_put_string(json, "warning", t->warning);
    }
    json_object_put(json, "n_flows", json_integer_create(s->n_flows));
    json_object_put(json, "n_half_open", json_integer_create(s->n_half_open));
    json_object_put(json, "n_capable", json_integer_create(s->n_capable));
    json_object_put(json, "n_fallback", json_integer_create(s->n_fallback));
    if (m && m->n) {
        json_object_put(json, "window_mean",
                        json_integer_create(m->window / m->n));
        json_object_put(json, "alpha_mean",
                        json_real_create(acdc_fraction(m->alpha) / m->n));
    }
    json_object_put(json, "ce_fraction",
                    json_real_create(ratio(c[ACDC_C_CE_BYTES],
                                           c[ACDC_C_INGRESS_BYTES])));
    json_object_put(json, "rtt_p50_us", json_integer_create(s->rtt_p50_us));
    json_object_put(json, "rtt_p99_us", json_integer_create(s->rtt_p99_us));
    json_object_put(json, "counters", counters_to_json(s));
    return json;
}

static struct json *
datapath_to_json(const char *type, const struct acdc_config *c,
                 const struct acdc_stats *s)
{
    struct json *json = json_object_create();

#define PUT(STRUCT, MEMBER)                                             \
    json_object_put(json, #MEMBER, json_integer_create((STRUCT)->MEMBER))
    json_object_put_string(json, "datapath", type);
    PUT(c, max_flows);
    PUT(c, idle_timeout);
    PUT(c, exid);
    PUT(s, n_flows);
    PUT(s, n_half_open);
    PUT(s, n_closed);
    PUT(s, bytes_per_flow4);
    PUT(s, bytes_per_flow6);
    PUT(s, table_bytes);
#undef PUT
    return json;
}

static int
compare_tenants(const void *a_, const void *b_)
{
    const struct acdc_tenant_stats *a = a_;
    const struct acdc_tenant_stats *b = b_;

    return strcmp(a->name, b->name);
}

/* Returns the tenants of 'dpif' that 'q' asks for, sorted by name, '*n' of
 * them.  The caller must free() them. */
static struct acdc_tenant_stats *
get_tenants(struct dpif *dpif, const struct query *q, size_t *n)
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
        if (!error && (!q->tenant || !strcmp(q->tenant, tenants[*n].name))) {
            ++*n;
        }
    }
    qsort(tenants, *n, sizeof *tenants, compare_tenants);
    return tenants;
}

/* Appends to the reply what there is to say about one datapath. */
static void
show_datapath(struct job *job, const char *type, struct dpif *dpif)
{
    struct acdc_tenant_stats *tenants;
    struct acdc_config config;
    struct acdc_stats stats;
    size_t n;
    int error;

    error = acdc_dpif_get_stats(dpif, &stats);
    if (!error) {
        error = acdc_dpif_get_config(dpif, &config);
    }
    if (error) {
        if (!job->query.json) {
            ds_put_format(&job->reply, "datapath %s: %s\n", type,
                          (error == EOPNOTSUPP ? "does not support AC/DC"
                           : ovs_strerror(error)));
        }
        return;
    }
    if (job->query.json) {
        json_array_add(job->report.datapaths,
                       datapath_to_json(type, &config, &stats));
    } else {
        ds_put_format(&job->reply, "datapath %s: %"PRIu32" of at most "
                      "%"PRIu32" flows, idle timeout %"PRIu32" s, "
                      "ExID 0x%04"PRIx16"\n", type, stats.n_flows,
                      config.max_flows, config.idle_timeout, config.exid);
    }

    tenants = get_tenants(dpif, &job->query, &n);
    for (size_t i = 0; i < n; i++) {
        const struct means *m = shash_find_data(&job->means, tenants[i].name);

        if (job->query.json) {
            json_array_add(job->report.tenants,
                           tenant_to_json(type, dpif, &tenants[i], m));
        } else {
            put_tenant(&job->reply, dpif, &tenants[i], m);
        }
    }
    free(tenants);
}

static void
add_means(struct shash *means, const struct acdc_flow_info *f)
{
    struct means *m;

    /* One that sends nothing has the alpha and the window it began with. */
    if (!f->capable || f->state != ACDC_FLOW_ESTABLISHED || !f->fb_total) {
        return;
    }
    m = shash_find_data(means, f->tenant);
    if (!m) {
        m = xzalloc(sizeof *m);
        shash_add(means, f->tenant, m);
    }
    m->n++;
    m->alpha += f->alpha;
    m->window += f->window;
}

/* Jobs. ------------------------------------------------------------------- */

static void
job_start(struct unixctl_conn *conn, const struct query *q, bool is_show)
{
    struct job *job = xzalloc(sizeof *job);
    struct sset types = SSET_INITIALIZER(&types);
    const char *type;

    job->conn = conn;
    job->query = *q;
    job->is_show = is_show;
    ds_init(&job->reply);
    if (q->json && is_show) {
        report_init(&job->report);
    } else if (q->json) {
        ds_put_char(&job->reply, '[');
    }
    shash_init(&job->means);
    svec_init(&job->types);
    acdc_ovsdb_get_datapaths(&types);
    SSET_FOR_EACH (type, &types) {
        svec_add(&job->types, type);
    }
    svec_sort(&job->types);
    sset_destroy(&types);
    ovs_list_push_back(&jobs, &job->node);
}

/* The last part of acdc/show. */
static void
show_problems(struct job *job)
{
    struct svec problems = SVEC_EMPTY_INITIALIZER;
    const char *problem;
    size_t i;

    acdc_ovsdb_get_problems(job->query.tenant, &problems);
    if (job->query.json) {
        job->report.problems = json_array_create_empty();
    }
    SVEC_FOR_EACH (i, problem, &problems) {
        if (job->query.json) {
            json_array_add(job->report.problems, json_string_create(problem));
        } else {
            ds_put_format(&job->reply, "problem: %s\n", problem);
        }
    }
    svec_destroy(&problems);
}

static void
job_finish(struct job *job)
{
    ovs_list_remove(&job->node);
    if (job->is_show) {
        if (!job->query.json && !job->types.n) {
            ds_put_cstr(&job->reply, no_datapath);
        }
        show_problems(job);
    }
    if (job->query.json && job->is_show) {
        report_reply(job->conn, &job->report);
    } else if (!job->query.limit && job->n_shown > DUMP_MAX) {
        ds_clear(&job->reply);
        ds_put_format(&job->reply, "more than %d flows match; narrow it down "
                      "with tenant=NAME, port=NAME or remote=ADDRESS/LENGTH, "
                      "or say limit=N (a long reply holds up ovs-vswitchd)",
                      DUMP_MAX);
        unixctl_command_reply_error(job->conn, ds_cstr(&job->reply));
    } else {
        if (job->query.json) {
            ds_put_char(&job->reply, ']');
        }
        unixctl_command_reply(job->conn, ds_cstr(&job->reply));
    }
    ds_destroy(&job->reply);
    shash_destroy_free_data(&job->means);
    svec_destroy(&job->types);
    query_destroy(&job->query);
    free(job);
}

/* Returns false if no more flows are wanted. */
static bool
job_add_flow(struct job *job, const char *type, const struct acdc_flow_info *f)
{
    long long int limit = job->query.limit ? job->query.limit : DUMP_MAX + 1;
    bool json = job->query.json;

    if (!flow_matches(f, &job->query)) {
        return true;
    }
    if (job->is_show) {
        add_means(&job->means, f);
        return true;
    }
    if (json && job->n_shown) {
        ds_put_cstr(&job->reply, ",\n");
    }
    put_flow(&job->reply, json, json || job->types.n > 1 ? type : NULL, f);
    return ++job->n_shown < limit;
}

/* Fetches some flows of 'type'.  Returns false when there are no more. */
static bool
job_step(struct job *job, const char *type, struct dpif *dpif)
{
    unsigned int n = 0;

    if (acdc_dpif_dump(dpif, &job->cursor, job->flows, JOB_FLOWS, &n) || !n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!job_add_flow(job, type, &job->flows[i])) {
            job->dp_idx = job->types.n;
            return false;
        }
    }
    return true;
}

/* Works on 'job' until it is done, then frees it, or until 'deadline'. */
static void
job_run(struct job *job, long long int deadline)
{
    while (job->dp_idx < job->types.n) {
        const char *type = job->types.names[job->dp_idx];
        struct dpif *dpif;
        bool more = false;

        if (!acdc_ovsdb_open(type, &dpif)) {
            do {
                more = job_step(job, type, dpif);
            } while (more && time_msec() < deadline);
            if (!more && job->is_show) {
                show_datapath(job, type, dpif);
            }
            dpif_close(dpif);
        }
        if (more) {
            return;
        }
        shash_clear_free_data(&job->means);
        job->cursor = 0;
        job->dp_idx++;
    }
    job_finish(job);
}

/* Commands. --------------------------------------------------------------- */

static void
acdc_show(struct unixctl_conn *conn, int argc, const char *argv[],
          void *aux OVS_UNUSED)
{
    struct query q;

    if (parse_args(conn, argc, argv, ARG_NAME | ARG_TENANT, &q)) {
        job_start(conn, &q, true);
    }
}

static void
acdc_dump_flows(struct unixctl_conn *conn, int argc, const char *argv[],
                void *aux OVS_UNUSED)
{
    struct query q;

    if (parse_args(conn, argc, argv,
                   ARG_TENANT | ARG_PORT | ARG_REMOTE | ARG_LIMIT, &q)) {
        job_start(conn, &q, false);
    }
}

static void
put_stats(struct ds *ds, const char *type, const struct acdc_stats *s)
{
    ds_put_format(ds, "datapath %s:\n", type);
    ds_put_format(ds, "  flows: %"PRIu32" of at most %"PRIu32" (%"PRIu32" "
                  "half open, %"PRIu32" closed)\n", s->n_flows, s->max_flows,
                  s->n_half_open, s->n_closed);
    ds_put_format(ds, "  memory: %"PRIu64" bytes; a flow %"PRIu32" (IPv4), "
                  "%"PRIu32" (IPv6)\n", s->table_bytes, s->bytes_per_flow4,
                  s->bytes_per_flow6);
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
acdc_stats(struct unixctl_conn *conn, int argc, const char *argv[],
           void *aux OVS_UNUSED)
{
    struct sset types = SSET_INITIALIZER(&types);
    struct ds ds = DS_EMPTY_INITIALIZER;
    struct report report;
    const char **sorted;
    struct query q;

    if (!parse_args(conn, argc, argv, ARG_NAME | ARG_TENANT, &q)) {
        return;
    }
    report_init(&report);
    acdc_ovsdb_get_datapaths(&types);
    sorted = sset_sort(&types);
    for (size_t i = 0; i < sset_count(&types); i++) {
        struct acdc_config config;
        struct acdc_stats stats;
        struct dpif *dpif;

        if (acdc_ovsdb_open(sorted[i], &dpif)) {
            continue;
        }
        if (!acdc_dpif_get_stats(dpif, &stats)
            && !acdc_dpif_get_config(dpif, &config)) {
            struct acdc_tenant_stats *tenants;
            size_t n;

            put_stats(&ds, sorted[i], &stats);
            json_array_add(report.datapaths,
                           datapath_to_json(sorted[i], &config, &stats));
            tenants = get_tenants(dpif, &q, &n);
            for (size_t j = 0; j < n; j++) {
                struct json *tenant = json_object_create();

                put_tenant_counters(&ds, &tenants[j]);
                json_object_put_string(tenant, "datapath", sorted[i]);
                json_object_put_string(tenant, "name", tenants[j].name);
                json_object_put(tenant, "counters",
                                counters_to_json(&tenants[j]));
                json_array_add(report.tenants, tenant);
            }
            free(tenants);
        }
        dpif_close(dpif);
    }
    free(sorted);
    sset_destroy(&types);

    if (q.json) {
        report_reply(conn, &report);
    } else {
        json_destroy(report.datapaths);
        json_destroy(report.tenants);
        unixctl_command_reply(conn, ds.length ? ds_cstr(&ds) : no_datapath);
    }
    ds_destroy(&ds);
    query_destroy(&q);
}

/* The number of guest port 'name' of 'dpif', or ODPP_NONE. */
static odp_port_t
find_port(struct dpif *dpif, const char *name)
{
    struct acdc_port_info info;

    for (int i = 0; !acdc_dpif_get_port(dpif, i, &info); i++) {
        if (!strcmp(info.name, name)) {
            return u32_to_odp(info.port_no);
        }
    }
    return ODPP_NONE;
}

static void
acdc_flush_flows(struct unixctl_conn *conn, int argc, const char *argv[],
                 void *aux OVS_UNUSED)
{
    struct sset types = SSET_INITIALIZER(&types);
    struct ds errors = DS_EMPTY_INITIALIZER;
    uint64_t total = 0;
    const char *type;
    struct query q;

    if (!parse_args(conn, argc, argv, ARG_TENANT | ARG_PORT, &q)) {
        return;
    }
    acdc_ovsdb_get_datapaths(&types);
    SSET_FOR_EACH (type, &types) {
        odp_port_t port = ODPP_NONE;
        struct dpif *dpif;
        uint32_t n = 0;

        if (acdc_ovsdb_open(type, &dpif)) {
            continue;
        }
        if (q.port) {
            port = find_port(dpif, q.port);
        }
        if (!q.port || port != ODPP_NONE) {
            int error = acdc_dpif_flush(dpif, q.tenant, port, &n);

            if (error && error != EOPNOTSUPP) {
                ds_put_format(&errors, "datapath %s: %s\n", type,
                              ovs_strerror(error));
            }
        }
        dpif_close(dpif);
        total += n;
    }
    sset_destroy(&types);

    if (errors.length) {
        unixctl_command_reply_error(conn, ds_cstr(&errors));
    } else if (q.json) {
        struct json *json = json_object_create();

        json_object_put(json, "flushed", json_integer_create(total));
        reply_json(conn, json);
    } else {
        ds_put_format(&errors, "flushed %"PRIu64" flows", total);
        unixctl_command_reply(conn, ds_cstr(&errors));
    }
    ds_destroy(&errors);
    query_destroy(&q);
}

/* Public functions. ------------------------------------------------------- */

void
acdc_appctl_init(void)
{
    unixctl_command_register("acdc/show", "[TENANT] [--json]", 0, 2,
                             acdc_show, NULL);
    unixctl_command_register("acdc/dump-flows",
                             "[tenant=NAME] [port=NAME] "
                             "[remote=ADDRESS[/LENGTH]] [limit=N] [--json]",
                             0, 5,
                             acdc_dump_flows, NULL);
    unixctl_command_register("acdc/stats", "[TENANT] [--json]", 0, 2,
                             acdc_stats, NULL);
    unixctl_command_register("acdc/flush",
                             "[tenant=NAME] [port=NAME] [--json]", 0, 3,
                             acdc_flush_flows, NULL);
}

void
acdc_appctl_run(void)
{
    long long int deadline = time_msec() + JOB_MSEC;
    struct job *job;

    LIST_FOR_EACH_SAFE (job, node, &jobs) {
        job_run(job, deadline);
    }
}

void
acdc_appctl_wait(void)
{
    if (!ovs_list_is_empty(&jobs)) {
        poll_immediate_wake();
    }
}
