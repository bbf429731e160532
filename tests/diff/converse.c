/* SPDX-License-Identifier: Apache-2.0 */

/* Random TCP conversations between real stacks.
 *
 *     converse SEED FIRST COUNT PARALLEL LIMIT PAIRS MODE
 *
 * plays the conversations FIRST...FIRST+COUNT-1 of SEED, PARALLEL at once, each
 * between the two network namespaces of a pair.  One process plays both ends.
 * What a conversation does depends on SEED and its number alone.  One that has
 * not ended after LIMIT seconds is stuck.
 *
 * PAIRS is a file with a line for each pair: the two namespaces' paths, their
 * IPv4 addresses, their IPv6 addresses, and four flags: 'f' TCP fast open, 's'
 * simultaneous open (it needs a path with a delay), 'o' options of IP, '6'
 * IPv6.
 *
 * MODE is "mixed"; for a soak "short" or a number: connections with a few bytes,
 * or with so many each way, without pauses, of which only those that went wrong
 * are printed.
 *
 * A line of output is a conversation: its number, kind, what is the same in
 * every network that loses no connection, and behind a bar what is not.  "ok"
 * says that it went as TCP promises: every byte received is the one that was
 * sent there, and each end saw the ending it should. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_PAIRS 64
#define NONE UINT32_MAX
#define CHUNK (1u << 17)        /* The most bytes in a system call, ... */
#define BULK_CHUNK (1u << 20)   /* ... and in bulk. */
#define PERIOD 1048573u         /* Of what is sent: a prime. */
#define MS 1000000ull
#define SECOND (1000 * MS)
#define STOPS 3

enum kind {
    GRACEFUL,                   /* FIN both ways, all data delivered. */
    RESET,                      /* One end closes with SO_LINGER 0. */
    UNREAD,                     /* One end closes with data unread. */
    REFUSED,                    /* Nobody listens. */
    ABANDONED,                  /* The client closes before the handshake is
                                 * done. */
    N_KINDS
};
static const char *const kinds[N_KINDS] = {
    "graceful", "reset", "unread", "refused", "abandoned",
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
    int ip_options;
    const struct pair *pair;
    int client;                 /* The end that opens it. */
    uint16_t port[2];
    struct end end[2];
    int listener;
    bool accepted;
    uint64_t deadline;
};

static struct pair pairs[MAX_PAIRS];
static int n_pairs;
static int epoll_fd;
static uint64_t seed, limit_ns, finished, delivered;
static enum { MIXED, SHORT, BULK } mode;
static uint32_t bulk_bytes, most_at_once = CHUNK;
static uint8_t buffer[BULK_CHUNK], noise[PERIOD + BULK_CHUNK];

/* Those whose both ends are done. */
static struct conversation **over;
static size_t n_over;

/* Timers: a heap.  A timer of an end that has been freed finds its slot's
 * other conversation, which a needless look does not hurt. */
static struct timer {
    uint64_t when;
    struct end *end;
} *timers;
static size_t n_timers, max_timers;

static void fail(const char *what)
{
    fprintf(stderr, "converse: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Of CLOCK_MONOTONIC, in nanoseconds, when the events of this turn came. */
static uint64_t now;

static void look_at_clock(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    now = (uint64_t) ts.tv_sec * SECOND + (uint64_t) ts.tv_nsec;
}

/* SplitMix64 (Steele et al., 2014). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state = mix(state);
    return (uint32_t) ((state >> 32) * n >> 32);
}

/* In n percent of cases. */
static bool percent(uint32_t n)
{
    return below(100) < n;
}

/* Between both, each order of magnitude as likely as another. */
static uint32_t spread(uint32_t least, uint32_t most)
{
    uint32_t n = least;

    while (n < most && percent(65)) {
        n *= 2;
    }
    n += below(n);
    return n < most ? n : most;
}

static void timer_add(uint64_t when, struct end *end)
{
    size_t i = n_timers++;

    if (n_timers > max_timers) {
        max_timers = max_timers ? 2 * max_timers : 1024;
        timers = realloc(timers, max_timers * sizeof *timers);
        if (!timers) {
            fail("realloc");
        }
    }
    for (; i && timers[(i - 1) / 2].when > when; i = (i - 1) / 2) {
        timers[i] = timers[(i - 1) / 2];
    }
    timers[i] = (struct timer) { when, end };
}

static struct end *timer_pop(void)
{
    struct end *first = timers[0].end;
    struct timer last = timers[--n_timers];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < n_timers) {
        child += child + 1 < n_timers
                 && timers[child + 1].when < timers[child].when;
        if (last.when <= timers[child].when) {
            break;
        }
        timers[i] = timers[child];
        i = child;
    }
    timers[i] = last;
    return first;
}

/* Noise that repeats itself after PERIOD bytes. */
static void make_noise(void)
{
    for (uint32_t i = 0; i < sizeof noise; i++) {
        noise[i] = i < PERIOD ? (uint8_t) mix(seed + i) : noise[i - PERIOD];
    }
}

/* What an end sends: byte 'at' and as many behind it as one call may take.  Each
 * end begins elsewhere in the noise, so bytes of another place or connection are
 * noticed. */
static const uint8_t *stream(const struct end *e, uint32_t at)
{
    uint64_t start = mix(e->c->number * 2 + (uint64_t) (e - e->c->end));

    return noise + (start % PERIOD + at) % PERIOD;
}

/* The script. ------------------------------------------------------------- */

static uint32_t size(void)
{
    uint32_t n = below(1000);

    return n < 120 ? 0 : n < 450 ? 1 + below(10) : n < 900 ? spread(16, 3000)
           : n < 985 ? spread(3000, 30000) : n < 998 ? spread(20000, 200000)
           : spread(100000, 2000000);
}

static void stops(uint32_t total, uint32_t at[STOPS], uint32_t ms[STOPS])
{
    uint32_t from = 0;

    for (int i = 0; i < STOPS; i++) {
        at[i] = NONE;
        if (from <= total && percent(25)) {
            at[i] = from + below(total - from + 1);
            from = at[i] + 1;
            ms[i] = percent(95) ? spread(1, 3000) : spread(3000, 60000);
        }
    }
}

/* Of all the rest nothing. */
static void simplify(struct conversation *c)
{
    c->kind = GRACEFUL;
    c->simultaneous = c->fastopen = c->again = false;
    c->ip_options = 0;
    for (int i = 0; i < 2; i++) {
        struct end *e = &c->end[i];

        e->total = mode == BULK ? bulk_bytes : below(200);
        e->chunk = e->read_chunk = most_at_once;
        e->send_after_rx = 0;
        e->quit_at = e->urgent_at = NONE;
        e->rcvbuf = e->sndbuf = e->maxseg = 0;
        e->congestion = 32;
        for (int k = 0; k < STOPS; k++) {
            e->pause_at[k] = e->stall_at[k] = NONE;
        }
    }
}

static void write_script(struct conversation *c, uint64_t number)
{
    static const uint32_t chances[N_KINDS] = { 72, 14, 6, 4, 4 };
    static const int segment[] = { 88, 128, 300, 536, 1000, 1400, 4000, 8960 };
    uint32_t n;

    memset(c, 0, sizeof *c);
    c->number = number;
    c->pair = &pairs[number % (unsigned int) n_pairs];
    state = mix(seed ^ mix(number));
    n = below(100);
    while (n >= chances[c->kind]) {
        n -= chances[c->kind++];
    }
    c->v6 = percent(50) && c->pair->has_v6;
    c->client = (int) below(2);
    c->simultaneous = percent(5) && c->pair->simultaneous
                      && c->kind != REFUSED && c->kind != ABANDONED;
    c->fastopen = percent(20) && c->pair->fastopen && !c->simultaneous
                  && c->kind != ABANDONED;
    c->ip_options = percent(5) && c->pair->ip_options ? 1 + (int) below(2) : 0;
    /* Not where SYNs cross or bring data: one of the first time that is still
     * under way would be taken. */
    c->again = percent(30) && (c->kind == RESET || c->kind == UNREAD)
               && !c->simultaneous && !c->fastopen;
    /* No other conversation of the last hour has the same ports. */
    c->port[!c->client] = (uint16_t) (1024 + number % 30000);
    c->port[c->client] = (uint16_t) (32000 + (number + number / 30000 * 7) % 30000);
    for (int i = 0; i < 2; i++) {
        struct end *e = &c->end[i];

        e->c = c;
        e->fd = -1;
        e->total = size();
        if (c->simultaneous && e->total > 600) {
            /* Linux, where only one end scales its window: it offers 2^scale
             * too little, a few bytes. */
            e->total = 600;
        }
        /* System calls are what takes time in the lab. */
        e->chunk = percent(50) ? CHUNK
                   : spread(1 + e->total / (percent(10) ? 200 : 6), CHUNK);
        e->read_chunk = percent(70) ? CHUNK : spread(100, 20000);
        stops(e->total, e->pause_at, e->pause_ms);
        e->urgent_at = e->total && percent(10) ? below(e->total) : NONE;
        e->quit_at = NONE;
        e->rcvbuf = percent(40) ? (int) spread(1000, 1 << 20) : 0;
        e->sndbuf = percent(40) ? (int) spread(2000, 1 << 20) : 0;
        e->maxseg = percent(25) ? segment[below(8)] : 0;
        e->congestion = (int) below(32);
        e->tos = percent(10) ? (int) below(256) : 0;
        e->nodelay = percent(40);
        e->keepalive = percent(30) ? 1 + (int) below(20) : 0;
        e->wrap = percent(10);
    }
    for (int i = 0; i < 2; i++) {
        uint32_t least = c->end[!i].total / (percent(10) ? 100 : 6);

        stops(c->end[!i].total, c->end[i].stall_at, c->end[i].stall_ms);
        if (c->end[i].read_chunk < least) {
            c->end[i].read_chunk = least;
        }
    }
    /* Only one end waits for the other. */
    n = below(2);
    c->end[n].send_after_rx = percent(50) ? below(c->end[!n].total + 1) : 0;
    c->end[n].fin_after_eof = percent(50);
    if (c->kind == RESET || c->kind == UNREAD) {
        n = below(2);
        if (c->kind == UNREAD && !c->end[!n].total) {
            c->end[!n].total = 1;
        }
        c->end[n].quit_at = below(c->end[!n].total + (c->kind == RESET));
        /* Else the other end might wait for the rest before it sends. */
        c->end[!n].send_after_rx = 0;
        c->end[!n].fin_after_eof = false;
    }
    if (mode != MIXED) {
        simplify(c);
    }
}

/* Sockets. ---------------------------------------------------------------- */

static void set(int fd, int level, int option, int value)
{
    /* Some are refused by some kernels or addresses, everywhere alike. */
    (void) setsockopt(fd, level, option, &value, sizeof value);
}

static void set_options(int fd, const struct conversation *c,
                        const struct end *e)
{
    static const char *const congestion[] = {
        "cubic", "reno", "dctcp", "bbr", "vegas", "illinois", "highspeed",
        "westwood",
    };
    static const uint8_t padding[8] = { 0, 0, 1, 4, 0, 0, 0, 0 };
    const char *name = congestion[e->congestion % 8];

    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (c->end[e == c->end].urgent_at != NONE) {
        set(fd, SOL_SOCKET, SO_OOBINLINE, 1);
    }
    /* How often, and how many, is the namespace's. */
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    if (e->keepalive) {
        set(fd, IPPROTO_TCP, TCP_KEEPIDLE, e->keepalive);
    }
    if (e->rcvbuf) {
        set(fd, SOL_SOCKET, SO_RCVBUF, e->rcvbuf);
    }
    if (e->sndbuf) {
        set(fd, SOL_SOCKET, SO_SNDBUF, e->sndbuf);
    }
    if (e->maxseg) {
        set(fd, IPPROTO_TCP, TCP_MAXSEG, e->maxseg);
    }
    if (e->nodelay) {
        set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    }
    if (mode == BULK) {
        /* Less often, and more at once. */
        set(fd, SOL_SOCKET, SO_RCVLOWAT, (int) BULK_CHUNK);
    }
    if (e->congestion < 16) {
        (void) setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name));
    }
    if (e->tos) {
        set(fd, c->v6 ? IPPROTO_IPV6 : IPPROTO_IP, c->v6 ? IPV6_TCLASS : IP_TOS,
            e->tos);
    }
    if (c->ip_options && c->v6) {
        (void) setsockopt(fd, IPPROTO_IPV6,
                          c->ip_options == 1 ? IPV6_HOPOPTS : IPV6_DSTOPTS,
                          padding, sizeof padding);
    } else if (c->ip_options) {
        (void) setsockopt(fd, IPPROTO_IP, IP_OPTIONS, "\1\1\1\1", 4);
    }
}

static socklen_t address(const struct conversation *c, int i,
                         struct sockaddr_storage *to)
{
    struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *) to;
    struct sockaddr_in *sin = (struct sockaddr_in *) to;

    memset(to, 0, sizeof *to);
    if (c->v6) {
        sin6->sin6_family = AF_INET6;
        sin6->sin6_addr = c->pair->v6[i];
        sin6->sin6_port = htons(c->port[i]);
        return sizeof *sin6;
    }
    sin->sin_family = AF_INET;
    sin->sin_addr = c->pair->v4[i];
    sin->sin_port = htons(c->port[i]);
    return sizeof *sin;
}

static void watch(int fd, struct end *e)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = e,
    };

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
        fail("epoll_ctl");
    }
}

static int make_socket(struct conversation *c, int i)
{
    struct sockaddr_storage a;
    socklen_t n = address(c, i, &a);
    static int current = -1;
    int fd;

    if (c->pair->ns[i] != current && setns(c->pair->ns[i], CLONE_NEWNET)) {
        fail("setns");
    }
    current = c->pair->ns[i];
    fd = socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        fail("socket");
    }
    set_options(fd, c, &c->end[i]);
    if (bind(fd, (struct sockaddr *) &a, n)) {
        fail("bind");
    }
    return fd;
}

static void open_end(struct conversation *c, int i)
{
    struct end *e = &c->end[i];
    struct sockaddr_storage a;
    socklen_t n = address(c, !i, &a);
    ssize_t done = -1;

    e->fd = make_socket(c, i);
    if (e->wrap) {
        /* Its sequence numbers begin below 2^32, within what it sends. */
        set(e->fd, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_ON);
        set(e->fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, 2 /* TCP_SEND_QUEUE */);
        set(e->fd, IPPROTO_TCP, TCP_QUEUE_SEQ, -1 - (int) (e->total / 2));
        set(e->fd, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
        set(e->fd, SOL_SOCKET, SO_REUSEADDR, 1);        /* It was reset. */
    }
    if (c->fastopen && e->total && !e->send_after_rx) {
        size_t first = e->total < 400 ? e->total : 400;

        done = sendto(e->fd, stream(e, 0), first, MSG_FASTOPEN | MSG_NOSIGNAL,
                      (struct sockaddr *) &a, n);
        e->sent = done > 0 ? (uint32_t) done : 0;
    } else {
        done = connect(e->fd, (struct sockaddr *) &a, n);
    }
    if (done < 0 && errno != EINPROGRESS) {
        e->ending = strerrorname_np(errno);
    }
}

static void start(struct conversation *c)
{
    int server = !c->client;

    c->deadline = now + limit_ns;
    c->listener = -1;
    for (int i = 0; i < 2; i++) {
        c->end[i].send_from = c->end[i].read_from = now;
        timer_add(c->deadline, &c->end[i]);
    }
    if (c->simultaneous) {
        open_end(c, 0);
        open_end(c, 1);
        watch(c->end[0].fd, &c->end[0]);
        watch(c->end[1].fd, &c->end[1]);
        return;
    }
    if (c->kind != REFUSED) {
        c->listener = make_socket(c, server);
        if (c->fastopen) {
            set(c->listener, IPPROTO_TCP, TCP_FASTOPEN, 16);
        }
        if (listen(c->listener, 4)) {
            fail("listen");
        }
        watch(c->listener, &c->end[server]);
    } else {
        c->end[server].done = true;
    }
    open_end(c, c->client);
    if (c->kind == ABANDONED) {
        close(c->end[c->client].fd);
        c->end[c->client].fd = -1;
        c->end[c->client].done = true;
        /* Nobody comes; as long as a retransmitted SYN would take. */
        c->end[server].read_from = now + 3 * SECOND;
        timer_add(c->end[server].read_from, &c->end[server]);
    } else {
        watch(c->end[c->client].fd, &c->end[c->client]);
    }
}

/* Playing. ---------------------------------------------------------------- */

static void finish(struct end *e, const char *ending)
{
    if (!e->ending) {
        e->ending = ending;
    }
    e->done = true;
    if (e->fd >= 0) {
        close(e->fd);
        e->fd = -1;
    }
    if (e->c->end[0].done && e->c->end[1].done) {
        over[n_over++] = e->c;
    }
}

static void abort_end(struct end *e, bool linger)
{
    static const struct linger none = { .l_onoff = 1 };

    if (linger) {
        setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    }
    finish(e, "aborted");
}

/* Waits as the script says at 'at'; true: not now. */
static bool stopped(struct end *e, uint32_t at, const uint32_t stop_at[STOPS],
                    const uint32_t ms[STOPS], int *next, uint64_t *from)
{
    while (*next < STOPS && stop_at[*next] <= at) {
        *from = now + ms[*next] * MS;
        ++*next;
        timer_add(*from, e);
    }
    if (!*from) {
        return false;
    }
    if (now < *from) {
        return true;
    }
    *from = 0;
    return false;
}

/* Until where it goes without a stop. */
static uint32_t stretch(uint32_t at, uint32_t most, const uint32_t stop_at[STOPS],
                        int next)
{
    return next < STOPS && stop_at[next] - at < most ? stop_at[next] - at : most;
}

/* For whoever looks for the cause. */
static void tell_damage(const struct end *e, const uint8_t *expected, size_t n)
{
    size_t first = 0, last = n - 1;

    while (buffer[first] == expected[first]) {
        first++;
    }
    while (buffer[last] == expected[last]) {
        last--;
    }
    fprintf(stderr, "damaged: %" PRIu64 " end %d bytes %zu to %zu\n",
            e->c->number, e != e->c->end, e->received + first,
            e->received + last);
}

static void read_some(struct end *e)
{
    struct end *peer = &e->c->end[!(e - e->c->end)];

    while (!e->done && !e->ending) {
        uint32_t want = e->read_chunk;
        const uint8_t *expected;
        ssize_t n;

        if (e->received >= e->quit_at) {
            int waiting = 0;

            if (!peer->connected) {
                return;
            }
            if (e->c->kind == RESET) {
                abort_end(e, true);
            } else if (!ioctl(e->fd, FIONREAD, &waiting) && waiting) {
                abort_end(e, false);
            }
            return;
        }
        if (stopped(e, e->received, e->stall_at, e->stall_ms, &e->stalls,
                    &e->read_from)) {
            return;
        }
        want = stretch(e->received, want, e->stall_at, e->stalls);
        if (e->quit_at != NONE && want > e->quit_at - e->received) {
            want = e->quit_at - e->received;
        }
        n = recv(e->fd, buffer, want, 0);
        if (n < 0) {
            if (errno != EAGAIN) {
                e->ending = strerrorname_np(errno);
            }
            return;
        }
        if (!n) {
            e->ending = "EOF";
            return;
        }
        expected = stream(peer, e->received);
        if (memcmp(buffer, expected, (size_t) n)) {
            tell_damage(e, expected, (size_t) n);
            e->damaged = true;
        }
        e->received += (uint32_t) n;
        delivered += (uint64_t) n;
        if ((uint32_t) n < want && !e->hung_up && peer->urgent_at == NONE
            && e->received < e->quit_at) {
            return;             /* There is no more, and more is an event. */
        }
    }
}

static void write_some(struct end *e)
{
    if (e->received < e->send_after_rx) {
        return;
    }
    while (!e->done && e->sent < e->total) {
        uint32_t n = e->total - e->sent;
        int flags = MSG_NOSIGNAL;
        ssize_t done;

        if (stopped(e, e->sent, e->pause_at, e->pause_ms, &e->pauses,
                    &e->send_from)) {
            return;
        }
        n = n < e->chunk ? n : e->chunk;
        n = stretch(e->sent, n, e->pause_at, e->pauses);
        if (e->urgent_at == e->sent) {
            flags |= MSG_OOB;
            n = 1;
        } else if (e->urgent_at > e->sent && e->urgent_at - e->sent < n) {
            n = e->urgent_at - e->sent;
        }
        done = send(e->fd, stream(e, e->sent), n, flags);
        if (done < 0) {
            if (errno != EAGAIN && (!e->ending || !strcmp(e->ending, "EOF"))) {
                e->ending = strerrorname_np(errno);
            }
            return;
        }
        e->sent += (uint32_t) done;
    }
    if (!e->done && !e->fin_sent && e->sent == e->total && e->quit_at == NONE
        && (!e->fin_after_eof || e->ending)) {
        e->fin_sent = true;
        shutdown(e->fd, SHUT_WR);
    }
}

/* For whoever looks for the cause. */
static void tell_state(const struct end *e)
{
    struct tcp_info info = { 0 };
    socklen_t n = sizeof info;

    getsockopt(e->fd, IPPROTO_TCP, TCP_INFO, &info, &n);
    fprintf(stderr, "stuck: %" PRIu64 " end %d state %u sent %u of %u"
            " unacked %u backoff %u probes %u retransmits %u rto %u cwnd %u"
            " snd_wnd %u rcv_ssthresh %u wscale %u/%u mss %u/%u\n",
            e->c->number, e != e->c->end, info.tcpi_state, e->sent, e->total,
            info.tcpi_unacked, info.tcpi_backoff, info.tcpi_probes,
            info.tcpi_total_retrans, info.tcpi_rto, info.tcpi_snd_cwnd,
            info.tcpi_snd_wnd, info.tcpi_rcv_ssthresh, info.tcpi_snd_wscale,
            info.tcpi_rcv_wscale, info.tcpi_snd_mss, info.tcpi_rcv_mss);
}

static void play(struct end *e)
{
    struct conversation *c = e->c;
    struct end *peer;

    if (!c || e->done) {
        return;         /* Of a timer whose time is over. */
    }
    peer = &c->end[e == c->end];
    if (now >= c->deadline) {
        if (e->fd < 0) {
            finish(e, "not accepted");
        } else {
            tell_state(e);
            e->ending = "stuck";
            abort_end(e, true);
        }
        return;
    }
    if (e->fd < 0) {
        if (c->listener < 0) {
            finish(e, "no socket");
            return;
        }
        e->fd = accept4(c->listener, NULL, NULL, SOCK_NONBLOCK);
        if (e->fd < 0) {
            if (c->kind == ABANDONED && now >= e->read_from) {
                finish(e, "nobody came");
            } else if (peer->done && c->kind != ABANDONED) {
                finish(e, "not accepted");
            }
            return;
        }
        c->accepted = true;
        watch(e->fd, e);
        e->connected = true;
        if (c->kind == ABANDONED) {
            abort_end(e, true);
            return;
        }
        play(peer);
    } else if (!e->connected && !e->ending) {
        int error = 0;
        socklen_t n = sizeof error;
        struct tcp_info info;
        socklen_t info_len = sizeof info;

        if (getsockopt(e->fd, IPPROTO_TCP, TCP_INFO, &info, &info_len)
            || info.tcpi_state == 2 /* TCP_SYN_SENT */
            || info.tcpi_state == 3 /* TCP_SYN_RECV */) {
            return;
        }
        getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &error, &n);
        if (error) {
            e->ending = strerrorname_np(error);
        } else {
            e->connected = true;
            if (c->simultaneous) {
                /* Linux does not begin to send keep-alives here. */
                set(e->fd, SOL_SOCKET, SO_KEEPALIVE, 0);
                set(e->fd, SOL_SOCKET, SO_KEEPALIVE, 1);
                play(peer);
            }
        }
    }
    read_some(e);
    write_some(e);
    if (!e->done && e->ending
        && (strcmp(e->ending, "EOF") || e->fin_sent)) {
        finish(e, NULL);
        if (peer->fd < 0) {
            play(peer);
        }
    }
}

/* Whether all was as TCP promises. */
static bool is_right(const struct conversation *c)
{
    const struct end *client = &c->end[c->client];

    for (int i = 0; i < 2; i++) {
        const struct end *e = &c->end[i], *peer = &c->end[!i];

        if (e->damaged || e->received > peer->total) {
            return false;
        }
        switch (c->kind) {
        case GRACEFUL:
            if (!e->ending || strcmp(e->ending, "EOF")
                || e->received != peer->total || e->sent != e->total) {
                return false;
            }
            break;
        case RESET:
        case UNREAD:
            if (!e->ending
                || strcmp(e->ending, e->quit_at != NONE ? "aborted"
                                                        : "ECONNRESET")) {
                return false;
            }
            break;
        case REFUSED:
        case ABANDONED:
        case N_KINDS:
            break;
        }
    }
    return c->kind == REFUSED
           ? client->ending && !strcmp(client->ending, "ECONNREFUSED")
           : c->kind != ABANDONED || !c->accepted || !c->pair->simultaneous;
}

static void ended(const struct conversation *c)
{
    if (c->listener >= 0) {
        close(c->listener);
    }
    finished++;
    if (mode != MIXED && is_right(c)) {
        return;
    }
    printf("%" PRIu64 "%s %s%s%s%s %s %s %s |", c->number, c->repeated ? "b" : "",
           kinds[c->kind], c->v6 ? " v6" : " v4",
           c->simultaneous ? " simultaneous" : "", c->fastopen ? " tfo" : "",
           is_right(c) ? "ok" : "WRONG",
           c->end[0].ending ? c->end[0].ending : "-",
           c->end[1].ending ? c->end[1].ending : "-");
    for (int i = 0; i < 2; i++) {
        printf(" %s%s%u/%u", c->end[i].damaged ? "DAMAGED " : "",
               c->end[i].connected ? "" : "unconnected ",
               c->end[i].received, c->end[!i].total);
    }
    putchar('\n');
}

static void read_pairs(const char *name)
{
    FILE *file = fopen(name, "r");
    char ns[2][100], v4[2][50], v6[2][50], flags[10];

    if (!file) {
        fail(name);
    }
    while (n_pairs < MAX_PAIRS
           && fscanf(file, "%99s %99s %49s %49s %49s %49s %9s", ns[0], ns[1],
                     v4[0], v4[1], v6[0], v6[1], flags) == 7) {
        struct pair *p = &pairs[n_pairs++];

        for (int i = 0; i < 2; i++) {
            p->ns[i] = open(ns[i], O_RDONLY | O_CLOEXEC);
            if (p->ns[i] < 0 || inet_pton(AF_INET, v4[i], &p->v4[i]) != 1
                || inet_pton(AF_INET6, v6[i], &p->v6[i]) != 1) {
                fail(ns[i]);
            }
        }
        p->fastopen = strchr(flags, 'f');
        p->simultaneous = strchr(flags, 's');
        p->ip_options = strchr(flags, 'o');
        p->has_v6 = strchr(flags, '6');
    }
    fclose(file);
    if (!n_pairs) {
        fail("no pairs");
    }
}

int main(int argc, char *argv[])
{
    struct rlimit files = { 200000, 200000 };
    uint64_t next, last;
    struct conversation *slots;
    size_t parallel, busy = 0;

    if (argc != 8) {
        fprintf(stderr, "see the head of converse.c\n");
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10);
    next = strtoull(argv[2], NULL, 10);
    last = next + strtoull(argv[3], NULL, 10);
    parallel = strtoull(argv[4], NULL, 10);
    limit_ns = strtoull(argv[5], NULL, 10) * SECOND;
    read_pairs(argv[6]);
    mode = !strcmp(argv[7], "short") ? SHORT : !strcmp(argv[7], "mixed") ? MIXED
           : BULK;
    if (mode == BULK) {
        bulk_bytes = (uint32_t) strtoul(argv[7], NULL, 10);
        most_at_once = BULK_CHUNK;
    }
    make_noise();
    (void) setrlimit(RLIMIT_NOFILE, &files);
    slots = calloc(parallel, sizeof *slots);
    over = calloc(parallel, sizeof *over);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!slots || !over || epoll_fd < 0) {
        fail("start");
    }
    look_at_clock();
    for (; busy < parallel && next < last; busy++) {
        write_script(&slots[busy], next++);
        start(&slots[busy]);
    }
    while (busy) {
        struct epoll_event events[256];
        int wait = -1, n;

        if (mode == MIXED) {
            /* In the lab each system call takes long, so several events at once. */
            nanosleep(&(struct timespec) { .tv_nsec = MS }, NULL);
            look_at_clock();
        }
        if (n_timers) {
            wait = timers[0].when <= now
                   ? 0 : (int) ((timers[0].when - now) / MS) + 1;
        }
        n = epoll_wait(epoll_fd, events, 256, wait);
        look_at_clock();
        for (int i = 0; i < n; i++) {
            struct end *e = events[i].data.ptr;

            e->hung_up |= (events[i].events
                           & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
            play(e);
        }
        while (n_timers && timers[0].when <= now) {
            play(timer_pop());
        }
        /* All that ended, and others in their places. */
        while (n_over) {
            struct conversation *c = over[--n_over];

            ended(c);
            if (c->again && !c->repeated) {
                /* The same ports again at once: no TIME-WAIT after a RST. */
                write_script(c, c->number);
                c->repeated = true;
                /* With the same sequence numbers what is still under way of
                 * the first time would be believed. */
                c->end[0].wrap = c->end[1].wrap = false;
                start(c);
            } else if (next < last) {
                write_script(c, next++);
                start(c);
            } else {
                memset(c, 0, sizeof *c);
                busy--;
            }
        }
    }
    fprintf(stderr, "conversations %" PRIu64 " bytes %" PRIu64 "\n", finished,
            delivered);
    return 0;
}
