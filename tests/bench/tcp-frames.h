/* SPDX-License-Identifier: Apache-2.0 */

/* The packets of many TCP connections, for the benchmarks' sources.
 *
 * There are two sides, a guest and the network.  Sequence and ACK numbers go on
 * as those of real connections do, handshakes included, and the network's
 * packets carry AC/DC's options as if the other ends had it.
 *
 * Connections come in pairs, called slots: in one the guest sends the data, in
 * the other the network does.  The slots are visited round after round in a
 * scattered order.  In a cycle of DATA + ACKS visits both ends first send
 * DATA segments, then acknowledge the other's of some cycles ago in ACKS
 * steps.  All numbers follow from the number of the visit, so that nothing is
 * kept for a connection and the source costs the same whatever their number.
 *
 * Only SYNs have a right TCP checksum: nothing on the way looks at others'. */

#ifndef TCP_FRAMES_H
#define TCP_FRAMES_H 1

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checksum.h"

enum {
    GUEST, NETWORK,             /* The sides. */
    MSS = 1460,
    FRAME_MIN = 60,             /* Without the frame check sequence. */
    FRAME_MAX = 1514,
    WSCALE = 7,
    WINDOW_OFS = 14 + 20 + 14,
    CE_EVERY = 16,              /* One segment of so many is marked. */
    LAG = 64,                   /* Packets between data and its ACK, least. */
    SYN_WINDOW = 44,            /* Segments that a SYN's window has room for. */
    HANDSHAKE = 4,              /* Rounds, see handshake(). */
};

enum { FIN = 1, SYN = 2, ACK = 16 };
enum { NOT_ECT = 0, ECT0 = 2, CE = 3 };

static uint32_t n_slots, n_data, n_acks, step, lag;
static uint32_t n_segments = 1; /* Of a frame with data; see large_frames(). */

/* What a connection's end sends. */
struct segment {
    uint32_t seq, ack;
    uint32_t payload;
    uint64_t acked;             /* Bytes, for the feedback. */
    uint8_t flags, ecn;
    bool capability, feedback;
};

static void
put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t) (v >> 8);
    p[1] = (uint8_t) v;
}

static void
put32(uint8_t *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}

/* Writes headers; 'up': of the connection in which the guest sends the data.
 * Returns the length of the frame. */
static uint16_t
make_frame(uint8_t *eth, int side, uint32_t slot, bool up,
           const struct segment *s)
{
    uint8_t *ip = eth + 14, *tcp = ip + 20, *opt = tcp + 20;
    uint32_t guest = 0x0a000001;
    uint32_t peer = (up ? 0x0b000000 : 0x0c000000) + slot / 16;
    uint32_t client = 1024 + slot % 16;
    uint32_t guest_port = up ? client : 80, peer_port = up ? 80 : client;
    uint32_t len;

    if (s->capability || s->feedback) {
        opt[0] = 253;
        opt[1] = s->feedback ? 12 : 8;
        put16(opt + 2, 0xacdc);
        if (s->feedback) {
            put32(opt + 4, (uint32_t) (s->acked / CE_EVERY));
            put32(opt + 8, (uint32_t) s->acked);
        } else {
            put32(opt + 4, 1u << 24);
        }
        opt += opt[1];
    }
    if (s->flags & SYN) {
        static const uint8_t syn[] = {
            2, 4, MSS >> 8, MSS & 0xff, 1, 1, 4, 2, 1, 3, 3, WSCALE
        };

        memcpy(opt, syn, sizeof syn);
        opt += sizeof syn;
    }
    len = (uint32_t) (opt - ip) + s->payload;
    memset(eth, 0, 12);
    eth[0] = eth[6] = 2;
    eth[side == GUEST ? 5 : 11] = 2;
    eth[side == GUEST ? 11 : 5] = 1;
    put16(eth + 12, 0x0800);
    ip[0] = 0x45;
    ip[1] = s->ecn;
    put16(ip + 2, len);
    put32(ip + 4, 0x4000);
    put32(ip + 8, 64 << 24 | 6 << 16);
    put32(ip + 12, side == GUEST ? guest : peer);
    put32(ip + 16, side == GUEST ? peer : guest);
    put16(ip + 10, checksum(sum_words(ip, 20, 0)));
    put16(tcp, side == GUEST ? guest_port : peer_port);
    put16(tcp + 2, side == GUEST ? peer_port : guest_port);
    put32(tcp + 4, s->seq);
    put32(tcp + 8, s->ack);
    tcp[12] = (uint8_t) ((opt - tcp) / 4 << 4);
    tcp[13] = s->flags;
    put16(tcp + 14, 0xffff);
    put32(tcp + 16, 0);
    if (s->flags & SYN) {
        put16(tcp + 16, tcp_checksum(ip, tcp, len - 20));
    }
    return (uint16_t) (14 + len < FRAME_MIN ? FRAME_MIN : 14 + len);
}

/* Round 0: SYNs; round 1: SYN-ACKs; round 2: ACKs; round 3: ACKs of those who
 * listen, whose SYN-ACKs' windows are not scaled, and of few connections more than
 * these have room for is sent at once.  Numbers begin at 0. */
static void
handshake(int side, uint32_t round, bool *up, struct segment *s)
{
    /* Whoever sends the data connects. */
    *up = (side == GUEST) == (round % 2 == 0);
    s->flags = round == 0 ? SYN : round == 1 ? SYN | ACK : ACK;
    s->seq = round > 1;
    s->ack = round > 0;
    if (side == NETWORK) {
        s->capability = round < 2;
        s->ecn = ECT0;
    }
}

/* Returns false if there is nothing to send yet. */
static bool
stream(int side, uint32_t slot, uint32_t visit, bool *up, struct segment *s)
{
    uint32_t period = n_data + n_acks;
    uint32_t shift = slot % period;     /* So that not all send data at once. */
    /* Segments of the first cycle that are not sent. */
    uint32_t missing = shift < n_data ? shift : n_data;
    uint32_t phase = (visit + shift) % period;
    uint32_t cycle = (visit + shift) / period;

    s->flags = ACK;
    s->ecn = side == NETWORK ? ECT0 : NOT_ECT;
    if (phase < n_data) {
        uint32_t n = cycle * n_data + phase - missing;

        *up = side == GUEST;
        s->seq = 1 + n * n_segments * MSS;
        s->ack = 1;
        s->payload = n_segments * MSS;
        if (side == NETWORK && n % CE_EVERY == 0) {
            s->ecn = CE;
        }
    } else {
        int64_t acked;

        if (visit < lag) {
            return false;
        }
        acked = ((int64_t) ((cycle - lag / period) * n_data)
                 - (int64_t) missing) * n_segments * MSS
                + (int64_t) n_data * n_segments * MSS * (phase - n_data + 1)
                  / n_acks;
        if (acked <= 0) {
            return false;
        }
        *up = side == NETWORK;
        s->seq = 1;
        s->ack = 1 + (uint32_t) acked;
        s->acked = (uint64_t) acked;
        s->feedback = side == NETWORK;
    }
    return true;
}

/* The network's last ACK for what the guest sends in 'slot', as of 'visit', once more,
 * with another window, so that it is no duplicate ACK. */
static inline uint16_t
repeat_ack(uint32_t slot, uint32_t visit, uint8_t *frame)
{
    struct segment s = { .seq = 0 };
    uint32_t period = n_data + n_acks;
    uint32_t phase = (visit + slot) % period;
    uint32_t ago = phase < n_data ? phase + 1 : 0;
    uint16_t len;
    bool up;

    if (ago > visit || !stream(NETWORK, slot, visit - ago, &up, &s)) {
        /* There was none yet: none of the data. */
        s = (struct segment) { .seq = 1, .ack = 1, .flags = ACK, .ecn = ECT0, .feedback = true };
    }
    len = make_frame(frame, NETWORK, slot, true, &s);
    put16(frame + WINDOW_OFS, 0xfffe - visit % 2);
    return len;
}

/* Where a side is. */
struct visits {
    uint64_t pos;               /* Visits, of handshakes too. */
    uint32_t round, turn, slot;
};

/* How far a side may go before the other: what it sends next follows from what
 * the other sent so much earlier. */
static uint64_t
lead(const struct visits *v)
{
    return v->round < HANDSHAKE ? n_slots : (uint64_t) lag * n_slots;
}

/* Makes the next frame.  Returns its length, 0 if the visit has none. */
static uint16_t
next_frame(struct visits *v, int side, uint8_t *frame)
{
    struct segment s = { .seq = 0 };
    uint16_t len = 0;
    bool up;

    if (v->round < HANDSHAKE) {
        handshake(side, v->round, &up, &s);
        len = make_frame(frame, side, v->turn, up, &s);
    } else if (stream(side, v->slot, v->round - HANDSHAKE, &up, &s)) {
        len = make_frame(frame, side, v->slot, up, &s);
    }
    v->pos++;
    v->slot += step;
    if (v->slot >= n_slots) {
        v->slot -= n_slots;
    }
    if (++v->turn == n_slots) {
        v->turn = 0;
        v->round++;
    }
    return len;
}

static uint32_t
gcd(uint32_t a, uint32_t b)
{
    return b ? gcd(b, a % b) : a;
}

static void
init_frames(uint32_t slots, uint32_t data, uint32_t acks)
{
    uint32_t period = data + acks;

    n_slots = slots;
    n_data = data;
    n_acks = acks;
    lag = (LAG / slots / period + 1) * period;
    /* Near the golden section: neighbours in memory are far apart in time. */
    step = (uint32_t) (slots * 0.618);
    while (!step || gcd(step, slots) != 1) {
        step++;
    }
    step %= slots;
}

/* Data in frames as large as they can be, for cards that cut segments.  After
 * init_frames(). */
static inline void
large_frames(void)
{
    /* In flight before the first ACK for data. */
    uint32_t most = (lag / (n_data + n_acks) + 1) * n_data;

    n_segments = most < SYN_WINDOW ? SYN_WINDOW / most : 1;
}

#endif /* tcp-frames.h */
