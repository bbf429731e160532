/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-appctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acdc-appctl-private.h"
#include "acdc-dpif.h"
#include "acdc-match.h"
#include "acdc-ovsdb.h"
#include "dpif.h"
#include "odp-util.h"
#include "openvswitch/json.h"
#include "openvswitch/list.h"
#include "openvswitch/poll-loop.h"
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

/* Flows of a page unless the user says how many: a reply of 4 ms. */
#define PAGE_FLOWS 2000

/* Bits of the arguments that a command allows, beside --json. */
enum arg {
    ARG_NAME = 1 << 0,          /* A tenant's. */
    ARG_TENANT = 1 << 1,
    ARG_PORT = 1 << 2,
    ARG_REMOTE = 1 << 3,
    ARG_LIMIT = 1 << 4,
    ARG_CURSOR = 1 << 5,
};
static const char *const arg_usage[] = {
    "TENANT", "tenant=NAME", "port=NAME", "remote=ADDRESS[/LENGTH]", "limit=N",
    "cursor=CURSOR"
};

/* A command at work: acdc/flush has none. */
struct job {
    struct ovs_list node;       /* In 'jobs'. */
    struct unixctl_conn *conn;
    struct report report;
    long long int n_shown;      /* Flows in it. */

    struct svec types;          /* Of datapaths. */
    size_t dp_idx;              /* The one at work, index into 'types'. */
    uint64_t cursor;            /* In its dump. */
    struct acdc_flow_info flows[JOB_FLOWS];
};

static struct ovs_list jobs = OVS_LIST_INITIALIZER(&jobs);

/* Arguments. -------------------------------------------------------------- */

static void
query_destroy(struct query *q)
{
    free(q->tenant);
    free(q->port);
    free(q->cursor);
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
        char *name = acdc_ovsdb_short_name(arg + 5);

        put_once(&q->port, "port", name, error);
        free(name);
    } else if (allowed & ARG_REMOTE && !strncmp(arg, "remote=", 7)) {
        char msg[256];

        if (q->match.remote_set) {
            ds_put_cstr(error, "remote given twice");
        } else if (strchr(arg, ',')) {
            ds_put_format(error, "%s: only one address or prefix", arg);
        } else if (!acdc_match_parse(arg, &q->match, msg, sizeof msg)) {
            ds_put_cstr(error, msg);
        }
    } else if (allowed & ARG_CURSOR && !strncmp(arg, "cursor=", 7)) {
        put_once(&q->cursor, "cursor", arg + 7, error);
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
        for (size_t i = 0; i < ARRAY_SIZE(arg_usage); i++) {
            if (allowed & 1 << i) {
                ds_put_format(error, " %s", arg_usage[i]);
            }
        }
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
    struct svec types;
    const char *type;
    bool ok = false;
    size_t j;

    acdc_ovsdb_get_datapaths(&types);
    SVEC_FOR_EACH (j, type, &types) {
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
    svec_destroy(&types);
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

/* Jobs. ------------------------------------------------------------------- */

/* Has 'job' begin where 'query.cursor', DATAPATH:NUMBER or 0, says.  Returns
 * false if it says nothing. */
static bool
job_seek(struct job *job)
{
    const char *word = job->report.query.cursor;
    size_t len = word ? strcspn(word, ":") : 0;
    const char *type;
    size_t i;

    if (!word || !strcmp(word, "0")) {
        return true;
    }
    SVEC_FOR_EACH (i, type, &job->types) {
        if (word[len] && strlen(type) == len && !memcmp(type, word, len)) {
            unsigned long long int number;

            job->dp_idx = i;
            if (!str_to_ullong(word + len + 1, 10, &number)) {
                return false;
            }
            job->cursor = number;
            return true;
        }
    }
    return false;
}

/* Parses the arguments and starts a job, which will reply. */
static void
job_start(struct unixctl_conn *conn, int argc, const char *argv[],
          int allowed, enum command cmd)
{
    struct job *job = xzalloc(sizeof *job);
    struct report *r = &job->report;

    if (!parse_args(conn, argc, argv, allowed, &r->query)) {
        free(job);
        return;
    }
    job->conn = conn;
    r->cmd = cmd;
    acdc_ovsdb_get_datapaths(&job->types);
    if (!job_seek(job)) {
        unixctl_command_reply_error(conn, "cursor: 0, or what the last page "
                                    "said; its datapath must be there");
        svec_destroy(&job->types);
        query_destroy(&r->query);
        free(job);
        return;
    }
    ds_init(&r->text);
    if (cmd == CMD_DUMP) {
        if (r->query.cursor && !r->query.limit) {
            r->query.limit = PAGE_FLOWS;
        }
        ds_put_cstr(&r->text, !r->query.json ? ""
                              : r->query.cursor ? "{\"flows\":[" : "[");
    } else if (r->query.json) {
        r->datapaths = json_array_create_empty();
        r->tenants = json_array_create_empty();
    }
    shash_init(&r->means);
    ovs_list_push_back(&jobs, &job->node);
}

/* Appends where the next page begins, if flows may be left. */
static void
put_next(const struct job *job, struct ds *ds)
{
    const struct query *q = &job->report.query;

    if (q->cursor && job->dp_idx < job->types.n) {
        ds_put_format(ds, q->json ? ",\"next\":\"%s:%"PRIu64"\""
                                  : "next=%s:%"PRIu64"\n",
                      job->types.names[job->dp_idx], job->cursor);
    }
    if (q->cursor && q->json) {
        ds_put_char(ds, '}');
    }
}

static void
reply_dump(struct job *job)
{
    struct ds *ds = &job->report.text;

    if (!job->report.query.limit && job->n_shown > DUMP_MAX) {
        ds_clear(ds);
        ds_put_format(ds, "more than %d flows match; narrow it down "
                      "with tenant=NAME, port=NAME or remote=ADDRESS/LENGTH, "
                      "or say limit=N (a long reply holds up ovs-vswitchd)",
                      DUMP_MAX);
        unixctl_command_reply_error(job->conn, ds_cstr(ds));
    } else {
        ds_put_cstr(ds, job->report.query.json ? "]" : "");
        put_next(job, ds);
        unixctl_command_reply(job->conn, ds_cstr(ds));
    }
}

static void
job_finish(struct job *job)
{
    struct report *r = &job->report;

    ovs_list_remove(&job->node);
    if (r->cmd == CMD_DUMP) {
        reply_dump(job);
    } else {
        char *reply;

        if (!job->types.n) {
            ds_put_cstr(&r->text, "no datapath: there is no bridge\n");
        }
        reply = acdc_appctl_report_finish(r);
        unixctl_command_reply(job->conn, reply);
        free(reply);
    }
    ds_destroy(&r->text);
    shash_destroy_free_data(&r->means);
    svec_destroy(&job->types);
    query_destroy(&r->query);
    free(job);
}

/* How many flows to fetch: no more than the reply has room for. */
static unsigned int
job_room(const struct job *job)
{
    const struct query *q = &job->report.query;
    long long int max = q->limit ? q->limit : DUMP_MAX + 1;

    return job->report.cmd == CMD_DUMP ? MIN(max - job->n_shown, JOB_FLOWS)
                                       : JOB_FLOWS;
}

static void
job_add_flow(struct job *job, const char *type, const struct acdc_flow_info *f)
{
    struct report *r = &job->report;
    const struct query *q = &r->query;

    if (!acdc_appctl_flow_matches(f, q)) {
        return;
    }
    if (r->cmd == CMD_SHOW) {
        acdc_appctl_add_means(r, f);
        return;
    }
    if (job->n_shown++ && q->json) {
        ds_put_cstr(&r->text, ",\n");
    }
    acdc_appctl_put_flow(&r->text, q->json,
                         q->json || job->types.n > 1 ? type : NULL, f);
}

/* Fetches some flows of 'type'.  Returns false when there are no more, or no
 * more are wanted. */
static bool
job_step(struct job *job, const char *type, struct dpif *dpif)
{
    unsigned int room = job_room(job);
    unsigned int n = 0;

    if (job->report.cmd == CMD_STATS || !room
        || acdc_dpif_dump(dpif, &job->cursor, job->flows, room, &n) || !n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        job_add_flow(job, type, &job->flows[i]);
    }
    return true;
}

/* Works on 'job' until it is done, then frees it, or until 'deadline'. */
static void
job_run(struct job *job, long long int deadline)
{
    while (job->dp_idx < job->types.n && job_room(job)) {
        const char *type = job->types.names[job->dp_idx];
        struct dpif *dpif;
        bool more = false;
        int error = acdc_ovsdb_open(type, &dpif);

        if (error && job->report.cmd != CMD_DUMP) {
            acdc_appctl_report_error(&job->report, type, error);
        } else if (!error) {
            do {
                more = job_step(job, type, dpif);
            } while (more && time_msec() < deadline);
            if (!more && job->report.cmd != CMD_DUMP) {
                acdc_appctl_report(&job->report, type, dpif);
            }
            dpif_close(dpif);
        }
        if (more) {
            return;
        }
        shash_clear_free_data(&job->report.means);
        if (job_room(job)) {
            job->cursor = 0;
            job->dp_idx++;
        }
    }
    job_finish(job);
}

/* Commands. --------------------------------------------------------------- */

static void
acdc_show(struct unixctl_conn *conn, int argc, const char *argv[],
          void *aux OVS_UNUSED)
{
    job_start(conn, argc, argv, ARG_NAME | ARG_TENANT, CMD_SHOW);
}

static void
acdc_stats(struct unixctl_conn *conn, int argc, const char *argv[],
           void *aux OVS_UNUSED)
{
    job_start(conn, argc, argv, ARG_NAME | ARG_TENANT, CMD_STATS);
}

static void
acdc_dump_flows(struct unixctl_conn *conn, int argc, const char *argv[],
                void *aux OVS_UNUSED)
{
    job_start(conn, argc, argv,
              ARG_TENANT | ARG_PORT | ARG_REMOTE | ARG_LIMIT | ARG_CURSOR,
              CMD_DUMP);
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
    struct ds errors = DS_EMPTY_INITIALIZER;
    uint64_t total = 0;
    struct svec types;
    const char *type;
    struct query q;
    size_t i;

    if (!parse_args(conn, argc, argv, ARG_TENANT | ARG_PORT, &q)) {
        return;
    }
    acdc_ovsdb_get_datapaths(&types);
    SVEC_FOR_EACH (i, type, &types) {
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
    svec_destroy(&types);

    if (errors.length) {
        unixctl_command_reply_error(conn, ds_cstr(&errors));
    } else if (q.json) {
        ds_put_format(&errors, "{\"flushed\":%"PRIu64"}", total);
        unixctl_command_reply(conn, ds_cstr(&errors));
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
                             "[remote=ADDRESS[/LENGTH]] [limit=N] "
                             "[cursor=CURSOR] [--json]",
                             0, 6,
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
