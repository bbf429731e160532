/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* For fuzzers whose input is a program: what it says next, and what must hold. */

#ifndef PROGRAM_H
#define PROGRAM_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static inline void
check(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "broken: %s\n", what);
        abort();
    }
}
#define CHECK(X) check(X, #X)

static const uint8_t *input;
static size_t left;

/* 0 behind its end. */
static inline uint8_t
byte(void)
{
    if (!left) {
        return 0;
    }
    left--;
    return *input++;
}

#endif /* program.h */
