/* SPDX-License-Identifier: Apache-2.0 */

/* acdc-trace: what limits each TCP connection of a capture.
 *
 * A frame becomes a segment (frame.c, with the engine's parser), the segment one of
 * a connection at a tap (table.c, conn.c), and there data or an acknowledgment of one
 * direction (half.c).  law.c replays the engine's law on the feedback; verdict.c
 * says in words what was found, output.c prints it.
 *
 * Times are nanoseconds since 1970, sizes bytes, sequence numbers as on the wire. */

#ifndef TRACE_H
#define TRACE_H 1

#include <stdio.h>

#include "acdc-law.h"

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define UNKNOWN UINT32_MAX      /* Of a window, bytes. */

/* Where a capture was taken: at a guest's port of the switch, or on the wire between
 * the switches.  One capture of which the user does not say it is SIDE_FIRST; that
 * it is of the wire is known by AC/DC's options. */
enum side { SIDE_FIRST, SIDE_WIRE, N_SIDES };

struct segment {
    uint64_t time;
    enum side side;
    uint8_t addr[2][16];        /* Source, destination; IPv4 as ::ffff:a.b.c.d. */
    uint16_t port[2];
    uint32_t network;           /* VLANs and VNI that it is in, 0: none. */
    uint32_t seq, ack, payload;
    uint32_t fb_ce, fb_total;   /* With 'feedback'. */
    uint32_t ts_val, ts_ecr;    /* With 'timestamps'. */
    uint16_t window;            /* Not scaled. */
    uint16_t mss;               /* 0: no option. */
    uint8_t wscale;
    uint8_t flags;              /* ACDC_TCP_*. */
    uint8_t ecn;                /* enum acdc_ecn. */
    bool fack, feedback, capability, has_wscale, timestamps, sack;
};

/* Frames, by what they are. ------------------------------------------------ */

struct frame_counts {
    uint64_t tcp;
    uint64_t other;             /* Not TCP, fragments, IPsec, TCP-MD5, TCP-AO. */
    uint64_t cut;               /* The capture's snap length is too small. */
    uint64_t malformed;
};

/* Reads a frame of 'len' bytes on the wire, of which the capture has the first
 * 'hlen', with a header of 'linktype' (DLT_*).  True if it is TCP: then '*s' is
 * set but for 'time' and 'side'.  Counts it. */
bool frame_read(const uint8_t *data, uint32_t hlen, uint32_t len, int linktype,
                uint16_t exid, struct segment *s, struct frame_counts *);
bool frame_knows(int linktype);

/* Connections. ------------------------------------------------------------- */

/* Data in flight whose round-trip time is to be known. */
struct sent {
    uint64_t time;
    uint32_t end;               /* Sequence number after it. */
    bool again;                 /* Retransmitted, its end at the least. */
    bool waits;                 /* Or a part of it: not timed (Karn). */
};

struct hole {
    uint64_t time;              /* When the first data behind it came. */
    uint32_t start, end;
};

enum { N_HOLES = 8, SENT_FIRST = 8, SENT_MAX = 256 };

/* What a direction's time went into. */
enum limit {
    LIMIT_NONE,                 /* Nothing was to be sent, or it had ended. */
    LIMIT_APPLICATION,
    LIMIT_RECEIVER,
    LIMIT_SWITCH,
    LIMIT_WINDOW,               /* Of the two before: it is not known which. */
    LIMIT_UNKNOWN,              /* A window or the next: the scale is not known. */
    LIMIT_SENDER,               /* Its own congestion window. */
    LIMIT_LOSS,
    LIMIT_TIMEOUT,
    LIMIT_DELAYED_ACK,
    N_LIMITS
};

/* What happened; in a round trip or altogether. */
struct sums {
    uint64_t sent;              /* Payload, with what was sent again. */
    uint64_t acked;
    uint64_t ce;                /* Of 'sent', with CE. */
    uint64_t fb_ce, fb_total;   /* Reported by the other end's switch. */
    uint64_t rtt_ns;            /* Of all samples. */
    uint64_t rtt_min, rtt_max;  /* 0: no sample. */
    uint64_t held_ns, held_max; /* Between guest's port and wire. */
    uint32_t rtt_samples, held_samples;
    uint32_t flight_max;
    uint32_t segments, retransmitted, reordered;
    uint32_t timeouts, probes;  /* Tail probes (RFC 8985). */
    uint32_t facks;
};

struct round {
    bool open;
    uint64_t start;
    uint32_t end_seq;           /* It is over when this is acknowledged. */
    struct sums sums;
};

/* The law on this direction's feedback.  At most one tap has it. */
struct replay {
    struct acdc_law law;
    bool based;                 /* The next two are valid. */
    uint32_t fb_ce, fb_total;   /* Of the last report. */
    uint64_t silent;            /* Acknowledged since then. */
};

/* The data of one end as one tap sees it, and what the other end says of it. */
struct half {
    bool begun;                 /* snd_una and snd_max are valid. */
    bool fin;                   /* Sent. */
    bool fin_acked;
    bool edge_valid;
    bool partial;               /* The last segment was not a full one. */
    bool recovering;            /* Until 'recover' is acknowledged. */
    bool ece_seen;              /* The other end said it. */
    bool sacked;                /* Something, by its last ACK. */
    uint8_t n_holes, dupacks;
    uint32_t snd_una, snd_max;
    uint32_t recover;
    uint32_t full;              /* The last 'snd_max' that filled the window,
                                 * or 'snd_una'. */
    uint32_t edge;              /* The highest window ever offered ends here. */
    uint32_t window;            /* The last one. */
    uint32_t offered;           /* The other end's then. */
    uint32_t payload_max;       /* Of a segment. */
    uint32_t acked_max;         /* Likewise, that was acknowledged and not sent again. */
    uint32_t rtt_min_samples;
    uint64_t last_event;        /* Data or its acknowledgment. */
    uint64_t last_data;
    uint64_t first_data, last_ack;
    uint64_t last_news;         /* Likewise, that said something of the data. */
    struct {
        uint32_t val;           /* Of an ACK, the first with this timestamp. */
        bool late;              /* Data that was sent before it has come since. */
        uint64_t time;          /* When it came; 0: it was answered. */
        uint64_t rtt_ns;        /* Of all samples: between tap and this end. */
        uint32_t rtt_samples;
    } echo;
    uint64_t freed;             /* When an ACK opened a full window, to which
                                 * nothing has come yet; 0: not so. */
    uint64_t rtt_min;           /* Between tap and other end; 0: not known. */
    uint64_t srtt;
    /* Findings. */
    uint64_t beyond;            /* Payload beyond the window. */
    uint64_t limits[N_LIMITS];  /* ns */
    uint64_t timeout_min, timeout_max;  /* How long one waited. */
    uint32_t delayed_acks;
    uint64_t delayed_min, delayed_max;
    struct {
        uint64_t time, wait;    /* Of an ACK that came late; 'wait' is 0: of none. */
        uint64_t spent;         /* Until then, in 'limit'. */
        enum limit limit;
    } late;
    bool feedback_lost;
    uint64_t feedback_lost_at;
    struct sums total;
    struct sums before;         /* Of the wire, when the last round ended. */
    struct round round;
    struct hole holes[N_HOLES];
    struct sent *sent;          /* A queue by 'end', of SENT_MAX at most. */
    uint16_t sent_first, sent_n, sent_size;
    struct replay *replay;      /* NULL: no feedback there. */
};

/* What one capture has of a connection. */
struct tap {
    struct half half[2];        /* By the end that sends. */
    struct {
        bool syn;               /* Its SYN or SYN-ACK was seen. */
        bool synack;            /* That was the last. */
        bool capability, has_wscale, timestamps, ecn;
        uint8_t wscale;
        uint8_t syns;           /* How often it was sent. */
        uint16_t mss;
        uint32_t isn;
        uint64_t syn_time, syn_wait;
    } end[2];
    bool acdc;                  /* AC/DC's options are seen here. */
};

struct conn {
    struct conn *next;          /* In its bucket. */
    struct conn *older, *newer; /* In the list of its state, by last_seen. */
    uint64_t hash;
    uint64_t first_seen, last_seen;
    uint64_t number;
    uint8_t addr[2][16];        /* The smaller end first. */
    uint16_t port[2];
    uint32_t network;
    uint8_t state;              /* enum conn_state. */
    int8_t client;              /* Which end sent the SYN; -1: not known. */
    bool reset[2];              /* It sent an RST, and nothing since: not all are believed. */
    bool announced;
    struct tap *tap[N_SIDES];
};

enum conn_state { CONN_HALF_OPEN, CONN_OPEN, CONN_CLOSED, N_CONN_STATES };

struct options {
    enum { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV } format;
    bool summary;               /* No rounds. */
    bool two;                   /* Captures of both sides. */
    uint16_t exid;
    uint32_t max_connections;
    uint64_t idle;              /* ns */
    int scale;                  /* Of windows without a handshake; -1: not known. */
    struct acdc_params params;
};

struct trace {
    struct options options;
    struct frame_counts frames;
    uint64_t start;             /* Of the first frame; 0: none yet. */
    uint64_t now;
    uint64_t n_connections;
    uint32_t n_open, n_buckets;
    struct conn **buckets;
    struct { struct conn *oldest, *newest; } list[N_CONN_STATES];
    FILE *out;
    bool failed;                /* Without memory. */
};

/* table.c */
bool table_init(struct trace *);
void table_segment(struct trace *, const struct segment *);
void table_expire(struct trace *, uint64_t now);
void table_end(struct trace *);         /* Ends and reports all. */

/* conn.c */
bool conn_segment(struct trace *, struct conn *, const struct segment *,
                  int from);
void conn_free(struct conn *);
/* The tap of which rounds and verdicts are told. */
static inline struct tap *
conn_main_tap(const struct conn *c)
{
    return c->tap[SIDE_FIRST] ? c->tap[SIDE_FIRST] : c->tap[SIDE_WIRE];
}
/* Bytes of payload in a full segment of 'end'. */
uint32_t conn_mss(const struct tap *, int end);
/* What the other end of the wire offers, of the data of 'end'; or UNKNOWN. */
uint32_t conn_offered(const struct conn *, int end);
uint32_t conn_told(const struct conn *, int end);
/* The replay of the data of 'end', or NULL. */
const struct replay *conn_replay(const struct conn *, int end);

/* limit.c */
enum limit limit_now(const struct conn *, const struct tap *, int end);
bool limit_window_is_full(const struct conn *, const struct tap *, int end);
/* All data of 'end' is acknowledged, after 'rtt'; the time before goes into 'limit'. */
void limit_late_ack(struct tap *, int end, const struct segment *, uint32_t acked,
                    uint64_t rtt, enum limit limit);
/* Data of 'end' follows. */
void limit_late_answer(struct tap *, int end, uint64_t now);

/* half.c */
static inline uint32_t
half_flight(const struct half *h)
{
    return h->snd_max - h->snd_una;
}
bool half_data(struct trace *, struct conn *, struct tap *, int end,
               const struct segment *);
void half_ack(struct trace *, struct conn *, struct tap *, int end,
              const struct segment *);
uint64_t half_rtt(const struct tap *, int end);

/* On the wire new data of 'end' came up to 'end_seq', of which 'tap' is the guest's. */
void half_held(struct tap *tap, int end, uint32_t end_seq, uint64_t now);

/* law.c: of the data of 'end'. */
struct law_event {
    uint32_t acked;
    bool loss, timeout;
};
void law_note(struct trace *, struct tap *, int end, const struct segment *,
              const struct law_event *);

/* verdict.c: notes, one a call of the function, most important first. */
void verdict(const struct trace *, const struct conn *, int end,
             void (*say)(void *aux, const char *cause, const char *words),
             void *aux);
extern const char *const limit_names[N_LIMITS];

/* output.c */
void output_start(struct trace *);
void output_round(struct trace *, struct conn *, struct tap *, int end);
void output_connection(struct trace *, struct conn *);
void output_end(struct trace *);

#endif /* trace.h */
