/* SPDX-License-Identifier: Apache-2.0 */

/* A timing wheel (Varghese and Lauck, SOSP 1987; as in "Carousel: Scalable Traffic
 * Shaping at End Hosts", SIGCOMM 2017): what is added comes out when its time has
 * come, in order of time, and in the order of adding within ACDC_WHEEL_SLOT_NS.
 *
 * Times are in nanoseconds of any clock that does not go back.  What is added for
 * later than ACDC_WHEEL_HORIZON_NS comes out then, but for probes.
 *
 * Used by one thread.  Adding and taking out take constant time and allocate
 * nothing. */

#ifndef ACDC_WHEEL_H
#define ACDC_WHEEL_H 1

#include <stdbool.h>
#include <stdint.h>

enum {
    ACDC_WHEEL_SLOT_NS = 1024,
    ACDC_WHEEL_SLOTS = 16384,
    ACDC_WHEEL_HORIZON_NS = ACDC_WHEEL_SLOTS * ACDC_WHEEL_SLOT_NS,  /* 17 ms. */

    /* With as many the wheel is full. */
    ACDC_WHEEL_PACKETS = 1024,
    ACDC_WHEEL_BYTES = 32 << 20,
    ACDC_WHEEL_PROBES = ACDC_WHEEL_PACKETS / 2, /* With as many no probe is added: they
                                                 * wait for long, and what is paced is
                                                 * to have room. */
    ACDC_WHEEL_ROOM = 192,      /* So many more may be added nevertheless: a
                                 * batch, with one packet in pieces. */
};

/* As acdc_wheel_pop()'s 'now': whatever is first, also if its time is yet to come. */
#define ACDC_WHEEL_ANY UINT64_MAX

enum acdc_wheel_kind {
    ACDC_WHEEL_DATA,
    ACDC_WHEEL_PROBE,           /* Waits for its time however far that is. */
};

struct acdc_wheel_item {
    void *packet;               /* Not looked at, as 'port'. */
    void *port;
    uint32_t len;               /* Bytes, for ACDC_WHEEL_BYTES. */
    uint8_t kind;               /* enum acdc_wheel_kind. */
};

struct acdc_wheel;

/* NULL without memory. */
struct acdc_wheel *acdc_wheel_create(uint64_t now);
/* Forgets what is inside. */
void acdc_wheel_destroy(struct acdc_wheel *);

bool acdc_wheel_is_empty(const struct acdc_wheel *);
bool acdc_wheel_is_full(const struct acdc_wheel *);

/* The time of a last acdc_wheel_pop() should be about now.  False if there is no
 * room. */
bool acdc_wheel_add(struct acdc_wheel *, const struct acdc_wheel_item *,
                    uint64_t due);
/* Whether acdc_wheel_pop() would give at 'now' what is due at 'due'. */
static inline bool
acdc_wheel_is_due(uint64_t due, uint64_t now)
{
    return due / ACDC_WHEEL_SLOT_NS <= now / ACDC_WHEEL_SLOT_NS;
}
/* Takes out the next item that is due, if 'port' is null or the item's.  False if
 * there is none. */
bool acdc_wheel_pop(struct acdc_wheel *, uint64_t now, const void *port,
                    struct acdc_wheel_item *);
/* When the first will be due, or UINT64_MAX. */
uint64_t acdc_wheel_next(const struct acdc_wheel *);

#endif /* acdc-wheel.h */
