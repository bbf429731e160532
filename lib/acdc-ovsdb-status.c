/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-ovsdb-private.h"

#include <limits.h>
#include <string.h>

#include "acdc-dpif.h"
#include "coverage.h"
#include "dpif.h"
#include "netdev.h"
#include "netdev-provider.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "ovsdb-idl.h"
#include "smap.h"
#include "svec.h"
#include "timeval.h"
#include "util.h"
#include "vswitch-idl.h"

VLOG_DEFINE_THIS_MODULE(acdc_ovsdb_status);

COVERAGE_DEFINE(acdc_stats_update);

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
BUILD_ASSERT_DECL(ARRAY_SIZE(events) == ACDC_OVSDB_N_EVENTS);

static struct ovsdb_idl_txn *status_txn;
static bool status_dirty;
static long long int stats_timer = LLONG_MAX;
#define STATUS_RETRY_MSEC 1000

/* Of a tenant's ports with an error, as many are named in its status. */
#define MAX_ERRORS 8

void
acdc_ovsdb_status_changed(void)
{
    status_dirty = true;
    stats_timer = MIN(stats_timer, time_msec() + STATUS_RETRY_MSEC);
}

/* Interface:status is bridge.c's to write, which it does when the netdev
 * says that it changed. */
void
acdc_ovsdb_iface_changed(const char *name)
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
        const struct guest *g = shash_find_data(&acdc_guests, iface->name);
        const char *error = smap_get(&iface->status, "acdc_error");
        const char *tenant = smap_get(&iface->status, "acdc_tenant");

        if (!nullable_string_is_equal(error, g ? g->error : NULL)
            || !nullable_string_is_equal(tenant, (g && !g->error
                                                  ? g->tenant : NULL))) {
            acdc_ovsdb_iface_changed(iface->name);
        }
    }
}

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

    SHASH_FOR_EACH (node, &acdc_guests) {
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
    struct svec types;
    const char *type;
    size_t j;

    COVERAGE_INC(acdc_stats_update);

    SHASH_FOR_EACH (node, &acdc_tenants) {
        struct tenant *t = node->data;

        memset(&t->stats, 0, sizeof t->stats);
    }
    acdc_ovsdb_get_datapaths(&types);
    SVEC_FOR_EACH (j, type, &types) {
        struct acdc_tenant_stats s;
        struct dpif *dpif;

        if (acdc_ovsdb_open(type, &dpif)) {
            continue;
        }
        for (unsigned int i = 0; !acdc_dpif_get_tenant(dpif, i, &s); i++) {
            struct tenant *t = shash_find_data(&acdc_tenants, s.name);

            if (t) {
                add_stats(&t->stats, &s);
            }
        }
        dpif_close(dpif);
    }
    svec_destroy(&types);
    SHASH_FOR_EACH (node, &acdc_tenants) {
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

/* 'guests' are those of acdc_guests, sorted. */
static void
write_status(const struct ovsrec_acdc *row, const struct tenant *t,
             const struct shash_node **guests)
{
    struct ds ports = DS_EMPTY_INITIALIZER;
    struct ds errors = DS_EMPTY_INITIALIZER;
    struct smap status = SMAP_INITIALIZER(&status);
    size_t n_errors = 0;

    if (t->up.error) {
        ds_put_format(&errors, "%s; ", t->up.error);
    }
    if (t->dp_error) {
        ds_put_format(&errors, "%s; ", t->dp_error);
    }
    for (size_t i = 0; i < shash_count(&acdc_guests); i++) {
        const struct guest *g = guests[i]->data;

        if (!acdc_guest_concerns(g, row->name)) {
            continue;
        }
        if (!g->error) {
            ds_put_format(&ports, "%s,", guests[i]->name);
        } else if (t->usable && n_errors++ < MAX_ERRORS) {
            ds_put_format(&errors, "port %s: %s; ", guests[i]->name, g->error);
        }
    }
    if (n_errors > MAX_ERRORS) {
        ds_put_format(&errors, "%"PRIuSIZE" more ports, which acdc/show "
                      "names; ", n_errors - MAX_ERRORS);
    }

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

void
acdc_ovsdb_status_run(struct ovsdb_idl *idl)
{
    enum ovsdb_idl_txn_status result;

    /* Not a new one before the previous one is done. */
    if (!status_txn) {
        const struct shash_node **guests;
        const struct ovsrec_acdc *row;

        if (!status_dirty) {
            return;
        }
        status_dirty = false;
        if (shash_is_empty(&acdc_tenants)) {
            return;
        }
        collect_stats();
        guests = shash_sort(&acdc_guests);
        status_txn = ovsdb_idl_txn_create(idl);
        OVSREC_ACDC_FOR_EACH (row, idl) {
            const struct tenant *t = shash_find_data(&acdc_tenants, row->name);

            if (t) {
                write_statistics(row, t);
                write_status(row, t, guests);
            }
        }
        free(guests);
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

bool
acdc_ovsdb_status_due(const struct ovsdb_idl *idl,
                      const struct ovsrec_open_vswitch *cfg)
{
    if (time_msec() < stats_timer) {
        return false;
    }
    stats_timer = LLONG_MAX;
    if (!shash_is_empty(&acdc_tenants) || !shash_is_empty(&acdc_guests)) {
        stats_timer = time_msec() + stats_interval(cfg);
    }
    status_dirty = true;
    check_iface_status(idl);
    return true;
}

void
acdc_ovsdb_status_wait(void)
{
    if (status_txn) {
        ovsdb_idl_txn_wait(status_txn);
    } else if (status_dirty) {
        poll_immediate_wake();
    }
    poll_timer_wait_until(stats_timer);
}

void
acdc_ovsdb_iface_status(const char *name, struct smap *status)
{
    const struct guest *g = shash_find_data(&acdc_guests, name);

    if (g && g->error) {
        smap_add(status, "acdc_error", g->error);
    } else if (g) {
        smap_add(status, "acdc_tenant", g->tenant);
    }
}
