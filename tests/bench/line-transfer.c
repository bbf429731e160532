/* SPDX-License-Identifier: Apache-2.0 */

/* How long a cache line takes from one processor to another, for
 * tests/bench/dpdk: what two threads on both directions of a connection wait for.
 * On a virtual machine it changes with where the host runs the processors.
 *
 *     line-transfer CPU CPU
 *
 * Prints nanoseconds, one way: the median of ROUNDS times in which two threads
 * hand a number to each other. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 9, TURNS = 4000 };

static struct {
    _Alignas(128) _Atomic uint32_t turn;        /* Even: the first thread's. */
    char rest[124];
} line;

static void
run_on(const char *cpu)
{
    cpu_set_t set;
    char *end;
    unsigned long n = strtoul(cpu, &end, 10);

    CPU_ZERO(&set);
    if (n < CPU_SETSIZE) {
        CPU_SET(n, &set);
    }
    if (end == cpu || *end
        || pthread_setaffinity_np(pthread_self(), sizeof set, &set)) {
        fprintf(stderr, "line-transfer: %s: no processor\n", cpu);
        exit(2);
    }
}

/* Takes every second turn until 'last'. */
static void
take_turns(uint32_t turn, uint32_t last)
{
    for (; turn < last; turn += 2) {
        while (atomic_load_explicit(&line.turn, memory_order_acquire)
               != turn) {
            continue;
        }
        atomic_store_explicit(&line.turn, turn + 1, memory_order_release);
    }
}

static void *
second(void *cpu)
{
    run_on(cpu);
    take_turns(1, 2 * ROUNDS * TURNS);
    return NULL;
}

static double
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static int
compare(const void *a_, const void *b_)
{
    const double *a = a_, *b = b_;

    return (*a > *b) - (*a < *b);
}

int
main(int argc, char **argv)
{
    double took[ROUNDS];
    pthread_t thread;
    uint32_t i;

    if (argc != 3 || !strcmp(argv[1], argv[2])) {
        fputs("usage: line-transfer CPU CPU, two of them\n", stderr);
        return 2;
    }
    run_on(argv[1]);
    if (pthread_create(&thread, NULL, second, argv[2])) {
        fputs("line-transfer: no thread\n", stderr);
        return 1;
    }
    for (i = 0; i < ROUNDS; i++) {
        double began = now_ns();

        take_turns(2 * i * TURNS, 2 * (i + 1) * TURNS);
        took[i] = (now_ns() - began) / (2 * TURNS);
    }
    pthread_join(thread, NULL);
    qsort(took, ROUNDS, sizeof took[0], compare);
    printf("%.1f\n", took[ROUNDS / 2]);
    return 0;
}
