/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What a unit test needs to speak the Test Anything Protocol:
 *
 *     int main(void)
 *     {
 *         ok(1 + 1 == 2, "addition");
 *         is_u64(f(3), 9, "f(%d)", 3);
 *         return tap_end();
 *     }
 *
 * Only for the main thread.  A test whose work is random prints its seed
 * (tap_seed), and takes it again from the environment's ACDC_TEST_SEED. */

#ifndef TAP_H
#define TAP_H 1

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned int tap_run;
static unsigned int tap_failed;

static inline bool __attribute__((format(printf, 3, 0)))
tap_vresult(bool pass, const char *where, const char *name, va_list args)
{
    char text[256];

    vsnprintf(text, sizeof text, name, args);
    printf("%sok %u - %s\n", pass ? "" : "not ", ++tap_run, text);
    if (!pass) {
        tap_failed++;
        printf("# failed at %s\n", where);
    }
    fflush(stdout);
    return pass;
}

static inline bool __attribute__((format(printf, 3, 4)))
tap_result(bool pass, const char *where, const char *name, ...)
{
    va_list args;

    va_start(args, name);
    tap_vresult(pass, where, name, args);
    va_end(args);
    return pass;
}

static inline bool __attribute__((format(printf, 5, 6)))
tap_is_u64(uint64_t got, uint64_t want, const char *where, const char *expr,
           const char *name, ...)
{
    bool pass = got == want;
    va_list args;

    va_start(args, name);
    tap_vresult(pass, where, name, args);
    va_end(args);
    if (!pass) {
        printf("# %s is %"PRIu64" (0x%"PRIx64"), not %"PRIu64" (0x%"PRIx64")\n",
               expr, got, got, want, want);
    }
    return pass;
}

#define TAP_STRING2(X) #X
#define TAP_STRING(X) TAP_STRING2(X)
#define TAP_WHERE __FILE__ ":" TAP_STRING(__LINE__)

/* One result; the rest is its name, as for printf().  They return whether it
 * passed, so that a loop over many cases can stop at the first failure. */
#define ok(CONDITION, ...) tap_result(CONDITION, TAP_WHERE, __VA_ARGS__)
#define is_u64(GOT, WANT, ...) \
    tap_is_u64(GOT, WANT, TAP_WHERE, #GOT, __VA_ARGS__)

/* The seed for the test's random numbers, printed. */
static inline uint64_t
tap_seed(void)
{
    const char *given = getenv("ACDC_TEST_SEED");
    struct timespec now;
    uint64_t seed;

    clock_gettime(CLOCK_REALTIME, &now);
    seed = given ? strtoull(given, NULL, 0)
                 : (uint64_t) now.tv_sec * 1000003u + (uint64_t) now.tv_nsec;
    printf("# ACDC_TEST_SEED=%"PRIu64"\n", seed);
    return seed;
}

/* The next of a sequence of random numbers (splitmix64, by Steele, Lea and
 * Flood, OOPSLA 2014). */
static inline uint64_t
tap_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline bool
tap_chance(uint64_t *state, unsigned int percent)
{
    return tap_random(state) % 100 < percent;
}

/* Prints the plan; returns the exit status for main(). */
static inline int
tap_end(void)
{
    printf("1..%u\n", tap_run);
    return tap_failed || !tap_run;
}

#endif /* tap.h */
