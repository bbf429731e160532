/* SPDX-License-Identifier: Apache-2.0 */

/* Loses, marks, duplicates, reorders and corrupts packets, for kernels without netem.
 *
 *     relay < LINES
 *
 * A line is a way from one network device to another, and what happens on it:
 * percentages of packets lost, duplicated, sent at once, corrupted (a bit), a delay in
 * microseconds for the others, and 1 if packets with ECT are marked and not lost. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define MAX_WAYS 256
#define MAX_QUEUE 20000
#define MAX_FRAME 10000

static struct way {
    double loss, duplicate, at_once, corrupt;
    uint64_t delay_us;
    int marks;
    int in, out;
} ways[MAX_WAYS];
static int n_ways;

static struct packet {
    struct packet *next;
    uint64_t when;              /* Microseconds. */
    int out;
    size_t size;
    uint8_t frame[];
} *queue;                       /* By 'when'. */
static int n_queued;

static void fail(const char *what)
{
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

static int chance(double percent)
{
    return drand48() * 100 < percent;
}

static int open_device(const char *name, uint16_t protocol)
{
    struct sockaddr_ll a = {
        .sll_family = AF_PACKET, .sll_protocol = htons(protocol),
        .sll_ifindex = (int) if_nametoindex(name),
    };
    int fd = socket(AF_PACKET, SOCK_RAW, 0), yes = 1, room = 1 << 23;

    if (!a.sll_ifindex || fd < 0
        || setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes)
        || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room)
        || bind(fd, (struct sockaddr *) &a, sizeof a)) {
        fail(name);
    }
    return fd;
}

static void enqueue(const struct way *w, const uint8_t *frame, size_t size)
{
    uint64_t delay = chance(w->at_once) ? 0 : w->delay_us;
    struct packet *p, **at = &queue;

    if (n_queued == MAX_QUEUE) {
        return;
    }
    p = malloc(sizeof *p + size);
    if (!p) {
        return;
    }
    p->when = now_us() + delay;
    p->out = w->out;
    p->size = size;
    memcpy(p->frame, frame, size);
    if (size > ETH_HLEN && chance(w->corrupt)) {
        size_t bit = (size_t) (drand48() * 8 * (double) (size - ETH_HLEN));

        p->frame[ETH_HLEN + bit / 8] ^= (uint8_t) (1 << bit % 8);
    }
    while (*at && (*at)->when <= p->when) {
        at = &(*at)->next;
    }
    p->next = *at;
    *at = p;
    n_queued++;
}

/* As netem with "ecn": CE in a packet with ECT; 0 where it has not. */
static int mark(uint8_t *frame, size_t size)
{
    uint8_t *ip = frame + ETH_HLEN;

    if (size >= ETH_HLEN + 20u && frame[12] == 8 && !frame[13] && ip[1] & 3) {
        /* RFC 1624, the sum complemented: the second byte grows by so much. */
        uint32_t sum = (uint32_t) ip[10] << 8 | ip[11];
        uint32_t more = 3u - (ip[1] & 3);

        sum = sum >= more ? sum - more : sum + 0xffff - more;
        ip[1] |= 3;
        ip[10] = (uint8_t) (sum >> 8);
        ip[11] = (uint8_t) sum;
        return 1;
    }
    if (size >= ETH_HLEN + 40u && frame[12] == 0x86 && frame[13] == 0xdd && ip[1] & 0x30) {
        ip[1] |= 0x30;
        return 1;
    }
    return 0;
}

static void send_due(void)
{
    while (queue && queue->when <= now_us()) {
        struct packet *p = queue;

        queue = p->next;
        n_queued--;
        /* What does not fit is lost, as in a network. */
        (void) !send(p->out, p->frame, p->size, 0);
        free(p);
    }
}

int main(void)
{
    struct pollfd polls[MAX_WAYS];
    char from[16], to[16];
    static uint8_t frame[MAX_FRAME];
    struct way *w = ways;

    while (n_ways < MAX_WAYS
           && scanf("%15s %15s %lf %lf %lf %lf %lu %d", from, to, &w->loss,
                    &w->duplicate, &w->at_once, &w->corrupt,
                    &w->delay_us, &w->marks) == 8) {
        w->in = open_device(from, ETH_P_ALL);
        w->out = open_device(to, 0);
        polls[n_ways++] = (struct pollfd) { .fd = w++->in, .events = POLLIN };
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct timespec wait = { 0, 0 };

        if (queue) {
            uint64_t now = now_us();
            uint64_t us = queue->when > now ? queue->when - now : 0;

            wait.tv_sec = (time_t) (us / 1000000);
            wait.tv_nsec = (long) (us % 1000000 * 1000);
        }
        ppoll(polls, (nfds_t) n_ways, queue ? &wait : NULL, NULL);
        for (int i = 0; i < n_ways; i++) {
            ssize_t n;

            while ((n = recv(ways[i].in, frame, sizeof frame, MSG_DONTWAIT))
                   > 0) {
                int copies = 1 + chance(ways[i].duplicate);

                while (copies--) {
                    if (!chance(ways[i].loss)
                        || (ways[i].marks && mark(frame, (size_t) n))) {
                        enqueue(&ways[i], frame, (size_t) n);
                    }
                }
            }
        }
        send_due();
    }
}
