/* SPDX-License-Identifier: Apache-2.0 */

/* Sockets in the namespaces of a pair. */

#include "converse.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

void set(int fd, int level, int option, int value)
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

void watch(int fd, struct end *e)
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

void start(struct conversation *c)
{
    int server = !c->client;

    c->deadline = now + limit_ns;
    c->listener = -1;
    for (int i = 0; i < 2; i++) {
        c->end[i].send_from = c->end[i].read_from = now;
        timer_add(c->deadline, &c->end[i]);
    }
    if (c->simultaneous) {
        uint64_t began = clock_ns();

        open_end(c, 0);
        open_end(c, 1);
        c->missed = clock_ns() - began > CROSSING_NS;
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
