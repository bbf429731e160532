/* SPDX-License-Identifier: Apache-2.0 */

/* Marks that kernel-source.c makes for kernel-profile.c: instructions without an
 * effect. */

#ifndef KERNEL_PROFILE_H
#define KERNEL_PROFILE_H 1

enum {
    PROFILE_SIDES = 2,          /* 0 and 1: what was since the last mark is kept, as that
                                 * side's. */
    PROFILE_BEGIN = PROFILE_SIDES,      /* It is not. */
    PROFILE_ROUND,              /* Nor what was kept before. */
    PROFILE_END,                /* Of a round: what was kept is written. */
};

/* nopl 0x..444341(%rax): the last byte is the number. */
#define PROFILE_MARK_BYTES 0x0f, 0x1f, 0x80, 0x41, 0x43, 0x44

#define PROFILE_MARK(NUMBER) \
    __asm__ volatile (".byte 0x0f, 0x1f, 0x80, 0x41, 0x43, 0x44, %c0" \
                      : : "i" (NUMBER) : "memory")

#endif /* kernel-profile.h */
