/* SPDX-License-Identifier: Apache-2.0 */

/* Modes of many flows: what each took. */

#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

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

/* Waits for the threads, at most --seconds, rounded up to whole ones, and tells of the flows. */
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
    printf("],\n\"fields\": [\"t\", \"to\", \"size\", \"fct\", \"retrans\"], "
           "\"ended\": %.9f}\n", elapsed(now_ns()));
    fflush(stdout);
    _exit(0);
}

/* Flows that arrive by a Poisson process, each to a host drawn at random. */
void flows(void)
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
void transfer(void)
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
