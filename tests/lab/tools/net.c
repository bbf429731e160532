/* SPDX-License-Identifier: Apache-2.0 */

/* Time, chance and sockets, for all modes. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

#define CHUNK (1 << 20)
/* A sink woken for every segment costs many times the CPU. */
#define LOWAT (128 * 1024)

struct options opt;
static char buffer[CHUNK];      /* Sent from, never read. */

void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("traffic: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, ": %s\n", strerror(errno));
    va_end(args);
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

double elapsed(int64_t t)
{
    return (t - opt.start) / 1e9;
}

void sleep_until(int64_t t)
{
    struct timespec ts = { t / 1000000000LL, t % 1000000000LL };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR) {
        continue;
    }
}

/* Uniform in [0, 1), splitmix64. */
double uniform(void)
{
    uint64_t z = opt.seed += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return ((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

bool send_all(int fd, uint64_t n)
{
    while (n) {
        ssize_t sent = send(fd, buffer, n < CHUNK ? n : CHUNK, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR) {
            continue;
        } else if (sent <= 0) {
            return false;
        }
        n -= sent;
    }
    return true;
}

/* Takes 'n' bytes off the socket, without copying them. */
bool receive_all(int fd, uint64_t n)
{
    int lowat = n < LOWAT ? n : LOWAT;
    int set = 1;

    while (n) {
        int want = n < (uint64_t) lowat ? n : (uint64_t) lowat;
        struct pollfd pfd = { .fd = fd, .events = POLLIN };
        ssize_t got;

        if (want != set) {
            setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &want, sizeof want);
            set = want;
        }
        /* A blocking recv() takes what there is first, and is then woken only
         * when as much as 'want' has come again: perhaps never. */
        if (want > 1) {
            poll(&pfd, 1, -1);
        }
        got = recv(fd, NULL, n < CHUNK ? n : CHUNK,
                   MSG_TRUNC | (want > 1 ? MSG_DONTWAIT : 0));
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        } else if (got <= 0) {
            return false;
        }
        n -= got;
    }
    if (set != 1) {
        set = 1;
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &set, sizeof set);
    }
    return true;
}
void set_cc(int fd)
{
    if (opt.cc && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, opt.cc,
                             strlen(opt.cc))) {
        fail("congestion control %s", opt.cc);
    }
}

void set_nodelay(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}
int connect_to(const char *to, struct hello h)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    struct addrinfo *ai;
    int fd;

    if (getaddrinfo(to, opt.port, &hints, &ai)) {
        errno = EINVAL;
        return -1;
    }
    fd = socket(ai->ai_family, SOCK_STREAM, 0);
    set_cc(fd);
    if (h.request && opt.parts == 1) {
        set_nodelay(fd);        /* Bulk data may wait to fill segments. */
    }
    if (connect(fd, ai->ai_addr, ai->ai_addrlen)
        || send(fd, &h, sizeof h, MSG_NOSIGNAL) != sizeof h) {
        int error = errno;

        close(fd);
        fd = -1;
        errno = error;
    }
    freeaddrinfo(ai);
    return fd;
}

struct tcp_info get_info(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    memset(&info, 0, sizeof info);
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
    return info;
}
size_t read_hosts(char *hosts[MAX_HOSTS])
{
    char *list = strdup(opt.to);
    size_t n = 0;

    for (char *h = strtok(list, ","); h && n < MAX_HOSTS; h = strtok(NULL, ",")) {
        hosts[n++] = h;
    }
    return n;
}
