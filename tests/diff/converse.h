/* SPDX-License-Identifier: Apache-2.0 */

/* What the parts of converse have for each other: the script of a conversation
 * (script.c), its sockets (sockets.c), its play (play.c), and the loop (converse.c). */

#ifndef CONVERSE_H
#define CONVERSE_H 1

#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define MAX_PAIRS 64
#define NONE UINT32_MAX
#define CHUNK (1u << 17)        /* The most bytes in a system call, ... */
#define BULK_CHUNK (1u << 20)   /* ... and in bulk. */
#define PERIOD 1048573u         /* Of what is sent: a prime. */
#define MS 1000000ull
#define SECOND (1000 * MS)
#define STOPS 3
/* A SYN is under way for longer: 20 us to the router (network.py), and at least 100 us from
 * there.  If the other end is not open by then, it is refused. */
#define CROSSING_NS 100000ull

enum kind {
    GRACEFUL,                   /* FIN both ways, all data delivered. */
    RESET,                      /* One end closes with SO_LINGER 0. */
    UNREAD,                     /* One end closes with data unread. */
    REFUSED,                    /* Nobody listens. */
    ABANDONED,                  /* The client closes before the handshake is
                                 * done. */
    N_KINDS
};
struct pair {
    int ns[2];
    struct in_addr v4[2];
    struct in6_addr v6[2];
    bool fastopen, simultaneous, ip_options, has_v6;
};

struct conversation;

/* One end.  First the script, then how far it is. */
struct end {
    struct conversation *c;
    uint32_t total;             /* Bytes to send. */
    uint32_t chunk, read_chunk;
    uint32_t pause_at[STOPS], pause_ms[STOPS];  /* Of its sending. */
    uint32_t stall_at[STOPS], stall_ms[STOPS];  /* Of its reading. */
    uint32_t send_after_rx;     /* It listens so long before it talks. */
    bool fin_after_eof;         /* It closes second. */
    uint32_t urgent_at;
    uint32_t quit_at;           /* Bytes received before it aborts, or NONE. */
    int rcvbuf, sndbuf, maxseg, keepalive, congestion, tos;
    bool nodelay, wrap;

    int fd;
    bool connected, fin_sent, done;
    bool hung_up;               /* FIN or RST has come: a read tells. */
    uint32_t sent, received;
    bool damaged;
    uint64_t send_from, read_from;      /* Not before. */
    int pauses, stalls;
    const char *ending;         /* What ended it; NULL: it goes on. */
};

struct conversation {
    uint64_t number;
    enum kind kind;
    bool v6, simultaneous, fastopen, again;
    bool repeated;              /* It is the second time. */
    bool missed;                /* Its SYNs may not have crossed. */
    int ip_options;
    const struct pair *pair;
    int client;                 /* The end that opens it. */
    uint16_t port[2];
    struct end end[2];
    int listener;
    bool accepted;
    uint64_t deadline;
};

extern struct pair pairs[MAX_PAIRS];
extern int n_pairs;
extern int epoll_fd;
extern uint64_t seed, limit_ns, finished, delivered;
extern enum mode { MIXED, SHORT, BULK } mode;
extern uint32_t bulk_bytes, most_at_once;
/* Of CLOCK_MONOTONIC, in nanoseconds, when the events of this turn came. */
extern uint64_t now;
/* Those whose both ends are done. */
extern struct conversation **over;
extern size_t n_over;

/* converse.c */
void fail(const char *what);
/* CLOCK_MONOTONIC, in nanoseconds. */
uint64_t clock_ns(void);
void timer_add(uint64_t when, struct end *);

/* script.c */
void make_noise(void);
/* What an end sends: byte 'at' and as many behind it as one call may take.  Each
 * end begins elsewhere in the noise, so bytes of another place or connection are
 * noticed. */
const uint8_t *stream(const struct end *, uint32_t at);
void write_script(struct conversation *, uint64_t number);

/* sockets.c */
void set(int fd, int level, int option, int value);
void watch(int fd, struct end *);
void start(struct conversation *);

/* play.c */
void play(struct end *);
/* Prints what became of it. */
void ended(const struct conversation *);

#endif /* converse.h */
