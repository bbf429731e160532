/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The layout of a flow, and what can be asked of one alone.  All of it is under the
 * flow's lock unless a field says otherwise. */

#ifndef ACDC_FLOW_H
#define ACDC_FLOW_H 1

#include "acdc-packet.h"
#include "acdc-law.h"

/* Timers and thresholds. */
enum {
    ACDC_HALF_OPEN_MS = 70 * 1000,  /* Life of a handshake: covers the longest
                                     * pause between retransmissions of SYN, 64 s
                                     * of Linux. */
    ACDC_HALF_OPEN_SHORT_MS = 3000, /* And of one of too many: covers the
                                     * first. */
    ACDC_LINGER_MS = 10 * 1000,     /* Life after FIN/FIN or the peer's refusal,
                                     * for what is still on its way. */
    ACDC_IDLE_EVICT_MS = 60 * 1000, /* An established flow this idle goes when
                                     * the table is full. */
    ACDC_RTO_MIN_MS = 10,           /* The least RTO tuned for datacenters. */
    ACDC_RACK_MOST_MS = 25,         /* RACK's wait (RFC 8985 section 6.2), where the
                                     * clock ticks every 10 ms. */
    ACDC_RTO_FIRST_MS = 1000,       /* RFC 6298, before there is a sample. */
    ACDC_DUPTHRESH = 3,             /* RFC 5681. */
    ACDC_DUPTHRESH_LATE = 5,        /* After these, two windows of data delivered
                                     * where the path was seen to reorder. */
    ACDC_SYN_PLAIN_MS = 1500,       /* So long after the first one a SYN goes
                                     * without option and ECT: something on the
                                     * path may not like them.  More than the
                                     * first retransmission takes (RFC 6298). */
    ACDC_PATH_UNIT_MS = 1 << 14,    /* What is known of a path is good for so */
    ACDC_PATH_UNITS = 36,           /* many of these, ten minutes (RFC 8201
                                     * section 4, of an MTU). */
    ACDC_FEEDBACK_RESYNC = 4,       /* Impossible reports in a row after which
                                     * counting starts anew: the network may
                                     * have duplicated packets. */
    ACDC_PLAUSIBLE = 1 << 24,       /* Bytes: what is further from the
                                     * connection's present was not sent by
                                     * the other end, see is_plausible(). */
    ACDC_UNSEEN_MS = 60000,         /* So long after a fragment an ACK may be of
                                     * data in it (RFC 8200 section 4.5: the
                                     * time for reassembly). */
    ACDC_UNHEARD_PAUSE = 16,        /* In ACDC_SEEN_UNIT: 4 s. */
    ACDC_ELSEWHERE_MS = 1000,       /* So long without data of the guest, what is
                                     * acknowledged went by another port. */
    ACDC_PATH_MIN = 576,            /* Bytes, which every path takes (RFC 1191). */
    ACDC_MTUS = 4,                  /* MTUs that a port remembers. */
    ACDC_CLOCK_SKEW_MS = 60000,     /* More than threads' clocks differ, less
                                     * than 2^31 ms less idle_timeout. */
    ACDC_ACTIVE_SKEW_MS = 4000,     /* Likewise, where milliseconds have 16
                                     * bits. */
    ACDC_BEGIN = 1 << 17,           /* Bytes, of a connection whose SYN or
                                     * SYN-ACK may be sent again: what TCP Fast
                                     * Open has in its first round trip. */
    ACDC_INACTIVE_MS = 30000,       /* Longer than any RTO that the engine
                                     * estimates. */
    ACDC_EVICT_SCAN = 256,          /* Flows looked at to make room for one. */
    ACDC_SAME_ENDS = 4,             /* Connections of a port that differ in VLANs
                                     * only: they are in one bucket. */
    ACDC_QUESTIONS = 3,         /* A connection; how many were asked is in
                                 * acdc_flow.bad_feedback. */
    ACDC_ASK_MS = 50,           /* The next one after four times that, and after
                                 * four times as long each. */
    ACDC_SHOW = 4,              /* In ACDC_SEEN_UNIT, 1 s: see acdc_resume_show(). */
    ACDC_SYNS_MAX = 2,          /* Counters that stop there. */
    ACDC_PENDING_MAX = 0xffff,
    ACDC_SILENT_MAX = 0xffff,
    ACDC_SILENT_UNIT = 64,      /* Bytes, of acdc_flow_in.silent. */
    ACDC_LOST_UNIT = 16,        /* Likewise of 'lost', ... */
    ACDC_LOST_MAX = 0x7fff,     /* ... and the most of them. */
    ACDC_PROMPT_ACKS = 24,      /* So many in a row show a far guest that does
                                 * not delay them: more than the 16 segments
                                 * after a handshake for which Linux does not
                                 * anyway (TCP_MAX_QUICKACKS). */
    ACDC_DELAYS = 31,           /* The far guest did not acknowledge at once
                                 * what had CWR when it mattered. */
    ACDC_PROMPT_UNTIMED = 30,   /* The round-trip time is still the
                                 * handshake's. */
    ACDC_DELAYED_ACK_US = 5000, /* Less than any stack's timer for them. */
    ACDC_RTT_BUCKETS = 192,         /* 8 an octave, from 1 us. */
    ACDC_RTT_SKEW_US = 1000000,     /* As ACDC_CLOCK_SKEW_MS, of what is timed:
                                     * 24 bits, 16.8 s. */
    ACDC_RTT_MOST_US = 1 << 23,     /* What takes longer says nothing. */
};

/* acdc_flow.flags. */
enum {
    ACDC_F_PLAIN = 1 << 0,          /* The parameters in force have the window of
                                     * a capable flow enforced, and not a small
                                     * one. */
    ACDC_F_DEAD = 1 << 1,           /* Unlinked: touch nothing but the lock. */
    ACDC_F_OFFERED = 1 << 2,        /* We sent the capability, once. */
    ACDC_F_PEER = 1 << 3,           /* The other end sent it, once. */
    ACDC_F_CAPABLE = 1 << 4,        /* Both, and feedback comes. */
    ACDC_F_UNHEARD = 1 << 5,        /* The guest sent something, and nothing came,
                                     * see acdc_flow_note_sent(). */
    ACDC_F_WSCALE_PEER = 1 << 6,    /* In the handshake: option on the peer's SYN. */
    ACDC_F_DUPLICATES = 1 << 6,     /* After it: the network was seen to send twice. */
    ACDC_F_SACK = 1 << 7,           /* Option on the SYN; after the SYN-ACK: on
                                     * both. */
    ACDC_F_NOT_ECT = 1 << 8,        /* The other end has ACDC_CAP_NOT_ECT. */
    ACDC_F_ECN_SYN = 1 << 9,        /* ECN-setup SYN, RFC 3168. */
    ACDC_F_GUEST_ECN = 1 << 10,     /* And ECN-setup SYN-ACK. */
    ACDC_F_RTT_PENDING = 1 << 11,   /* A segment is being timed; then
                                     * ACDC_F_RTT_NEXT is not set. */
    ACDC_F_EDGE = 1 << 12,          /* right_edge and peer_edge are valid.  If not,
                                     * see acdc_flow_is_deaf(). */
    ACDC_F_FIN_GUEST = 1 << 13,     /* snd_nxt is the number after a FIN. */
    ACDC_F_FIN_PEER = 1 << 14,      /* And rcv_nxt. */
    ACDC_F_RX_CE = 1 << 15,         /* CE state of the data to the guest. */
    ACDC_F_RX_NEWS = 1 << 16,       /* It changed since the last feedback. */
    ACDC_F_TODO = 1 << 17,          /* Something is to be done with the guest's next
                                     * packets: acdc_flow_in.asked, .to_report,
                                     * .paused. */
    ACDC_F_LAW = 1 << 18,           /* 'law' was started.  It is in the tenant's capable
                                     * or fallback count. */
    ACDC_F_UNOFFERED = 1 << 19,     /* A SYN or SYN-ACK, or the answer to it, was
                                     * without the capability for a reason that
                                     * the guest may have made. */
    ACDC_F_MSS_ALIGNED = 1 << 20,   /* The guest was told a smaller MSS. */
    ACDC_F_SHRUNK = 1 << 21,        /* The guest was once told a window that
                                     * ends before what it had sent, see
                                     * renumber_ack(). */
    ACDC_F_DOUBT = 1 << 22,         /* Something seems to be lost, and maybe
                                     * nothing is: acdc-doubt.c. */
    ACDC_F_BOTH_WAYS = 1 << 23,     /* The guest once got data while its own
                                     * was in flight. */
    ACDC_F_SOLICITED = 1 << 24,     /* The last data of the guest's was sent
                                     * with CWR, see solicit_ack(). */
    ACDC_F_RTT_NEXT = 1 << 25,      /* The next one of new data will be, see
                                     * acdc_flow_time_next(). */
    ACDC_F_BEHIND = 1 << 26,        /* The guest does not know snd_una yet, of
                                     * which a FACK told. */
    ACDC_F_RESUME = 1 << 27,        /* Both ends have ACDC_CAP_RESUME for this one. */
    ACDC_F_WSCALE_SHIFT = 28,       /* Of the guest's windows, four bits: one more
                                     * than in the option on its SYN, 0 without
                                     * one.  See acdc_flow_guest_wscale(). */
};

/* One connection of one port.  There may be millions: numbers have as many bits
 * as they need, what is not needed at the same time shares memory, and it is in
 * two parts (see acdc_flow_in()).
 *
 * This one is all that most packets from the guest need, and all that both
 * directions write with each packet: 64 bytes in userspace, a cache line, so that
 * where the directions are on different processors a single one goes to and
 * fro. */
struct acdc_flow {
    /* Found by, immutable but for 'next' (table lock, RCU). */
    acdc_link next;
    uint32_t ports;             /* be.  Local and remote, as in a packet of the
                                 * guest. */
    uint32_t addrs[2];          /* be.  Likewise of IPv4.  IPv6: a hash of those
                                 * in struct acdc_flow6, and in the last 24
                                 * bits the VLANs.  See acdc_flow_addrs(). */
    acdc_lock_t lock;           /* In a word with nothing that compilers would
                                 * ask for at once with 'flags'. */

    /* All that follows but 'port_key', and of the other part: 'lock'. */
    uint8_t state : 3;          /* enum acdc_flow_state. */
    uint8_t bad_feedback : 2;   /* Impossible reports in a row. */
    uint8_t dupacks : 3;        /* Up to ACDC_DUPTHRESH, then see
                                 * acdc_flow_shows_loss(). */
    uint16_t port_key;          /* acdc_port.idx times ACDC_N_KINDS, plus
                                 * ACDC_KIND_*.  Found by, immutable. */
    uint16_t mss;               /* Smaller of both MSS options. */
    uint16_t policy_gen;        /* Of the policy 'rule' comes from. */
    uint32_t flags;             /* ACDC_F_*. */
    uint32_t rule : 9;          /* Whose parameters it has, see struct
                                 * acdc_policy. */
    uint32_t seen : 23;         /* Last packet, see acdc_flow_idle_ms(). */
    union {
        struct acdc_rcu rcu;    /* When dead. */
        struct {
            /* Sender side: data of the guest. */
            uint32_t snd_una;   /* In the handshake the guest's ISS. */
            uint32_t snd_nxt;
            uint32_t rtt_us : 24;       /* When what is timed was sent. */
            uint32_t peer_wscale : 4;   /* The peer's windows. */
            uint32_t out_wscale : 4;    /* What the guest believes that is. */
            uint32_t peer_edge; /* Highest ever offered by the peer. */
            /* Receiver side: data to the guest. */
            uint32_t rcv_nxt;   /* Highest seen. */
            uint32_t rx_total;  /* Payload bytes. */
        };
    };
    uint32_t rx_ce;             /* Of rx_total, marked. */
    uint16_t rx_pending;        /* Payload bytes since the last feedback sent,
                                 * up to ACDC_PENDING_MAX. */
    uint16_t active;            /* Milliseconds.  Data of the guest sent or
                                 * acknowledged, see acdc_flow_inactive_ms(). */
};

/* The other part: what packets to the guest need.  64 bytes. */
struct acdc_flow_in {
    uint32_t srtt_us8 : 24;     /* Smoothed round-trip time, RFC 6298,
                                 * microseconds times 8. */
    uint32_t n_syns : 2;        /* In the handshake: transmissions of the
                                 * guest's SYN.  After it: ACDC_OTHER_VLANS,
                                 * ACDC_FIN_TAKEN, ACDC_RESUMED. */
    uint32_t prompt_acks : 5;   /* Of one segment, in a row, up to
                                 * ACDC_PROMPT_ACKS, see
                                 * acdc_flow_is_prompt(); or ACDC_DELAYS,
                                 * or ACDC_PROMPT_UNTIMED. */
    uint32_t unheard : 1;       /* With ACDC_F_UNHEARD: already for two ticks.
                                 * Deaf: the guest was near the edges. */
    uint32_t tx_beyond;         /* See acdc_flow_tx_total(). */
    uint32_t right_edge;        /* Highest ever offered to the guest. */
    uint16_t peer_window;       /* Window field of the last ACK, raw, ... */
    uint16_t out_window;        /* ... and as the guest got it. */
    uint32_t next_send;         /* acdc-pace.h: when data may leave again, in
                                 * ACDC_PACE_NS. */
    uint8_t unpaced;            /* So many segments may still leave at once. */
    bool timed_held : 1;        /* What is timed leaves later than it came. */
    bool has_more : 1;          /* See acdc_flow_more(). */
    bool paces : 1;             /* 'next_send' is from this very pace. */
    bool asked : 1;             /* With ACDC_F_TODO: the other end has asked for the
                                 * state. */
    bool to_report : 1;         /* Likewise: a marked segment came, acdc-timing.h. */
    bool paused : 1;            /* Likewise: data waits, acdc-onramp.h. */
    bool scales : 1;            /* In the handshake: the peer's SYN has
                                 * ACDC_CAP_SCALES. */
    bool in_run : 1;            /* The last data to the guest was marked and without
                                 * PSH: more of the same packet may come. */
    struct acdc_law law;        /* Only ACKs need what is behind 'wnd', and
                                 * what follows. */
    uint32_t fb_total;          /* Last feedback got. */
    union {
        uint32_t fb_ce;
        uint32_t delivered_to;  /* Without ACDC_F_CAPABLE: snd_una and what has
                                 * arrived beyond it.  Of no meaning unless it is
                                 * between snd_una and snd_nxt. */
    };
    union {
        uint32_t irs;           /* In the handshake: of the peer. */
        struct {                /* After it: */
            uint16_t silent;    /* Acknowledged since the last feedback got,
                                 * up to ACDC_SILENT_MAX.  With 'asked': the
                                 * question's number.  Without ACDC_F_CAPABLE: see
                                 * acdc_resume_show(). */
            uint16_t lost : 15; /* Payload sent and never received, when last
                                 * known. */
            uint16_t reorders : 1;      /* The path does, and since then nothing
                                         * was lost. */
        };
    };
};

/* acdc_flow_in.n_syns, after the handshake. */
enum {
    ACDC_OTHER_VLANS = 1 << 0,  /* The peer's SYN-ACK came in others, see
                                 * acdc_flow_find(). */
    ACDC_FIN_TAKEN = 1 << 1,    /* With ACDC_F_FIN_PEER: the guest has acknowledged
                                 * it. */
    ACDC_RESUMED = 1 << 1,      /* Without: taken up again, see acdc-resume.c. */
};

/* The third part, which flows of IPv4 without VLANs do not have. */
struct acdc_flow6 {
    union {
        struct {
            uint8_t laddr[16], raddr[16];       /* be. */
        };
        uint32_t vids;          /* IPv4: as in struct acdc_pkt. */
    };
};

/* The path of a flow, see acdc-plb.h. */
enum { ACDC_PLB_UNTIL_MASK = (1 << 18) - 1 };
struct acdc_plb {
    uint32_t balance;           /* When the round began: twice the marked bytes that
                                 * were reported, less all of them. */
    uint32_t path : 8;          /* 0: its packets go as they are. */
    uint32_t congested : 4;     /* Rounds in a row. */
    uint32_t begun : 1;         /* 'balance' is known. */
    uint32_t suspended : 1;     /* Until then, in ACDC_SEEN_UNIT: */
    uint32_t until : 18;
};

/* Timing, see acdc-timing.h.  Times are in microseconds, of 24 bits, 16.8 s. */
struct acdc_timing {
    /* Sender side. */
    uint32_t sent_us : 24;      /* When the marked segment left. */
    uint32_t mark : 8;          /* acdc_timing_mark_of() it. */
    uint32_t rtt_us : 24;       /* The network's round trip, last measured. */
    uint32_t on : 1;            /* Both ends have ACDC_CAP_TIMING. */
    uint32_t marked : 1;        /* A report of the marked segment may come. */
    uint32_t synced : 1;        /* 'delay_us' is all of the one-way delay. */
    uint32_t far_finer : 4;     /* Not of timing, see acdc-wscale.c: by so much finer
                                 * than the guest's window scale is the one that the
                                 * other guest was told. */
    uint32_t held : 1;          /* The marked segment was to leave later. */
    uint32_t delay_us : 24;     /* One-way delay, or what is beyond the least,
                                 * last measured. */
    uint32_t behind : 8;        /* acdc_timing_mark_of() data that is not marked: what is
                                 * behind a marked packet without PSH. */
    struct acdc_least least;    /* 'rtt_us'. */
    uint32_t base;              /* The peer's clock less ours, and the least one-way
                                 * delay. */
    /* Receiver side. */
    uint32_t came_us : 24;      /* With acdc_flow_in.to_report: when a marked
                                 * segment came. */
    uint32_t came_mark : 8;     /* acdc_timing_mark_of() it. */
};

/* On-Ramp, see acdc-onramp.h. */
struct acdc_on_ramp {
    uint32_t until_us : 24;     /* With acdc_flow_in.paused: microseconds. */
    uint32_t beta : 8;          /* How much less the delay is for a pause, in 1/255. */
    uint16_t pause_us : 15;     /* The last pause. */
    uint16_t held : 1;          /* Data waited in it. */
    uint16_t before_us;         /* The pause before it. */
};

/* What is in doubt and has not changed the window yet, see acdc-doubt.c. */
enum acdc_doubt {
    ACDC_DOUBT_NONE,
    ACDC_DOUBT_PROBE,           /* Whether a tail probe replaced what was lost. */
    ACDC_DOUBT_TIMER,           /* Whether the guest's timer expired for a loss. */
};

/* What only flows need that seem to lose something, or that have parameters as few
 * tenants have: 64 bytes, which in userspace take memory only in flows that use them. */
struct acdc_flow_more {
    struct acdc_plb plb;
    /* acdc-tail.h. */
    uint32_t tail_end;          /* Sequence number after what is kept. */
    uint32_t tail_una;          /* SND.UNA when that was last put off. */
    uint32_t tail_due : 24;     /* When it is asked for, microseconds. */
    uint32_t tail_prompt : 5;   /* So many tails in a row were acknowledged in time, up
                                 * to ACDC_TAIL_PROMPT. */
    uint32_t tail_late : 1;     /* The one that is kept was not. */
    uint32_t tail_kept : 1;     /* Something is kept, which nobody has acknowledged by
                                 * SACK. */
    uint32_t tail_delays : 2;   /* How often the other end already had what was the only
                                 * segment in flight. */
    /* With ACDC_F_DOUBT, acdc-doubt.c: */
    uint32_t tail_probed : 1;   /* There was a probe ... */
    uint32_t tail_alone : 1;    /* ... of such a segment. */
    uint32_t doubt_waits : 2;   /* enum acdc_doubt. */
    uint32_t doubt_left : 2;    /* It is over after so many windows of data. */
    uint32_t again : 23;        /* Bytes sent again since it began, of which the other
                                 * end has not said that they came twice. */
    struct acdc_timing timing;
    struct acdc_on_ramp on_ramp;
    struct acdc_undo undo;      /* With ACDC_F_DOUBT. */
};

/* Bytes, with all parts. */
static inline size_t
acdc_flow_size(bool three)
{
    size_t size = sizeof(struct acdc_flow) + sizeof(struct acdc_flow_in)
                  + (three ? sizeof(struct acdc_flow6) : 0);

#ifndef ACDC_ARENA
    size += sizeof(struct acdc_flow_more);
#endif
    return size;
}

static inline uint64_t
acdc_flow_addrs(const struct acdc_flow *f)
{
    return acdc_load64(f->addrs);
}

static inline bool
acdc_flow_is_v6(const struct acdc_flow *f)
{
    return f->port_key % ACDC_N_KINDS == ACDC_KIND_6;
}

/* Whether it has three parts. */
static inline bool
acdc_flow_has_three(const struct acdc_flow *f)
{
    return f->port_key % ACDC_N_KINDS != ACDC_KIND_4;
}

static inline struct acdc_flow_in *
acdc_flow_in(const struct acdc_flow *f)
{
#ifdef ACDC_ARENA
    return acdc_arena_in(f);
#else
    return (struct acdc_flow_in *) (f + 1);
#endif
}

static inline struct acdc_flow6 *
acdc_flow6(const struct acdc_flow *f)
{
#ifdef ACDC_ARENA
    return acdc_arena6(f);
#else
    return (struct acdc_flow6 *) (acdc_flow_in(f) + 1);
#endif
}

/* What few flows have; NULL if 'f' never asked for it. */
static inline struct acdc_flow_more *
acdc_flow_more_if_any(const struct acdc_flow *f)
{
    if (!acdc_flow_in(f)->has_more) {
        return NULL;
    }
#ifdef ACDC_ARENA
    return acdc_arena_more(f);
#else
    return (struct acdc_flow_more *) (void *)
           ((char *) (acdc_flow_in(f) + 1)
            + (acdc_flow_has_three(f) ? sizeof(struct acdc_flow6) : 0));
#endif
}

/* Likewise, and zeros the first time. */
static inline struct acdc_flow_more *
acdc_flow_more(const struct acdc_flow *f)
{
    bool had = acdc_flow_in(f)->has_more;
    struct acdc_flow_more *more;

    acdc_flow_in(f)->has_more = true;
    more = acdc_flow_more_if_any(f);
    if (acdc_unlikely(!had)) {
        memset(more, 0, sizeof *more);
    }
    return more;
}

/* As in struct acdc_pkt. */
static inline uint32_t
acdc_flow_vids(const struct acdc_flow *f)
{
    return acdc_flow_is_v6(f) ? acdc_flow_addrs(f) & 0xffffff
           : acdc_flow_has_three(f) ? acdc_flow6(f)->vids : 0;
}

static inline void
acdc_flow_set_guest_wscale(struct acdc_flow *f, uint8_t wscale)
{
    f->flags &= (1u << ACDC_F_WSCALE_SHIFT) - 1;
    f->flags |= (uint32_t) (wscale + 1) << ACDC_F_WSCALE_SHIFT;
}

/* Milliseconds from 'since' to 'now', which may be weeks.  0 if that is
 * negative: another thread's clock may be a little ahead of ours. */
static inline uint32_t
elapsed_ms(uint32_t now_ms, uint32_t since_ms)
{
    uint32_t elapsed = now_ms - since_ms;

    return elapsed < (uint32_t) -ACDC_CLOCK_SKEW_MS ? elapsed : 0;
}

/* Whether 'seq' is less than 16 MB from 'now', where the connection is. */
static inline bool
seq_plausible(uint32_t seq, uint32_t now)
{
    return seq - now + ACDC_PLAUSIBLE < 2u * ACDC_PLAUSIBLE;
}

/* Times.  They have few bits and come round; acdc_flow_forget() keeps them from
 * it. ----------------------------------------------------------------------- */

/* 'seen' counts units of so many milliseconds, 2^31 of these in all: more than
 * any idle_timeout. */
enum { ACDC_SEEN_UNIT = 256, ACDC_SEEN_MASK = (1 << 23) - 1 };

static inline uint32_t
acdc_seen(uint32_t now_ms)
{
    return now_ms / ACDC_SEEN_UNIT & ACDC_SEEN_MASK;
}

/* Milliseconds without a packet: it may be up to two units more, so that no flow
 * goes before its time. */
static inline uint32_t
acdc_flow_idle_ms(const struct acdc_flow *f, uint32_t now_ms)
{
    uint32_t units = (acdc_seen(now_ms) - f->seen) & ACDC_SEEN_MASK;

    /* Another thread's clock may be a little ahead of ours. */
    if (!units
        || units > ACDC_SEEN_MASK - ACDC_CLOCK_SKEW_MS / ACDC_SEEN_UNIT) {
        return 0;
    }
    return (units - 1) * ACDC_SEEN_UNIT + 1;
}

/* Milliseconds in which no data of the guest was sent or acknowledged; exact up
 * to ACDC_INACTIVE_MS. */
static inline uint32_t
acdc_flow_inactive_ms(const struct acdc_flow *f, uint32_t now_ms)
{
    uint16_t inactive = (uint16_t) (now_ms - f->active);

    return inactive < 0x10000 - ACDC_ACTIVE_SKEW_MS ? inactive : 0;
}

/* Whether the far guest is known to acknowledge at once what has CWR. */
static inline bool
acdc_flow_is_prompt(const struct acdc_flow *f)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    return in->prompt_acks == ACDC_PROMPT_ACKS;
}

/* Whether both ends showed the capability. */
static inline bool
acdc_flow_both_showed(const struct acdc_flow *f)
{
    return (f->flags & ACDC_F_OFFERED) && (f->flags & ACDC_F_PEER);
}

/* Whether nothing comes by this port of what the guest gets, so that the connection
 * cannot be followed; only after the handshake. */
static inline bool
acdc_flow_is_deaf(const struct acdc_flow *f)
{
    return !(f->flags & ACDC_F_EDGE);
}

/* Whether data that not every path takes goes without option: some of it had to be
 * sent again, maybe as it was larger with one than a path that says nothing takes
 * (RFC 2923 section 2.1). */
static inline bool
acdc_flow_avoids_pack(const struct acdc_flow *f)
{
    return acdc_flow_in(f)->law.callers;
}

/* Payload of the segments that become of 'p': less than in a full one where the guest
 * knows that its path takes less. */
static inline uint32_t
acdc_flow_segment(const struct acdc_flow *f, const struct acdc_pkt *p)
{
    return p->gso >= ACDC_MSS_MIN && p->gso < f->mss ? p->gso : f->mss;
}

/* Whether a window below two segments is in use, which needs that. */
static inline bool
acdc_flow_is_small(const struct acdc_flow *f)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    return acdc_flow_is_prompt(f) && in->law.wnd < 2u * f->mss;
}

/* Payload bytes that the guest sent, with retransmissions.  It grows as snd_nxt
 * does but for these, and has no field of its own that all data would write. */
static inline uint32_t
acdc_flow_tx_total(const struct acdc_flow *f)
{
    return f->snd_nxt + acdc_flow_in(f)->tx_beyond;
}

static inline void
acdc_flow_set_tx_total(struct acdc_flow *f, uint32_t total)
{
    acdc_flow_in(f)->tx_beyond = total - f->snd_nxt;
}

/* Round-trip times.  One segment is timed at once, the first of new data that is
 * sent after this: as soon as more than law.window_left is delivered, which is what
 * is in flight now, 'window', its time is known.  While a cut or a loss holds that is
 * what it holds for, and has the same value. */
static inline void
acdc_flow_time_next(struct acdc_flow *f, uint32_t window)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    if (!acdc_law_is_held(&in->law)) {
        in->law.window_left = window;
    }
    f->flags = (f->flags & ~(uint32_t) ACDC_F_RTT_PENDING) | ACDC_F_RTT_NEXT;
}

static inline bool
acdc_state_is_half_open(enum acdc_flow_state state)
{
    return state == ACDC_FLOW_SYN_SENT || state == ACDC_FLOW_SYN_RECEIVED;
}

/* Whether it counts against the quota of these. */
static inline bool
acdc_state_is_unsettled(enum acdc_flow_state state)
{
    return acdc_state_is_half_open(state) || state == ACDC_FLOW_ASKING;
}

/* Whether it is there only to be taken up again, if the other end knows it. */
static inline bool
acdc_flow_is_lost(const struct acdc_flow *f)
{
    return f->state >= ACDC_FLOW_ASKING;
}

/* A RST of the guest that refuses a connection takes it out of the quota of
 * half-open ones, and that is all. */
static inline bool
acdc_flow_in_handshake(const struct acdc_flow *f)
{
    return acdc_state_is_half_open((enum acdc_flow_state) f->state)
           || (f->state == ACDC_FLOW_RESET && !(f->flags & ACDC_F_LAW));
}

/* Something was lost: the path does not only reorder.  In the handshake the field is
 * another one's. */
static inline void
acdc_flow_note_order(const struct acdc_flow *f)
{
    if (!acdc_flow_in_handshake(f)) {
        acdc_flow_in(f)->reorders = false;
    }
}

/* Whether both have sent FIN, and acknowledged the other's: what can still come is in
 * the linger. */
static inline bool
acdc_flow_is_over(const struct acdc_flow *f)
{
    const uint32_t fins = ACDC_F_FIN_GUEST | ACDC_F_FIN_PEER;

    return (f->flags & fins) == fins && !acdc_flow_in_handshake(f)
           && f->snd_una == f->snd_nxt
           && (acdc_flow_in(f)->n_syns & ACDC_FIN_TAKEN);
}

/* Whether both guests had the window scale option; after the handshake the guest's is
 * noted only then. */
static inline bool
acdc_flow_scales(const struct acdc_flow *f)
{
    return f->flags >> ACDC_F_WSCALE_SHIFT
           && (!acdc_flow_in_handshake(f) || (f->flags & ACDC_F_WSCALE_PEER));
}

static inline uint8_t
acdc_flow_guest_wscale(const struct acdc_flow *f)
{
    return acdc_flow_scales(f)
           ? (uint8_t) ((f->flags >> ACDC_F_WSCALE_SHIFT) - 1) : 0;
}

static inline bool
acdc_flow_is_resumed(const struct acdc_flow *f)
{
    return (f->flags & (ACDC_F_LAW | ACDC_F_FIN_PEER)) == ACDC_F_LAW
           && !acdc_flow_in_handshake(f)
           && (acdc_flow_in(f)->n_syns & ACDC_RESUMED);
}

/* Whether both ends may still have this connection, whose law has begun, as far as
 * they have said: no FINs of both, and who gets a RST may only challenge it (RFC
 * 5961).  Then another SYN, or SYN-ACK, begins a second flow of the same key.  That is
 * behind the first in its bucket, and takes its place once the other end confirms it:
 * a guest's word alone ends nothing, at either end. */
static inline bool
acdc_flow_is_live(const struct acdc_flow *f)
{
    return (f->flags & ACDC_F_LAW)
           && (f->state != ACDC_FLOW_CLOSED || !acdc_flow_is_over(f));
}

/* Whether 'seq' is the ISS of the guest, for a SYN or SYN-ACK sent again.  After
 * the handshake it is not known, but that a new one is as near, 2^17 of 2^32, is
 * unlikely. */
static inline bool
acdc_flow_is_iss(const struct acdc_flow *f, uint32_t seq)
{
    return acdc_flow_in_handshake(f) ? seq == f->snd_una
                                     : f->snd_una - seq <= ACDC_BEGIN;
}

/* Likewise of the peer. */
static inline bool
acdc_flow_is_irs(const struct acdc_flow *f, uint32_t seq)
{
    struct acdc_flow_in *in = acdc_flow_in(f);

    return acdc_flow_in_handshake(f) ? seq == in->irs
                                     : f->rcv_nxt - seq <= ACDC_BEGIN;
}

#endif /* acdc-flow.h */
