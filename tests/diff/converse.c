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

#include "converse.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct pair pairs[MAX_PAIRS];
int n_pairs;
int epoll_fd;
uint64_t seed, limit_ns, finished, delivered, now;
enum mode mode;
uint32_t bulk_bytes, most_at_once = CHUNK;
struct conversation **over;
size_t n_over;

/* Timers: a heap.  A timer of an end that has been freed finds its slot's
 * other conversation, which a needless look does not hurt. */
static struct timer {
    uint64_t when;
    struct end *end;
} *timers;
static size_t n_timers, max_timers;

void fail(const char *what)
{
    fprintf(stderr, "converse: %s: %s\n", what, strerror(errno));
    exit(1);
}

uint64_t clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * SECOND + (uint64_t) ts.tv_nsec;
}

static void look_at_clock(void)
{
    now = clock_ns();
}

void timer_add(uint64_t when, struct end *end)
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
