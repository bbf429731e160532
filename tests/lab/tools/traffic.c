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
#include <linux/tcp.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (1 << 20)
/* A sink woken for every segment costs many times the CPU. */
#define LOWAT (128 * 1024)
#define STACK_SIZE (128 * 1024)

/* What a client says first on each connection. */
struct hello {
    uint64_t request;           /* Bytes of each request, 0: sink to the end. */
    uint64_t response;          /* Bytes of each answer, or beside the sink. */
};

struct options {
    const char *to, *port, *cc, *sizes;
    int64_t start;              /* ns */
    double seconds, interval, rate;
    uint64_t request, response, bytes, seed, parallel, parts;
    bool both;
};

static struct options opt;
static char buffer[CHUNK];      /* Sent from, never read. */

static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("traffic: ", stderr);
    vfprintf(stderr, format, args);
    fprintf(stderr, ": %s\n", strerror(errno));
    va_end(args);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double elapsed(int64_t t)
{
    return (t - opt.start) / 1e9;
}

static void sleep_until(int64_t t)
{
    struct timespec ts = { t / 1000000000LL, t % 1000000000LL };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR) {
        continue;
    }
}

/* Uniform in [0, 1), splitmix64. */
static double uniform(void)
{
    uint64_t z = opt.seed += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return ((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static bool send_all(int fd, uint64_t n)
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
static bool receive_all(int fd, uint64_t n)
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

static void set_cc(int fd)
{
    if (opt.cc && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, opt.cc,
                             strlen(opt.cc))) {
        fail("congestion control %s", opt.cc);
    }
}

static void set_nodelay(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
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

/* Connects and says 'h'.  Returns the socket, or -1 with errno set. */
static int connect_to(const char *to, struct hello h)
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

static struct tcp_info get_info(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    memset(&info, 0, sizeof info);
    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len);
    return info;
}

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
           "\"ca_state\", \"alpha\", \"bytes_received\"],\n"
           "\"bytes\": %"PRIu64", \"mss\": %u, \"busy_us\": %"PRIu64", "
           "\"rwnd_limited_us\": %"PRIu64", \"sndbuf_limited_us\": %"PRIu64"}\n",
           (uint64_t) info.tcpi_bytes_acked, info.tcpi_snd_mss,
           (uint64_t) info.tcpi_busy_time, (uint64_t) info.tcpi_rwnd_limited,
           (uint64_t) info.tcpi_sndbuf_limited);
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

/* Flow sizes: lines "BYTES CUMULATIVE_PROBABILITY", linear in between. */
struct cdf {
    double size[256], p[256];
    int n;
};

static void read_cdf(struct cdf *cdf)
{
    FILE *file = fopen(opt.sizes, "r");
    char line[128];

    if (!file) {
        fail("%s", opt.sizes);
    }
    while (fgets(line, sizeof line, file) && cdf->n < 256) {
        if (line[0] != '#'
            && sscanf(line, "%lf %lf", &cdf->size[cdf->n],
                      &cdf->p[cdf->n]) == 2) {
            cdf->n++;
        }
    }
    fclose(file);
    if (cdf->n < 2) {
        errno = EINVAL;
        fail("%s", opt.sizes);
    }
}

static uint64_t draw(const struct cdf *cdf)
{
    double u = uniform();
    int i = 1;

    while (i < cdf->n - 1 && cdf->p[i] < u) {
        i++;
    }
    double width = cdf->p[i] - cdf->p[i - 1];
    double part = width > 0 ? (u - cdf->p[i - 1]) / width : 1;
    double size = cdf->size[i - 1]
                  + (part < 0 ? 0 : part) * (cdf->size[i] - cdf->size[i - 1]);

    return size < 1 ? 1 : size;
}

struct flow {
    const char *to;
    uint64_t size;
    int64_t begin, end;         /* ns, 'end' 0: not finished */
    uint32_t retrans;
};

static void *run_flow(void *arg)
{
    struct flow *f = arg;
    int fd = connect_to(f->to, (struct hello) { f->size, 1 });

    if (fd >= 0) {
        if (send_all(fd, f->size) && receive_all(fd, 1)) {
            f->end = now_ns();
        }
        f->retrans = get_info(fd).tcpi_total_retrans;
        close(fd);
    }
    return NULL;
}

#define MAX_HOSTS 256

/* Splits --to. */
static size_t read_hosts(char *hosts[MAX_HOSTS])
{
    char *list = strdup(opt.to);
    size_t n = 0;

    for (char *h = strtok(list, ","); h && n < MAX_HOSTS; h = strtok(NULL, ",")) {
        hosts[n++] = h;
    }
    return n;
}

/* Waits for the threads, as long again as --seconds, and tells of the flows. */
static void finish_flows(const struct flow *all, size_t n_flows,
                         const pthread_t *threads, size_t n_threads)
{
    struct timespec limit;

    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += (time_t) ceil(opt.seconds);
    for (size_t i = 0; i < n_threads; i++) {
        pthread_timedjoin_np(threads[i], NULL, &limit);
    }
    printf("{\"flows\": [");
    for (size_t i = 0; i < n_flows; i++) {
        const struct flow *f = &all[i];

        printf("%s\n[%.9f, \"%s\", %"PRIu64", ", i ? "," : "",
               elapsed(f->begin), f->to, f->size);
        if (f->end) {
            printf("%.9f, ", (f->end - f->begin) / 1e9);
        } else {
            printf("null, ");
        }
        printf("%u]", f->retrans);
    }
    printf("],\n\"fields\": [\"t\", \"to\", \"size\", \"fct\", \"retrans\"]}\n");
    fflush(stdout);
    _exit(0);
}

/* Flows that arrive by a Poisson process, each to a host drawn at random. */
static void flows(void)
{
    int64_t end = opt.start + (int64_t) (opt.seconds * 1e9);
    size_t max = opt.rate * opt.seconds * 2 + 1000;
    struct flow *all = calloc(max, sizeof *all);
    pthread_t *threads = calloc(max, sizeof *threads);
    struct cdf cdf = { .n = 0 };
    char *hosts[MAX_HOSTS];
    size_t n = 0, n_hosts = read_hosts(hosts);
    pthread_attr_t attr;
    int64_t t = opt.start;

    read_cdf(&cdf);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    for (; n < max; n++) {
        t += (int64_t) (-log(1 - uniform()) / opt.rate * 1e9);
        if (t >= end) {
            break;
        }
        sleep_until(t);
        all[n] = (struct flow) { .to = hosts[(size_t) (uniform() * n_hosts)],
                                 .size = draw(&cdf), .begin = t };
        if (pthread_create(&threads[n], &attr, run_flow, &all[n])) {
            fail("thread");
        }
    }
    finish_flows(all, n, threads, n);
}

static struct flow *transfers;
static size_t n_transfers, next_transfer;

static void *run_transfers(void *arg)
{
    size_t i;

    while ((i = __atomic_fetch_add(&next_transfer, 1, __ATOMIC_RELAXED))
           < n_transfers) {
        transfers[i].begin = now_ns();
        run_flow(&transfers[i]);
    }
    return arg;
}

/* --bytes to each host in turn, --parallel at a time. */
static void transfer(void)
{
    pthread_t threads[MAX_HOSTS];
    char *hosts[MAX_HOSTS];
    size_t n_threads;

    n_transfers = read_hosts(hosts);
    transfers = calloc(n_transfers, sizeof *transfers);
    for (size_t i = 0; i < n_transfers; i++) {
        transfers[i] = (struct flow) { .to = hosts[i], .size = opt.bytes,
                                       .begin = opt.start };
    }
    n_threads = opt.parallel < n_transfers ? opt.parallel : n_transfers;
    sleep_until(opt.start);
    for (size_t i = 0; i < n_threads; i++) {
        if (pthread_create(&threads[i], NULL, run_transfers, NULL)) {
            fail("thread");
        }
    }
    finish_flows(transfers, n_transfers, threads, n_threads);
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

/* Asks all hosts at once and waits for the last answer: incast. */
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

int main(int argc, char **argv)
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
    const char *mode = argc > 1 ? argv[1] : "";
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
        default: return 2;
        }
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
