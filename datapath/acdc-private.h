/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The engine's own structures.  Not for datapaths. */

#ifndef ACDC_PRIVATE_H
#define ACDC_PRIVATE_H 1

#include "acdc-packet.h"
#include "acdc-policy.h"

struct acdc_table {
    struct acdc_rcu rcu;
    uint32_t mask;              /* Buckets - 1. */
    /* RCU; written under acdc.lock: */
    struct acdc_table *old;     /* Of another size, whose flows move over to
                                 * this one; most often NULL. */
    acdc_link buckets[];
};

struct acdc {
    struct acdc_table *table;   /* RCU; NULL until a port is bound. */
    acdc_lock_t lock;           /* Linking and unlinking flows.  May be held
                                 * while taking a flow's lock, never the other
                                 * way round. */
    uint32_t seed;              /* Of the table.  Nothing that leaves the host depends on
                                 * it, as who can try 2^32 would know it then. */
    uint64_t salt;              /* Of what does. */
    uint32_t evict_hand;        /* Bucket; 'lock'. */
    uint32_t sweep_hand;        /* Bucket; configuration thread. */
    uint16_t gen;               /* Last acdc_policy.gen; likewise. */
    uint8_t host;               /* ACDC_HOST_*. */
    uint32_t n_refs;            /* Ports not yet freed, and 1 until
                                 * acdc_destroy(); 'lock'. */
    acdc_a32 max_flows, idle_timeout_ms, exid, clock_synced;
    acdc_count_t n_flows, n_flows6, n_closed, n_half_open, n_tenants;
    acdc_count_t n_tails;       /* What the host keeps. */
    struct acdc_tenant *tenants;
    struct acdc_port *ports;
    struct acdc_port_dir *port_dir;     /* RCU; NULL until a port is bound. */
};

/* One call of acdc_process(). */
struct acdc_ctx {
    struct acdc *acdc;
    struct acdc_port *port;
    struct acdc_tenant *tenant;
    const struct acdc_policy *policy;
    struct acdc_slot_stats *slot;
    struct acdc_table *table;   /* As of the beginning. */
    uint64_t basis;             /* The port's. */
    enum acdc_dir dir;
    uint16_t port_key;          /* Of the port's flows of ACDC_KIND_4. */
    uint16_t exid;
    uint64_t now;               /* Nanoseconds. */
    uint32_t now_ms;
    uint32_t seen;              /* For acdc_flow.seen. */
    uint32_t rtt_bucket, n_rtts;        /* See acdc_rtt_record(). */
    const struct acdc_pkt *timed;       /* The last one whose round-trip time is to
                                         * be measured. */
    /* Without ACDC_ONE_A_CALL: */
    uint8_t me;                 /* This thread, to locks of flows. */
    uint8_t last_holder;        /* Of the lock that was taken last. */
    uint32_t grouping;          /* The slot's, as of the beginning. */
    uint64_t counted;           /* A bit for each valid one of ... */
    uint32_t counters[ACDC_ONE_A_CALL ? 1 : 64];        /* ... added to 'slot' at the
                                 * end.  Those that stand later in the list are added
                                 * at once. */
};

/* In microseconds, for which few packets ask. */
static inline uint32_t
acdc_now_us(const struct acdc_ctx *ctx)
{
    return (uint32_t) acdc_div64(ctx->now, 1000);
}

/* RCU read section. */
static inline struct acdc_port *
acdc_flow_port(const struct acdc *a, const struct acdc_flow *f)
{
    const struct acdc_port_dir *dir = acdc_ptr_load(&a->port_dir);

    return acdc_ptr_load(&dir->ports[f->port_key / ACDC_N_KINDS]);
}

static inline struct acdc_tenant *
acdc_flow_owner(const struct acdc *a, const struct acdc_flow *f)
{
    return acdc_flow_port(a, f)->owner;
}

/* The counters that most packets add to: acdc_process() takes it that they were
 * counted, so that packets need not ask.  It clears these, and not all, which for
 * few packets would take longer than what they count. */
#define ACDC_USUAL_COUNTERS(C) \
    C(EGRESS_PACKETS) C(EGRESS_BYTES) C(MARKED_ECT) C(PACK_SENT) \
    C(INGRESS_PACKETS) C(INGRESS_BYTES) C(PACK_RECEIVED) C(WINDOW_REWRITTEN)
#define ACDC_OR_BIT(SYMBOL) | (uint64_t) 1 << ACDC_C_##SYMBOL
#define ACDC_COUNTED_USUALLY ((uint64_t) 0 ACDC_USUAL_COUNTERS(ACDC_OR_BIT))

static inline void
acdc_count(struct acdc_ctx *ctx, unsigned int counter, uint32_t n)
{
    uint64_t bit = (uint64_t) 1 << (counter & 63);

    if (ACDC_ONE_A_CALL || counter >= 64) {
        acdc_a64_add(&ctx->slot->counters[counter], n);
        return;
    }
    if (!(bit & ACDC_COUNTED_USUALLY) && !(ctx->counted & bit)) {
        ctx->counted |= bit;
        ctx->counters[counter] = 0;
    }
    ctx->counters[counter] += n;
}
#define ACDC_COUNT(CTX, SYMBOL, N) acdc_count(CTX, ACDC_C_##SYMBOL, N)

/* Tracepoints of flow F, with two numbers:
 * flow_state       the state before and after, enum acdc_flow_state;
 * cut, loss, timeout
 *                  the window after it, in bytes, and the smoothed RTT, in us;
 * fallback         enum acdc_fallback_cause, and the window. */
#define ACDC_TRACE_FLOW(NAME, CTX, F, A, B) \
    ACDC_TRACE(NAME, (CTX)->tenant->name, F, acdc_flow_addrs(F), (F)->ports, \
               (uint32_t) (A), (uint32_t) (B))
#define ACDC_TRACE_LAW(NAME, CTX, F) \
    ACDC_TRACE_FLOW(NAME, CTX, F, acdc_flow_in(F)->law.wnd, \
                    acdc_flow_in(F)->srtt_us8 / 8)
enum acdc_fallback_cause {
    ACDC_FALLBACK_HANDSHAKE,    /* The other end showed no capability. */
    ACDC_FALLBACK_SILENT,       /* It reports no more: feedback_lost. */
    ACDC_FALLBACK_UNHEARD,      /* The guest gets nothing by this port. */
};

/* acdc-table.c: the flow table, but for what acdc-table.h has. -------------- */

int acdc_table_ensure(struct acdc *);
/* RCU read section.  The flow in the packet's VLANs. */
struct acdc_flow *acdc_flow_lookup(const struct acdc_ctx *,
                                   const struct acdc_pkt *);
/* The same, and if there is none the flow in other VLANs: a switch may move packets from
 * one VLAN to another (a native VLAN is such a case), and a guest could leave its window
 * behind by a tag.  What such a packet to the guest has of ours is taken off, unread,
 * unless the connection began so.  Such a RST of the guest, which may go to nobody, is
 * of no flow. */
struct acdc_flow *acdc_flow_find(const struct acdc_ctx *, struct acdc_pkt *);
/* The other flow of the same key as 'p' and 'first', which acdc_flow_lookup()
 * finds, or NULL; see acdc_flow_is_live(). */
struct acdc_flow *acdc_flow_lookup_second(const struct acdc_ctx *,
                                          const struct acdc_pkt *p,
                                          const struct acdc_flow *first);
/* The same, and if there is none one in other VLANs. */
struct acdc_flow *acdc_flow_find_second(const struct acdc_ctx *,
                                        const struct acdc_pkt *p,
                                        const struct acdc_flow *first);
/* For a SYN; behind 'first' if that is not NULL and not dead.  For another packet the
 * flow is ACDC_FLOW_ASKING.  NULL, with '*why' set to the counter, if there is no room, no
 * memory or no quota left. */
struct acdc_flow *acdc_flow_create(struct acdc_ctx *, struct acdc_pkt *,
                                   struct acdc_flow *first,
                                   enum acdc_counter *why);
/* Removes all flows, or those of the tenant, or of the port, and returns how many.
 * Outside of RCU read sections, in steps between which other threads get the
 * processor, and no further than there are such flows. */
uint32_t acdc_table_flush(struct acdc *, const struct acdc_tenant *,
                          const struct acdc_port *);
/* Unlinks and frees, unless another thread did. */
bool acdc_flow_remove(struct acdc *, struct acdc_flow *);
/* The same with acdc.lock held. */
bool acdc_flow_remove_locked(struct acdc *, struct acdc_flow *);
/* Changes 'state' and the counts that go with it; flow's lock held.  The flow is
 * one of the port's. */
void acdc_flow_set_state(const struct acdc_ctx *, struct acdc_flow *,
                         enum acdc_flow_state);
void acdc_flow_set_counted(const struct acdc_ctx *, struct acdc_flow *,
                           bool capable);
void acdc_flow_uncount(struct acdc_tenant *, struct acdc_flow *);
struct acdc_end {
    uint8_t addr[16];           /* be; of IPv4 it is IPv4-mapped. */
    uint16_t port;
};
void acdc_flow_ends(const struct acdc_flow *, struct acdc_end *local,
                    struct acdc_end *remote);

/* acdc-recall.c ------------------------------------------------------------ */

/* What the path to the peer of 'p' did with the capability, not long ago. */
enum acdc_path { ACDC_PATH_UNKNOWN, ACDC_PATH_PASSES, ACDC_PATH_DROPS };
enum acdc_path acdc_recall_path(const struct acdc_ctx *, const struct acdc_pkt *p);
/* Whether it passes or drops it, from a SYN or SYN-ACK. */
void acdc_recall_note_path(const struct acdc_ctx *, const struct acdc_pkt *p,
                           bool passes);
/* The guest has sent SYN or SYN-ACK 'p' from an address. */
void acdc_recall_address(const struct acdc_ctx *, const struct acdc_pkt *p);
/* Whether it has from the one that a SYN is for. */
bool acdc_recall_is_guest(const struct acdc_ctx *, const struct acdc_pkt *p);
/* 'p' to the guest was not parsed. */
void acdc_recall_unseen(const struct acdc_ctx *, const struct acdc_pkt *p);
/* Whether so much may have come of the connection, which is used up then. */
bool acdc_recall_excuses(const struct acdc_ctx *, const struct acdc_flow *,
                         uint32_t bytes);
/* A path's MTU, of which ICMP told. */
void acdc_recall_mtu(const struct acdc_ctx *, uint32_t mtu);
/* Whether a packet may grow to 'after' bytes from 'before', which the guest sends.
 * Not across the MTU of a path, of which ICMP has told any connection of the port in
 * the last time: the guest may have this size from it.  A new connection need not ask
 * again, and one that goes another way has a FACK for such a packet. */
bool acdc_path_has_room(const struct acdc_ctx *, uint32_t before,
                        uint32_t after);

/* Whether a SYN-ACK to the guest, or of it, belongs to the live connection 'f', and comes
 * again. */
static inline bool
acdc_flow_is_synack_again(const struct acdc_flow *f, const struct acdc_pkt *p, bool guest)
{
    uint32_t iss = guest ? p->seq : p->ack - 1, irs = guest ? p->ack - 1 : p->seq;

    return acdc_flow_is_live(f) && !acdc_flow_in_handshake(f)
           && acdc_flow_is_irs(f, irs) && acdc_flow_is_iss(f, iss);
}

/* Whether SYN-ACK 'p' answers the guest's last SYN.  Linux sends a SYN with data
 * (TCP Fast Open) again without the data.  The engine may have forgotten the first
 * one, and the peer acknowledges all of it: as much as a packet may hold.  A connection
 * that was there before the SYN, on the same ports, does not take that for its own.  Once
 * the guest has answered a SYN of the peer it takes no other number. */
static inline bool
acdc_flow_answers_syn(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    uint32_t more = f->state == ACDC_FLOW_SYN_SENT ? 65535 : 0;

    return seq_after(p->ack, f->snd_una) && !seq_after(p->ack, f->snd_nxt + more)
           && (!(f->flags & ACDC_F_LAW) || acdc_flow_is_irs(f, p->seq));
}

/* acdc-stats.c ------------------------------------------------------------- */

/* For the tenant's percentiles, once acdc_rtt_flush() was called. */
void acdc_rtt_record(struct acdc_ctx *, uint32_t rtt_us);
void acdc_rtt_flush(struct acdc_ctx *);

/* acdc-egress.c, acdc-ingress.c, acdc-handshake.c -------------------------- */

/* Those of 'pkts' that are TCP, with all that is to be done; those of one connection
 * in order. */
#ifdef ACDC_IN_LINE
#define ACDC_DIRECTION static ACDC_ALWAYS_INLINE
#else
#define ACDC_DIRECTION
#endif
ACDC_DIRECTION void acdc_egress(struct acdc_ctx *, struct acdc_pkt *pkts, unsigned int n);
ACDC_DIRECTION void acdc_ingress(struct acdc_ctx *, struct acdc_pkt *pkts, unsigned int n);

void acdc_syn_egress(struct acdc_ctx *, struct acdc_pkt *);
void acdc_syn_ingress(struct acdc_ctx *, struct acdc_pkt *);
/* Both for SYN-ACK; flow's lock held. */
bool acdc_synack_egress(struct acdc_ctx *, struct acdc_pkt *,
                        struct acdc_flow *, const struct acdc_params *);
bool acdc_synack_ingress(struct acdc_ctx *, struct acdc_pkt *,
                         struct acdc_flow *, const struct acdc_params *);

/* acdc-wscale.c: window scales; flow's lock held. ------------------------------ */

/* The handshake is over, whatever ended it: both options or no scaling at all (RFC 7323
 * section 2.2). */
void acdc_wscale_settle(struct acdc_flow *);
/* If the peer's scale in 'p' is too coarse, the guest is told a finer one, and every window
 * to it is translated from then on.  In a SYN-ACK with ACDC_CAP_RESUME it is the one that
 * that says, if any.  The same in what the peer sends again. */
void acdc_wscale_refine(struct acdc_ctx *, struct acdc_flow *,
                        const struct acdc_params *, struct acdc_pkt *p);
void acdc_wscale_repeat(const struct acdc_flow *, struct acdc_pkt *p);
/* The guest's SYN-ACK is noted: whether the other end can be told later which scales the
 * guests were told, see ACDC_CAP_RESUME. */
bool acdc_wscale_can_tell(struct acdc_flow *);
/* These: of the other guest's scale in the upper half, of this one's in the lower.  Whether
 * one is finer than the guest that has it said. */
uint8_t acdc_wscale_told(const struct acdc_flow *);
bool acdc_wscale_is_finer(const struct acdc_flow *);
/* From the other end: 'far', what its guest was told of this one's scale, and 'near', what
 * this one is told of that.  False, with nothing noted, if that cannot be. */
bool acdc_wscale_take(struct acdc_flow *, uint8_t far, uint8_t near);

/* acdc-resume.c: connections whose state is lost here, see docs/wire-format.rst. */

/* A packet to the guest of no flow.  If it shows that the other end's vSwitch knows the
 * connection, there is a flow from here on, which asks; true. */
bool acdc_resume_begin(struct acdc_ctx *, struct acdc_pkt *);
/* Takes off what is ours of a packet that nobody can read; 'asking': what is 3 in the
 * reserved bits is Not-ECT. */
void acdc_resume_hide(struct acdc_ctx *, struct acdc_pkt *, bool asking);
/* Packets of a flow that is acdc_flow_is_lost(); its lock held.  Of those to the guest
 * false: done.  Else it is lost no more. */
void acdc_resume_egress(struct acdc_ctx *, struct acdc_flow *,
                        const struct acdc_params *, struct acdc_pkt *);
bool acdc_resume_ingress(struct acdc_ctx *, struct acdc_flow *,
                         const struct acdc_params *, struct acdc_pkt *);
/* The other side, flow's lock held: 'p', which is plausible, has a capability; and the
 * guest sends 'p', with acdc_flow_in.asked. */
void acdc_resume_note_question(struct acdc_flow *, const struct acdc_pkt *p);
void acdc_resume_answer(struct acdc_ctx *, struct acdc_flow *,
                        const struct acdc_params *, struct acdc_pkt *p);
/* The guest sends 'p' of a flow that both ends had ACDC_CAP_RESUME for and which has fallen
 * back since.  The other end may have forgotten it, and learns now and then that this
 * one has not. */
void acdc_resume_show(struct acdc_ctx *, struct acdc_flow *,
                      const struct acdc_params *, struct acdc_pkt *p);

/* acdc-icmp.c -------------------------------------------------------------- */

/* Of what is no TCP: whether it is ICMP, beyond an IP header. */
static inline bool
acdc_pkt_is_icmp(const struct acdc_pkt *p)
{
    const uint8_t *ip = acdc_pkt_ip(p);

    return p->hlen > p->l3_ofs + (uint32_t) ACDC_IP6_HLEN
           && (ip[0] >> 4 == 4 ? ip[9] == ACDC_IPPROTO_ICMP
                               : ip[0] >> 4 == 6 && ip[6] == ACDC_IPPROTO_ICMP6);
}
/* It may be an error about a packet of the guest. */
void acdc_icmp_ingress(struct acdc_ctx *, struct acdc_pkt *);

/* Most packets need not write it. */
static inline void
acdc_flow_see(const struct acdc_ctx *ctx, struct acdc_flow *f)
{
    if (f->seen != ctx->seen) {
        f->seen = ctx->seen;
    }
}

/* acdc-flow.c: what both directions do with a flow; its lock held. --------- */

/* The parameters in force.  Follows a change of policy. */
const struct acdc_params *acdc_flow_new_params(const struct acdc_ctx *,
                                               struct acdc_flow *);
static inline const struct acdc_params *
acdc_flow_params(const struct acdc_ctx *ctx, struct acdc_flow *f)
{
    return acdc_likely(acdc_flow_has_policy(f, ctx->policy))
           ? acdc_policy_params(ctx->policy, f->rule)
           : acdc_flow_new_params(ctx, f);
}

/* The algorithm that the parameters and the peer allow. */
enum acdc_algorithm acdc_flow_algorithm(const struct acdc_flow *,
                                        const struct acdc_params *);

/* Whether the window of the guest's data is enforced, ... */
static inline bool
acdc_flow_enforced(const struct acdc_flow *f, const struct acdc_params *params)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    return acdc_params_enforce(params) && in->law.alg != ACDC_ALG_NONE
           && (f->flags & ACDC_F_LAW);
}

/* ... and the data marked ECT. */
static inline bool
acdc_flow_marked(const struct acdc_flow *f, const struct acdc_params *params)
{
    return (f->flags & ACDC_F_CAPABLE)
           && (acdc_likely(f->flags & ACDC_F_PLAIN)
               || (acdc_params_enforce(params) && params->algorithm != ACDC_ALG_NONE));
}

/* Of 'flight' bytes what the law's window has room for as the guest is told it, in whole
 * units. */
static inline uint32_t
acdc_flow_allowed(const struct acdc_flow *f, uint32_t flight)
{
    uint32_t less = (1u << f->out_wscale) - 1;
    uint32_t wnd = (acdc_flow_in(f)->law.wnd + less) & ~less;

    return flight < wnd ? flight : wnd;
}

/* A window of data, bytes: what is in flight.  Where the window is enforced no more
 * than that: what is not acknowledged may have arrived behind a segment that a guest
 * left out. */
static inline uint32_t
acdc_flow_window(const struct acdc_flow *f, const struct acdc_params *params)
{
    uint32_t flight = f->snd_nxt - f->snd_una;

    return acdc_flow_enforced(f, params) ? acdc_flow_allowed(f, flight) : flight;
}

/* Feedback of what arrived here, at 'opt'; 'word': its first four bytes. */
static inline void
acdc_flow_put_feedback(const struct acdc_flow *f, uint32_t word, uint8_t *opt)
{
    acdc_put32(opt, word);
    acdc_put32(opt + ACDC_OPT_BODY_OFS, f->rx_ce);
    acdc_put32(opt + ACDC_OPT_BODY_OFS + 4, f->rx_total);
}

/* It is reported. */
static inline void
acdc_flow_note_reported(struct acdc_flow *f)
{
    f->rx_pending = 0;
    f->flags &= ~(uint32_t) ACDC_F_RX_NEWS;
}

/* The sequence number of an ACK sent before 'p' of the guest: SND.NXT (RFC 9293 section
 * 3.10.4), without 'p' if that is the last of it.  The number of data sent
 * again is one that the other end may not accept. */
static inline uint32_t
acdc_flow_ack_number(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    return seq_before(p->seq + p->payload, f->snd_nxt) ? f->snd_nxt : p->seq;
}

/* A number of the flow's own, of which nobody outside of this host knows anything. */
static inline uint64_t
acdc_flow_secret(const struct acdc_ctx *ctx, const struct acdc_flow *f)
{
    return (acdc_flow_addrs(f) ^ f->ports) * ctx->acdc->salt;
}

/* What the law gets to know of an event that is no ACK. */
static inline void
acdc_flow_facts(const struct acdc_ctx *ctx, const struct acdc_flow *f,
                const struct acdc_params *params, struct acdc_facts *facts)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    *facts = (struct acdc_facts) {
        .params = params,
        .mss = f->mss,
        .snd_una = f->snd_una,
        .snd_nxt = f->snd_nxt,
        .window = acdc_flow_window(f, params),
        .now_ms = ctx->now_ms,
        .srtt_us = in->srtt_us8 / 8,
        .min_rtt_us = acdc_law_min_rtt_us(&in->law),
        .one_segment = params->small_windows && acdc_flow_is_prompt(f)
                       && (f->flags & ACDC_F_SOLICITED),
        .paced = in->paces && (ctx->acdc->host & ACDC_HOST_HOLDS),
        .salt = (uint32_t) (acdc_flow_secret(ctx, f) >> 32),
        .undo = f->flags & ACDC_F_DOUBT ? &acdc_flow_more_if_any(f)->undo : NULL,
    };
}

/* Whether the other end shows by 'p', which is plausible, that the capability has arrived of
 * a handshake that ended without.  True once. */
bool acdc_flow_offer_arrived(struct acdc_flow *, const struct acdc_pkt *p);
void acdc_flow_start_law(const struct acdc_ctx *, struct acdc_flow *,
                         const struct acdc_params *);
uint32_t acdc_flow_rto_ms(const struct acdc_flow *);

/* Whether the guest's retransmission timer has expired. */
static inline bool
acdc_flow_is_overdue(const struct acdc_ctx *ctx, const struct acdc_flow *f)
{
    uint32_t inactive = acdc_flow_inactive_ms(f, ctx->now_ms);

    return inactive >= ACDC_RTO_MIN_MS && inactive >= acdc_flow_rto_ms(f);
}

/* The far guest delayed an ACK of a window below two segments, or so it seems:
 * from here on there is none. */
void acdc_flow_note_delay(struct acdc_ctx *, struct acdc_flow *,
                          const struct acdc_params *);
/* The guest's SYN or SYN-ACK is answered.  If it was timed takes that time, the
 * first of the connection. */
void acdc_flow_take_first_rtt(struct acdc_ctx *, struct acdc_flow *,
                              const struct acdc_params *);

/* A window of data is delivered since the last segment to be timed was chosen: takes
 * the round-trip time of that, and has the next timed, now that there are 'window'
 * bytes in flight.  Returns it, us, or 0. */
uint32_t acdc_flow_sample_rtt(struct acdc_ctx *, struct acdc_flow *,
                              const struct acdc_params *, uint32_t window);

/* A report of more than was sent, or of more marked than all.  Most likely the network
 * duplicates packets, and both ends count differently: that is taken for certain after
 * some in a row, and known from then on.  Then the fraction that was marked is right.
 * Counts from here, 'ack'; what is on its way will be reported, too.  False if it is not
 * to be believed. */
bool acdc_flow_take_excess(struct acdc_ctx *, struct acdc_flow *, uint32_t ack,
                           uint32_t total, uint32_t *new_ce,
                           uint32_t *new_total);
/* Three duplicate ACKs, of which 'p' may be one, or as much beyond the hole in SACK
 * blocks; where the path reorders only after one to two round trips more, as 'pass'
 * tells: another window of data was delivered. */
bool acdc_flow_shows_loss(const struct acdc_ctx *, struct acdc_flow *,
                          const struct acdc_pkt *p, bool duplicate, bool pass);
/* Loss was inferred. */
void acdc_flow_loss(struct acdc_ctx *, struct acdc_flow *,
                    const struct acdc_facts *);
/* The guest's retransmission timer expired, and not for nothing. */
void acdc_flow_timeout(struct acdc_ctx *, struct acdc_flow *,
                       const struct acdc_facts *);

/* acdc-doubt.c; the flow's lock held. */

/* Something seems to be lost.  'kind' waits for a verdict, and is stronger than what did. */
struct acdc_flow_more *acdc_doubt_begin(struct acdc_flow *, enum acdc_doubt kind);
/* It is over; what was changed stays. */
void acdc_doubt_end(struct acdc_flow *);
/* 'bytes' were sent again. */
static inline void
acdc_doubt_note_again(struct acdc_flow *f, uint32_t bytes)
{
    const uint32_t most = (1 << 23) - 1;

    if (f->flags & ACDC_F_DOUBT) {
        struct acdc_flow_more *more = acdc_flow_more(f);

        bytes = bytes < most - more->again ? more->again + bytes : most;
        more->again = bytes & most;
        more->doubt_left = 2;
    }
}
/* Whether it waits for a verdict on the guest's timer. */
static inline bool
acdc_doubt_is_timer(const struct acdc_flow *f)
{
    return (f->flags & ACDC_F_DOUBT)
           && acdc_flow_more_if_any(f)->doubt_waits == ACDC_DOUBT_TIMER;
}

/* What an ACK says of it. */
struct acdc_told {
    uint32_t acked;             /* Bytes that it newly acknowledges. */
    bool all;                   /* It acknowledges all that was sent ... */
    bool arrived;               /* ... and reports that all of it arrived. */
    bool loss;                  /* It shows a loss. */
    bool filled;                /* SND.UNA has passed a hole that showed one. */
    bool pass;                  /* Another window of data was delivered. */
};
void acdc_doubt_settle(struct acdc_ctx *, struct acdc_flow *,
                       const struct acdc_facts *, const struct acdc_pkt *,
                       const struct acdc_told *);

/* acdc-unseen.c: the directions of a connection that go different ways; the flow's
 * lock held. */

/* The other end reports, or does not any more. */
void acdc_flow_set_capable(struct acdc_ctx *, struct acdc_flow *,
                           const struct acdc_params *, bool capable);
/* Before acdc_flow_see(), the first time in its unit: the guest sent data, or an ACK of
 * data that did not come. */
void acdc_flow_note_sent(struct acdc_ctx *, struct acdc_flow *,
                         const struct acdc_params *);
/* Whether data up to 'end' is followed. */
bool acdc_flow_follow_deaf(struct acdc_flow *, const struct acdc_pkt *,
                           uint32_t end);
/* Something came for a flow with ACDC_F_UNHEARD; 'near': whether its ACK number is
 * plausible.  Returns whether it is now. */
bool acdc_flow_hear(struct acdc_ctx *, struct acdc_flow *,
                    const struct acdc_params *, const struct acdc_pkt *,
                    bool near);
/* Takes an ACK that is plausible.  True if what it acknowledges was not sent
 * here. */
bool acdc_flow_follow_ack(const struct acdc_ctx *, struct acdc_flow *,
                          const struct acdc_pkt *);

/* After a RST that was not believed, be it answered with a challenge ACK (RFC 5961):
 * who got it sends 'p'. */
void acdc_flow_go_on(struct acdc_ctx *, struct acdc_flow *,
                     const struct acdc_pkt *);

/* Notes FIN and RST of 'p', and what acknowledges a FIN.  'last': how far data in the
 * direction of 'p' reached before it, snd_nxt or rcv_nxt. */
void acdc_flow_do_note_end(struct acdc_ctx *, struct acdc_flow *,
                           const struct acdc_pkt *, uint32_t last);
static inline void
acdc_flow_note_end(struct acdc_ctx *ctx, struct acdc_flow *f,
                   const struct acdc_pkt *p, uint32_t last)
{
    if (acdc_unlikely((p->tcp_flags & (ACDC_TCP_FIN | ACDC_TCP_RST))
                      || (f->flags & (ACDC_F_FIN_GUEST | ACDC_F_FIN_PEER)))) {
        acdc_flow_do_note_end(ctx, f, p, last);
    }
}

#endif /* acdc-private.h */
