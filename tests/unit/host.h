/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* A host for the engine, in memory: packets with headroom, the acdc_host_*()
 * functions with failures on request, TCP packets made and checked.
 *
 * Deferred frees run in host_quiesce() only, so that a use after the grace
 * period is a use after free, which the sanitizers see. */

#ifndef HOST_H
#define HOST_H 1

#include "acdc-parse.h"
#include "acdc-private.h"

struct packet {
    struct packet *next;
    uint8_t *buf;               /* Headroom and packet, nothing behind. */
    uint32_t headroom;
    uint32_t len;
    uint32_t linear;            /* Bytes the engine may see; 0: all. */
    uint16_t l3_ofs, ethertype; /* As in struct acdc_pkt. */
    uint16_t gso;               /* Likewise. */
    bool csum_partial;
    uint64_t release;           /* From the engine: when it is to leave; 0: at
                                 * once. */
    uint16_t piece;             /* Likewise: as in struct acdc_pkt. */
    uint32_t piece_ns;
    uint32_t path;              /* Likewise: acdc_host_set_path(); 0: none. */
    struct packet *kept;        /* From the engine: what is to be kept for a tail
                                 * probe, and ... */
    uint64_t kept_until;        /* ... until when. */
    bool shared;                /* 'buf' is another packet's too: writing
                                 * needs a copy. */
};

static inline uint8_t *
packet_data(const struct packet *p)
{
    return p->buf + p->headroom;
}

/* What a packet is made of. */
struct tcp_spec {
    bool v6;
    unsigned int vlans;         /* 0...2. */
    unsigned int ip_opts;       /* Bytes of IP options or of IPv6 hop-by-hop
                                 * header; a multiple of 8. */
    uint8_t src[16], dst[16];   /* IPv4: the first four bytes. */
    uint16_t sport, dport;
    uint32_t seq, ack;
    uint8_t flags;
    uint8_t reserved;           /* Low nibble of byte 12. */
    uint16_t window;
    uint8_t ecn;
    uint8_t opts[40];           /* Padded with EOL to a multiple of 4. */
    unsigned int opts_len;
    uint32_t payload;           /* Bytes; their values depend on 'seq'. */
    unsigned int padding;       /* Behind the IP packet. */
    bool csum_partial;
    uint16_t gso;               /* As in struct acdc_pkt. */
    bool bad_csum;
    bool no_df;
    unsigned int headroom;
};

/* Ends the program where malloc() gives nothing. */
void *xmalloc(size_t n);

struct packet *packet_new(uint32_t len, uint32_t headroom);
struct packet *packet_make(const struct tcp_spec *);
struct packet *packet_clone(const struct packet *);
struct packet *packet_clone_list(const struct packet *);
void packet_free(struct packet *);
void packet_free_list(struct packet *);
unsigned int packet_count(const struct packet *);

/* Options. */
void opt_raw(struct tcp_spec *, const void *, unsigned int n);
void opt_nop(struct tcp_spec *, unsigned int n);
void opt_mss(struct tcp_spec *, uint16_t mss);
void opt_wscale(struct tcp_spec *, uint8_t shift);
void opt_sack_ok(struct tcp_spec *);
void opt_timestamp(struct tcp_spec *, uint32_t val, uint32_t ecr);
void opt_sack(struct tcp_spec *, unsigned int n, const uint32_t *edges);
void opt_capability(struct tcp_spec *, uint16_t exid);
void opt_feedback(struct tcp_spec *, uint16_t exid, uint32_t ce,
                  uint32_t total);

/* 'sum' and the 16-bit words of 'n' bytes, folded (RFC 1071), by full computation. */
uint32_t sum_bytes(uint32_t sum, const uint8_t *, uint32_t n);

/* The engine's own parser, on a packet at rest. */
bool packet_parse(const struct packet *, struct acdc_pkt *);
/* Whether both checksums are right, by full computation; with csum_partial:
 * whether the TCP field holds the sum of the pseudo header. */
bool packet_csum_ok(const struct packet *);
/* Sum of the TCP segment and its pseudo header, folded: 0xffff if right. */
uint16_t packet_tcp_sum(const struct packet *);
/* Whether the payload is what packet_make() put there. */
bool packet_payload_ok(const struct packet *);
bool packet_same(const struct packet *, const struct packet *);

uint16_t packet_window(const struct packet *);
uint8_t packet_ecn(const struct packet *);
void packet_set_ecn(struct packet *, uint8_t);
uint8_t packet_reserved(const struct packet *);
/* Whether there is an AC/DC option or reserved bit. */
bool packet_is_ours(const struct packet *);
bool packet_feedback(const struct packet *, uint32_t *ce, uint32_t *total);
bool packet_is_fack(const struct packet *);

/* Shows the engine what is linear: AddressSanitizer lets nobody read the rest, until
 * packet_unshow(). */
void packet_show(struct packet *, struct acdc_pkt *);
void packet_unshow(struct packet *);

/* Gives a list of packets to the engine.  Takes them; returns what goes on,
 * in order, injected ones included. */
struct packet *host_process(struct acdc_port *, enum acdc_dir,
                            struct packet *, uint64_t now);

/* What acdc_host_clock() adds to 'now'. */
extern uint64_t host_clock_offset;

/* Runs what acdc_host_defer() was given.  No thread in the engine. */
void host_quiesce(void);

/* From the 'n'th call from now on (1: the next), acdc_host_alloc[_flow](),
 * acdc_host_push(), acdc_host_writable(), acdc_host_inject() fail; 0: never.
 * 'times': how often, -1: always. */
enum host_call {
    HOST_ALLOC, HOST_PUSH, HOST_PULL, HOST_WRITABLE, HOST_INJECT, HOST_LINEAR,
    HOST_N_CALLS
};
void host_fail(enum host_call, int n, int times);
/* Bytes and blocks from acdc_host_alloc() and acdc_host_alloc_flow() that are
 * not freed. */
int64_t host_allocated(void);

#endif /* host.h */
