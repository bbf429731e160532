// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* What users get to see: names, counters, round-trip times, connections. */

#include "acdc-table.h"
#include "acdc-timing.h"

const char *const acdc_counter_names[ACDC_N_COUNTERS] = {
#define ACDC_COUNTER(SYMBOL, NAME, DESCRIPTION) NAME,
#include "acdc-counters.h"
#undef ACDC_COUNTER
};

const char *const acdc_counter_help[ACDC_N_COUNTERS] = {
#define ACDC_COUNTER(SYMBOL, NAME, DESCRIPTION) DESCRIPTION,
#include "acdc-counters.h"
#undef ACDC_COUNTER
};

const char *const acdc_algorithm_names[ACDC_N_ALGS] = {
    [ACDC_ALG_NONE] = "none",
#define ACDC_ALGORITHM(SYMBOL, NAME, PROPERTIES) [ACDC_ALG_##SYMBOL] = #NAME,
#include "acdc-algorithms.h"
#undef ACDC_ALGORITHM
};

const char *const acdc_mode_names[ACDC_N_MODES] = {
    [ACDC_MODE_ENFORCE] = "enforce",
    [ACDC_MODE_OBSERVE] = "observe",
};

const char *const acdc_flow_state_names[ACDC_N_FLOW_STATES] = {
    [ACDC_FLOW_SYN_SENT] = "syn_sent",
    [ACDC_FLOW_SYN_RECEIVED] = "syn_received",
    [ACDC_FLOW_ESTABLISHED] = "established",
    [ACDC_FLOW_CLOSING] = "closing",
    [ACDC_FLOW_CLOSED] = "closed",
    [ACDC_FLOW_RESET] = "reset",
    [ACDC_FLOW_ASKING] = "asking",
    [ACDC_FLOW_UNKNOWN] = "unknown",
};

/* Round-trip times: a histogram of eight linear steps an octave, so a
 * percentile is right within 1/8. ------------------------------------------ */

enum { RTT_STEPS = 8, RTT_STEP_BITS = 3 };

static unsigned int
rtt_bucket(uint32_t us)
{
    unsigned int msb, bucket;

    if (us < RTT_STEPS) {
        return us;
    }
    msb = 31 - (unsigned int) __builtin_clz(us);
    bucket = (msb - RTT_STEP_BITS + 1) * RTT_STEPS
             + ((us >> (msb - RTT_STEP_BITS)) & (RTT_STEPS - 1));
    return bucket < ACDC_RTT_BUCKETS ? bucket : ACDC_RTT_BUCKETS - 1;
}

/* The middle of what a bucket holds, us. */
static uint32_t
rtt_of_bucket(unsigned int bucket)
{
    unsigned int octave = bucket / RTT_STEPS;
    uint32_t width;

    if (octave < 2) {
        return bucket;
    }
    width = 1u << (octave - 1);
    return (RTT_STEPS + bucket % RTT_STEPS) * width + width / 2;
}

void
acdc_rtt_flush(struct acdc_ctx *ctx)
{
    if (ctx->n_rtts) {
        acdc_a64_add(&ctx->slot->rtt[ctx->rtt_bucket], ctx->n_rtts);
        ctx->n_rtts = 0;
    }
}

/* Of one bucket in a row they are added together: an atomic addition waits for
 * all that a processor has under way. */
void
acdc_rtt_record(struct acdc_ctx *ctx, uint32_t rtt_us)
{
    unsigned int bucket = rtt_bucket(rtt_us);

    if (bucket != ctx->rtt_bucket) {
        acdc_rtt_flush(ctx);
        ctx->rtt_bucket = bucket;
    }
    ctx->n_rtts++;
    if (ACDC_ONE_A_CALL) {
        acdc_rtt_flush(ctx);
    }
}

static uint64_t
sum_rtt(const struct acdc_tenant *t, unsigned int bucket)
{
    uint64_t sum = 0;
    unsigned int i;

    for (i = 0; i < ACDC_N_SLOTS; i++) {
        sum += acdc_a64_read(&t->slots[i].rtt[bucket]);
    }
    return sum;
}

static void
rtt_percentiles(const struct acdc_tenant *t, uint32_t *p50, uint32_t *p99)
{
    uint64_t total = 0;
    uint64_t seen = 0;
    unsigned int i;

    *p50 = *p99 = 0;
    for (i = 0; i < ACDC_RTT_BUCKETS; i++) {
        total += sum_rtt(t, i);
    }
    for (i = 0; i < ACDC_RTT_BUCKETS && total; i++) {
        uint64_t before = seen;

        seen += sum_rtt(t, i);
        if (before * 2 < total && seen * 2 >= total) {
            *p50 = rtt_of_bucket(i);
        }
        if (before * 100 < total * 99 && seen * 100 >= total * 99) {
            *p99 = rtt_of_bucket(i);
        }
    }
}

/* Snapshots. --------------------------------------------------------------- */

void
acdc_stats_get(const struct acdc *a, struct acdc_stats *s)
{
    const struct acdc_table *t = acdc_ptr_load(&a->table);
    uint32_t n6 = acdc_count_read(&a->n_flows6);

    memset(s, 0, sizeof *s);
    s->n_flows = acdc_count_read(&a->n_flows);
    s->n_half_open = acdc_count_read(&a->n_half_open);
    s->n_closed = acdc_count_read(&a->n_closed);
    s->max_flows = acdc_a32_read(&a->max_flows);
    s->bytes_per_flow4 = (uint32_t) acdc_flow_size(false);
    s->bytes_per_flow6 = (uint32_t) acdc_flow_size(true);
    if (t) {
        s->table_bytes = (uint64_t) s->n_flows * s->bytes_per_flow4
                         + (uint64_t) n6 * (s->bytes_per_flow6
                                            - s->bytes_per_flow4)
                         + (t->mask + 1ull) * sizeof t->buckets[0];
    }
}

/* part / whole, fixed point. */
static uint32_t
fraction(uint64_t part, uint64_t whole)
{
    /* Counters grow beyond what the shift leaves room for. */
    while (part >> (63 - ACDC_FIX_SHIFT)) {
        part >>= 1;
        whole >>= 1;
    }
    return whole ? (uint32_t) acdc_div64(part << ACDC_FIX_SHIFT, whole) : 0;
}

static void
fill_tenant_stats(const struct acdc_tenant *t, struct acdc_tenant_stats *s)
{
    const struct acdc_policy *policy = acdc_ptr_load(&t->policy);
    unsigned int i, c;

    memset(s, 0, sizeof *s);
    memcpy(s->name, t->name, sizeof s->name);
    s->params = *acdc_policy_params(policy, policy->n_rules);
    s->n_rules = policy->n_rules;
    s->n_ports = acdc_count_read(&t->n_ports);
    s->n_flows = acdc_count_read(&t->n_flows);
    s->n_half_open = acdc_count_read(&t->n_half_open);
    s->n_capable = acdc_count_read(&t->n_capable);
    s->n_fallback = acdc_count_read(&t->n_fallback);
    for (i = 0; i < ACDC_N_SLOTS; i++) {
        for (c = 0; c < ACDC_N_COUNTERS; c++) {
            s->counters[c] += acdc_a64_read(&t->slots[i].counters[c]);
        }
    }
    rtt_percentiles(t, &s->rtt_p50_us, &s->rtt_p99_us);
    s->ce_fraction = fraction(s->counters[ACDC_C_CE_BYTES],
                              s->counters[ACDC_C_INGRESS_BYTES]);
}

int
acdc_tenant_stats_get(const struct acdc *a, const char *name,
                      struct acdc_tenant_stats *s)
{
    const struct acdc_tenant *t = acdc_tenant_find(a, name);

    if (!t) {
        return ENOENT;
    }
    fill_tenant_stats(t, s);
    return 0;
}

int
acdc_tenant_stats_nth(const struct acdc *a, unsigned int idx,
                      struct acdc_tenant_stats *s)
{
    const struct acdc_tenant *t = acdc_ptr_load(&a->tenants);

    for (; t && idx; idx--) {
        t = acdc_ptr_load(&t->next);
    }
    if (!t) {
        return ENOENT;
    }
    fill_tenant_stats(t, s);
    return 0;
}

int
acdc_port_info_nth(const struct acdc *a, unsigned int idx,
                   struct acdc_port_info *info)
{
    const struct acdc_port *port = acdc_ptr_load(&a->ports);

    for (; port && idx; idx--) {
        port = acdc_ptr_load(&port->next);
    }
    if (!port) {
        return ENOENT;
    }
    memset(info, 0, sizeof *info);
    info->port_no = port->port_no;
    info->mtu = acdc_a32_read(&port->mtu);
    info->n_flows = acdc_count_read(&port->n_flows);
    memcpy(info->name, port->name, sizeof info->name);
    memcpy(info->tenant, port->owner->name, sizeof info->tenant);
    return 0;
}

/* Dump. -------------------------------------------------------------------- */

/* The path that packets of 'f' take. */
static uint8_t
path_of(const struct acdc_flow *f, const struct acdc_params *params)
{
    const struct acdc_flow_more *more = acdc_flow_more_if_any(f);

    return params->plb && acdc_params_enforce(params) && more
           ? (uint8_t) more->plb.path : 0;
}

/* What the wire's times say. */
static void
timing_info(const struct acdc_flow *f, struct acdc_flow_info *fi)
{
    const struct acdc_timing *timing = acdc_flow_timing(f);
    struct acdc_facts facts;

    if (timing) {
        acdc_timing_facts(f, &facts);
        fi->net_rtt_us = facts.net_rtt_us;
        fi->net_rtt_min_us = facts.min_net_rtt_us;
        fi->delay_us = timing->delay_us;
    }
}

/* Which connection it is.  What is immutable, without the lock. */
static void
identity_info(const struct acdc_flow *f, struct acdc_flow_info *fi)
{
    struct acdc_end local, remote;
    uint32_t vids = acdc_flow_vids(f);

    acdc_flow_ends(f, &local, &remote);
    memcpy(fi->local, local.addr, sizeof fi->local);
    memcpy(fi->remote, remote.addr, sizeof fi->remote);
    fi->local_port = local.port;
    fi->remote_port = remote.port;
    fi->vlans[0] = (uint16_t) (vids >> 12 ? vids >> 12 : vids);
    fi->vlans[1] = vids >> 12 ? vids & ACDC_VID_MASK : 0;
    fi->ip_version = acdc_flow_is_v6(f) ? 6 : 4;
}

/* False if 'f' is dead. */
static bool
flow_info(const struct acdc *a, struct acdc_flow *f, uint32_t now_ms,
          struct acdc_flow_info *fi)
{
    struct acdc_flow_in *in = acdc_flow_in(f);
    const struct acdc_port *port = acdc_flow_port(a, f);
    const struct acdc_tenant *tenant = port->owner;
    const struct acdc_policy *policy = acdc_ptr_load(&tenant->policy);
    const struct acdc_params *params;
    uint32_t rule;

    memset(fi, 0, sizeof *fi);
    memcpy(fi->tenant, tenant->name, sizeof fi->tenant);
    memcpy(fi->port, port->name, sizeof fi->port);
    fi->port_no = port->port_no;
    identity_info(f, fi);

    acdc_lock(&f->lock);
    if (f->flags & ACDC_F_DEAD) {
        acdc_unlock(&f->lock);
        return false;
    }
    rule = acdc_flow_has_policy(f, policy) ? f->rule
                                           : acdc_policy_match(policy, f);
    fi->rule = rule < policy->n_rules ? (int32_t) rule : -1;
    params = acdc_policy_params(policy, rule);
    fi->state = f->state;
    fi->algorithm = (uint8_t) in->law.alg;
    fi->mode = params->mode;
    fi->capable = f->flags & ACDC_F_CAPABLE;
    fi->guest_ecn = f->flags & ACDC_F_GUEST_ECN;
    fi->sack = f->flags & ACDC_F_SACK;
    fi->rescaled = f->peer_wscale != f->out_wscale;
    fi->resumed = acdc_flow_is_resumed(f);
    fi->path = path_of(f, params);
    fi->wscale_local = acdc_flow_guest_wscale(f);
    fi->wscale_remote = f->peer_wscale;
    fi->mss = f->mss;
    fi->beta = params->beta;
    fi->alpha = acdc_law_alpha(&in->law);
    fi->window = in->law.wnd;
    fi->ssthresh = acdc_law_ssthresh(&in->law);
    fi->srtt_us = in->srtt_us8 / 8;
    timing_info(f, fi);
    fi->rx_total = f->rx_total;
    fi->rx_ce = f->rx_ce;
    fi->idle_ms = acdc_flow_idle_ms(f, now_ms);
    fi->offered = (uint32_t) in->out_window << f->out_wscale;
    /* Of one that is lost no ACK was seen. */
    fi->in_flight = acdc_flow_is_lost(f) ? 0 : f->snd_nxt - f->snd_una;
    fi->snd_una = f->snd_una;
    fi->snd_nxt = f->snd_nxt;
    fi->fb_total = in->fb_total;
    fi->fb_ce = f->flags & ACDC_F_CAPABLE ? in->fb_ce : 0;
    acdc_unlock(&f->lock);
    return true;
}

/* Both parts of a flow that the dump will come to after some more. */
static void
prefetch_ahead(const struct acdc_table *t, uint32_t bucket)
{
    const struct acdc_flow *f = acdc_table_prefetch(t, bucket);

    if (f) {
        const char *in = (const char *) acdc_flow_in(f);

        ACDC_PREFETCH(in);
        ACDC_PREFETCH(in + sizeof(struct acdc_flow_in) - 1);
    }
}

unsigned int
acdc_dump(const struct acdc *a, uint64_t *cursor, uint64_t now,
          struct acdc_flow_info *flows, unsigned int max)
{
    const struct acdc_table *t = acdc_ptr_load(&a->table);
    uint32_t now_ms = (uint32_t) acdc_div64(now, 1000000);
    /* Bucket, and how many of its flows were shown when they did not fit. */
    uint32_t bucket = (uint32_t) (*cursor >> 32);
    uint32_t shown = (uint32_t) *cursor;
    unsigned int n = 0;

    if (!t) {
        return 0;
    }
    for (; bucket <= t->mask && n < max; bucket++, shown = 0) {
        unsigned int before = n;
        struct acdc_flow *f;
        uint32_t i = 0;

        prefetch_ahead(t, bucket);
        for (f = acdc_link_load(&t->buckets[bucket]); f && n < max;
             f = acdc_link_load(&f->next), i++) {
            if (i >= shown && flow_info(a, f, now_ms, &flows[n])) {
                n++;
            }
        }
        if (f && before) {
            /* All of it next time: a new flow comes first in its bucket. */
            n = before;
            shown = 0;
            break;
        } else if (f) {
            shown = i;
            break;
        }
    }
    *cursor = (uint64_t) bucket << 32 | shown;
    return n;
}
