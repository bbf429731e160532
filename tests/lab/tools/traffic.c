/* SPDX-License-Identifier: Apache-2.0 */

/* The lab's traffic: every call blocks, so that virtual time can pass, and
 * nothing is computed per segment.
 *
 *   traffic server --port P [--cc NAME]
 *   traffic bulk   --to ADDR --port P [--cc NAME] --start NS --seconds S
 *                  [--interval S] [--bytes N] [--both]
 *   traffic rpc    --to ADDR --port P [--cc NAME] --start NS --seconds S
 *                  [--request N] [--response N] [--parts N] [--interval S]
 *                  [--seed N]
 *   traffic flows  --to ADDR,ADDR... --port P [--cc NAME] --start NS
 *                  --seconds S --sizes FILE --rate FLOWS_PER_SECOND [--seed N]
 *   traffic transfer --to ADDR,ADDR... --port P [--cc NAME] --start NS
 *                  --seconds S --bytes N [--parallel N]
 *   traffic query  --to ADDR,ADDR... --port P [--cc NAME] --start NS
 *                  --seconds S [--request N] [--response N] [--interval S]
 *                  [--seed N]
 *
 * With --both the server sends bulk data on the same connection.
 * Clients start at --start on CLOCK_MONOTONIC and print one JSON object.
 * Times in the output are seconds since --start, but RTTs, which are
 * microseconds; sizes are bytes. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "traffic.h"

/* Server. ----------------------------------------------------------------- */

static void *bulk_receive(void *arg)
{
    int fd = (int) (intptr_t) arg;

    receive_all(fd, UINT64_MAX);
    return NULL;
}

static void *serve(void *arg)
{
    int fd = (int) (intptr_t) arg;
    struct hello h;

    if (recv(fd, &h, sizeof h, MSG_WAITALL) == sizeof h) {
        if (!h.request && h.response) {
            pthread_t thread;

            if (pthread_create(&thread, NULL, bulk_receive, arg)) {
                fail("thread");
            }
            send_all(fd, h.response);
            pthread_join(thread, NULL);
        } else if (!h.request) {
            bulk_receive(arg);
        } else {
            while (receive_all(fd, h.request) && send_all(fd, h.response)) {
                continue;
            }
        }
    }
    close(fd);
    return NULL;
}
static void server(void)
{
    struct sockaddr_in6 addr = { .sin6_family = AF_INET6,
                                 .sin6_port = htons(atoi(opt.port)) };
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    pthread_attr_t attr;
    int one = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    set_cc(fd);
    if (bind(fd, (struct sockaddr *) &addr, sizeof addr) || listen(fd, 4096)) {
        fail("port %s", opt.port);
    }
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    for (;;) {
        int conn = accept(fd, NULL, NULL);
        pthread_t thread;

        if (conn < 0) {
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            fail("accept");
        }
        set_nodelay(conn);
        if (pthread_create(&thread, &attr, serve, (void *) (intptr_t) conn)) {
            fail("thread");
        }
    }
}
/* Clients. ---------------------------------------------------------------- */

/* alpha * 1024 of a DCTCP guest, else -1. */
static int dctcp_alpha(int fd)
{
    union tcp_cc_info info;
    socklen_t len = sizeof info;

    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_CC_INFO, &info, &len)
        || len != sizeof info.dctcp || !info.dctcp.dctcp_enabled) {
        return -1;
    }
    return info.dctcp.dctcp_alpha;
}

static void *bulk_send(void *arg)
{
    int fd = (int) (intptr_t) arg;

    send_all(fd, opt.bytes ? opt.bytes : UINT64_MAX);
    return NULL;
}

/* Sends for --seconds, or --bytes, and samples tcp_info meanwhile. */
static void bulk(void)
{
    int64_t step = opt.interval * 1e9;
    int64_t end = opt.start + (int64_t) (opt.seconds * 1e9);
    uint64_t back = opt.both ? opt.bytes ? opt.bytes : UINT64_MAX : 0;
    struct tcp_info info = { 0 };
    pthread_t thread;
    bool comma = false;
    int64_t connected;
    int fd;

    sleep_until(opt.start);
    fd = connect_to(opt.to, (struct hello) { 0, back });
    if (fd < 0) {
        printf("{\"connected\": null, \"error\": \"%s\", \"samples\": []}\n",
               strerror(errno));
        return;
    }
    connected = now_ns();
    if (pthread_create(&thread, NULL, bulk_send, (void *) (intptr_t) fd)
        || (opt.both && pthread_create(&thread, NULL, bulk_receive,
                                       (void *) (intptr_t) fd))) {
        fail("thread");
    }
    printf("{\"connected\": %.9f, \"samples\": [", elapsed(connected));
    /* All flows sample at the same instants, whenever they connected. */
    for (int64_t t = (opt.start + step - 1) / step * step; t <= end;
         t += step) {
        if (t < connected) {
            continue;
        }
        sleep_until(t);
        info = get_info(fd);
        printf("%s\n[%.6f, %"PRIu64", %u, %u, %u, %u, %u, %u, %u, %u, %u, %u, "
               "%u, %d, %"PRIu64"]",
               comma ? "," : "", elapsed(now_ns()),
               (uint64_t) info.tcpi_bytes_acked, info.tcpi_snd_cwnd,
               info.tcpi_snd_ssthresh, info.tcpi_rtt, info.tcpi_unacked,
               info.tcpi_total_retrans, info.tcpi_lost, info.tcpi_delivered,
               info.tcpi_delivered_ce, info.tcpi_snd_wnd, info.tcpi_min_rtt,
               info.tcpi_ca_state, dctcp_alpha(fd),
               (uint64_t) info.tcpi_bytes_received);
        comma = true;
    }
    printf("],\n\"fields\": [\"t\", \"bytes_acked\", \"cwnd\", \"ssthresh\", "
           "\"rtt_us\", \"unacked\", \"retrans\", \"lost\", \"delivered\", "
           "\"delivered_ce\", \"snd_wnd\", \"min_rtt_us\", "
           "\"ca_state\", \"alpha\", \"bytes_received\"]}\n");
    fflush(stdout);
    _exit(0);                   /* The sender is blocked for good. */
}

static bool send_request(int fd)
{
    for (uint64_t i = 0; i < opt.parts; i++) {
        if (!send_all(fd, opt.request / opt.parts)) {
            return false;
        }
    }
    return true;
}

/* Requests one after the other; --interval is the mean pause between them.  Nagle's
 * algorithm applies to those that are written in --parts. */
static void rpc(void)
{
    int64_t end = opt.start + (int64_t) (opt.seconds * 1e9);
    const char *comma = "";
    int64_t connected;
    int fd;

    sleep_until(opt.start);
    fd = connect_to(opt.to, (struct hello) { opt.request, opt.response });
    if (fd < 0) {
        printf("{\"connected\": null, \"error\": \"%s\", \"requests\": []}\n",
               strerror(errno));
        return;
    }
    connected = now_ns();
    printf("{\"connected\": %.9f, \"requests\": [", elapsed(connected));
    while (now_ns() < end) {
        int64_t t0 = now_ns();

        if (!send_request(fd) || !receive_all(fd, opt.response)) {
            break;
        }
        printf("%s[%.6f, %.3f]", comma, elapsed(t0), (now_ns() - t0) / 1e3);
        comma = ",";
        if (opt.interval > 0) {
            /* Not in step with anything else in the network. */
            sleep_until(now_ns()
                        + (int64_t) (opt.interval * 1e9 * (0.5 + uniform())));
        }
    }
    printf("],\n\"fields\": [\"t\", \"rtt_us\"], \"retrans\": %u}\n",
           get_info(fd).tcpi_total_retrans);
}

/* Takes 'size' bytes off each socket, as they come: a receiver that does not
 * read delays its ACKs. */
static bool receive_each(const int *fds, size_t n, uint64_t size)
{
    struct pollfd pfds[MAX_HOSTS];
    uint64_t left[MAX_HOSTS];
    size_t waiting = n;

    for (size_t i = 0; i < n; i++) {
        pfds[i] = (struct pollfd) { .fd = fds[i], .events = POLLIN };
        left[i] = size;
    }
    while (waiting) {
        if (poll(pfds, n, -1) < 0 && errno != EINTR) {
            return false;
        }
        for (size_t i = 0; i < n; i++) {
            ssize_t got;

            if (pfds[i].fd < 0 || !pfds[i].revents) {
                continue;
            }
            got = recv(fds[i], NULL, left[i], MSG_TRUNC | MSG_DONTWAIT);
            if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
                continue;
            } else if (got <= 0) {
                return false;
            }
            left[i] -= got;
            if (!left[i]) {
                pfds[i].fd = -1;
                waiting--;
            }
        }
    }
    return true;
}

/* Asks all hosts at once and waits for the last answer: incast.  --interval is the
 * mean pause after that, so who is slower asks less. */
static void query(void)
{
    int64_t end = opt.start + (int64_t) (opt.seconds * 1e9);
    const char *comma = "";
    char *hosts[MAX_HOSTS];
    int fds[MAX_HOSTS];
    size_t n = read_hosts(hosts);
    uint64_t retrans = 0;
    bool alive = true;

    sleep_until(opt.start);
    for (size_t i = 0; i < n; i++) {
        fds[i] = connect_to(hosts[i],
                            (struct hello) { opt.request, opt.response });
        if (fds[i] < 0) {
            printf("{\"connected\": null, \"error\": \"%s\", "
                   "\"rtt_us\": []}\n", strerror(errno));
            return;
        }
    }
    printf("{\"connected\": %.9f, \"rtt_us\": [", elapsed(now_ns()));
    while (alive && now_ns() < end) {
        int64_t t0;

        sleep_until(now_ns()
                    + (int64_t) (-log(1 - uniform()) * opt.interval * 1e9));
        t0 = now_ns();
        for (size_t i = 0; i < n; i++) {
            alive &= send_all(fds[i], opt.request);
        }
        if (alive && (alive = receive_each(fds, n, opt.response))) {
            printf("%s%.3f", comma, (now_ns() - t0) / 1e3);
            comma = ",";
        }
    }
    for (size_t i = 0; i < n; i++) {
        retrans += get_info(fds[i]).tcpi_total_retrans;
    }
    printf("], \"retrans\": %"PRIu64"}\n", retrans);
}

/* Fills in 'opt'.  False: there is no such option, and getopt_long() has said so. */
static bool parse(int argc, char **argv)
{
    static const struct option longs[] = {
        { "to", required_argument, NULL, 't' },
        { "port", required_argument, NULL, 'p' },
        { "cc", required_argument, NULL, 'c' },
        { "start", required_argument, NULL, 's' },
        { "seconds", required_argument, NULL, 'S' },
        { "interval", required_argument, NULL, 'i' },
        { "request", required_argument, NULL, 'q' },
        { "response", required_argument, NULL, 'r' },
        { "bytes", required_argument, NULL, 'b' },
        { "sizes", required_argument, NULL, 'z' },
        { "rate", required_argument, NULL, 'R' },
        { "seed", required_argument, NULL, 'e' },
        { "parallel", required_argument, NULL, 'P' },
        { "parts", required_argument, NULL, 'w' },
        { "both", no_argument, NULL, 'B' },
        { NULL, 0, NULL, 0 },
    };
    int c;

    opt = (struct options) { .port = "5001", .seconds = 1, .request = 1,
                             .response = 1, .rate = 1, .seed = 1,
                             .parallel = 1, .parts = 1 };
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 't': opt.to = optarg; break;
        case 'p': opt.port = optarg; break;
        case 'c': opt.cc = optarg; break;
        case 's': opt.start = strtoll(optarg, NULL, 10); break;
        case 'S': opt.seconds = atof(optarg); break;
        case 'i': opt.interval = atof(optarg); break;
        case 'q': opt.request = strtoull(optarg, NULL, 10); break;
        case 'r': opt.response = strtoull(optarg, NULL, 10); break;
        case 'b': opt.bytes = strtoull(optarg, NULL, 10); break;
        case 'z': opt.sizes = optarg; break;
        case 'R': opt.rate = atof(optarg); break;
        case 'P': opt.parallel = strtoull(optarg, NULL, 10); break;
        case 'w': opt.parts = strtoull(optarg, NULL, 10); break;
        case 'B': opt.both = true; break;
        case 'e': opt.seed = strtoull(optarg, NULL, 10); break;
        default: return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (!parse(argc, argv)) {
        return 2;
    }
    /* The kernel may be 50 us late by default: more than an RTT here. */
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGPIPE, SIG_IGN);
    if (!opt.start) {
        opt.start = now_ns();
    }
    if (!strcmp(mode, "server")) {
        server();
    } else if (!opt.to) {
        fprintf(stderr, "traffic: which mode, and --to what?\n");
        return 2;
    } else if (!strcmp(mode, "bulk")) {
        opt.interval = opt.interval > 0 ? opt.interval : 0.01;
        bulk();
    } else if (!strcmp(mode, "rpc")) {
        rpc();
    } else if (!strcmp(mode, "flows") && opt.sizes) {
        flows();
    } else if (!strcmp(mode, "transfer") && opt.bytes) {
        transfer();
    } else if (!strcmp(mode, "query")) {
        query();
    } else {
        fprintf(stderr, "traffic: bad mode '%s'\n", mode);
        return 2;
    }
    return 0;
}
