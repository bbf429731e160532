/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Tenants, their policies, and ports. */

#ifndef ACDC_POLICY_H
#define ACDC_POLICY_H 1

#include "acdc-flow.h"

/* Policy: immutable, replaced as a whole. */
struct acdc_policy {
    struct acdc_rcu rcu;
    uint16_t gen;               /* Differs from those before it that a flow
                                 * may still have, never 0. */
    bool paces;                 /* For some flow. */
    uint32_t max_half_open;
    uint32_t n_rules;
    struct acdc_rule rules[];   /* By falling priority, and behind them one
                                 * that all flows match: the tenant's own
                                 * parameters. */
};

/* Counters of one thread or CPU. */
struct acdc_slot_stats {
    acdc_a64 counters[ACDC_N_COUNTERS];
    acdc_a64 rtt[ACDC_RTT_BUCKETS];
    acdc_a32 grouping;          /* See acdc_group(). */
    char apart[ACDC_APART];     /* From the next one. */
};

struct acdc_tenant {
    struct acdc_rcu rcu;
    struct acdc_tenant *next;   /* Configuration thread; RCU for readers. */
    struct acdc *acdc;
    struct acdc_policy *policy; /* RCU. */
    struct acdc_slot_stats *slots;      /* ACDC_N_SLOTS of them. */
    acdc_count_t n_flows, n_half_open, n_capable, n_fallback, n_ports;
    uint32_t no_victim_ms;      /* When it last found nothing to evict;
                                 * acdc.lock. */
    char name[ACDC_NAME_LEN];
};

/* Of two addresses: TCP on its way to the guest that the engine cannot follow. */
struct acdc_unseen {
    uint64_t addrs;             /* As in struct acdc_flow, without VLANs. */
    uint32_t ms;                /* The last. */
    uint32_t bytes;             /* Up to ACDC_PLAUSIBLE. */
};

enum { ACDC_PATHS = 256, ACDC_ADDRESSES = 64, ACDC_UNSEEN = 16 };

struct acdc_port {
    struct acdc_rcu rcu;
    struct acdc_port *next;     /* As in acdc_tenant. */
    struct acdc *acdc;
    struct acdc_tenant *owner;  /* Immutable. */
    struct acdc_tenant *tenant; /* The same, NULL once unbound; RCU, written
                                 * under acdc.lock. */
    acdc_a32 mtu;
    acdc_a32 mtus[ACDC_MTUS];   /* See acdc_path_has_room(). */
    uint32_t port_no;
    uint16_t idx;               /* In acdc_port_dir. */
    acdc_count_t n_flows;
    acdc_count_t n_tails;       /* What the host keeps. */
    uint64_t basis;             /* acdc_hash_basis(). */
    char name[ACDC_NAME_LEN];
    /* See acdc-recall.c. */
    acdc_a32 paths[ACDC_PATHS];
    acdc_a32 addresses[ACDC_ADDRESSES];
    acdc_lock_t recall_lock;    /* 'unseen'. */
    struct acdc_unseen unseen[ACDC_UNSEEN];
};

/* acdc_port_set_mtu(), in line.  Written only if it changes: other processors read what is
 * beside it for each packet. */
static inline void
acdc_port_note_mtu(struct acdc_port *port, uint32_t mtu)
{
    if (acdc_unlikely(acdc_a32_read(&port->mtu) != mtu)) {
        acdc_a32_set(&port->mtu, mtu);
    }
}

/* Ports by acdc_port.idx, so that a flow need not have a pointer.  A port stays
 * here until it is freed: who has one of its flows under RCU finds it. */
struct acdc_port_dir {
    struct acdc_rcu rcu;
    uint32_t size;
    struct acdc_port *ports[];  /* acdc.lock to write, and for as long as it is
                                 * copied to a larger one; NULL: free, which
                                 * only the configuration thread changes. */
};

enum { ACDC_PORTS_MAX = 1 << 14 };      /* See acdc_flow.port_key. */

struct acdc_tenant *acdc_tenant_find(const struct acdc *, const char *name);

/* Frees, after the host's RCU rules, what 'rcu' is the first member of. */
void acdc_defer_free(struct acdc_rcu *);

/* Index of the first rule that matches. */
uint32_t acdc_policy_match(const struct acdc_policy *,
                           const struct acdc_flow *);

static inline const struct acdc_params *
acdc_policy_params(const struct acdc_policy *policy, uint32_t rule)
{
    return &policy->rules[rule].params;
}

/* Whether a flow's 'rule' is of 'policy'.  Generations have 16 bits and come
 * round, but not before the sweeper has been at the flow, see
 * acdc_flow_forget(). */
static inline bool
acdc_flow_has_policy(const struct acdc_flow *f,
                     const struct acdc_policy *policy)
{
    return f->policy_gen == policy->gen;
}

/* Whether packets may be changed for more than to hide what is ours, ... */
static inline bool
acdc_params_enforce(const struct acdc_params *params)
{
    return params->enabled && params->mode == ACDC_MODE_ENFORCE;
}

/* ... and what a guest may not send dropped. */
static inline bool
acdc_params_police(const struct acdc_params *params)
{
    return params->police && acdc_params_enforce(params);
}

/* What a flow must not remember for too long: to be called every 30 s, of a flow
 * that gets no packets as well.  'policy' is its tenant's.  Where the sweeper takes
 * longer, with more than some 8 million flows, one that was inactive for 65 s may
 * seem to be active, and miss the restart after idle. */
static inline void
acdc_flow_forget(struct acdc_flow *f, const struct acdc_policy *policy,
                 uint32_t now_ms)
{
    if (acdc_flow_inactive_ms(f, now_ms) > ACDC_INACTIVE_MS) {
        f->active = (uint16_t) (now_ms - ACDC_INACTIVE_MS);
    }
    if (f->policy_gen && !acdc_flow_has_policy(f, policy)) {
        f->policy_gen = 0;
    }
}

#endif /* acdc-policy.h */
