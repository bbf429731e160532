/* SPDX-License-Identifier: Apache-2.0 */

/* lib/acdc-wheel.c: what is held comes out in time and in order. */

#include "acdc-wheel.h"

#include <stdlib.h>

#include "tap.h"

#define SLOT UINT64_C(1024)
#define START (UINT64_C(1) << 45)       /* A year, in nanoseconds. */

static char port_a, port_b;
static uint32_t n_added;

static bool
add(struct acdc_wheel *w, uint64_t due, char *port, uint8_t kind)
{
    struct acdc_wheel_item item = { NULL, port, 1000, kind };
    bool added = acdc_wheel_add(w, &item, due);

    n_added += added;
    return added;
}

/* How many come out at 'now'. */
static uint32_t
pop_all(struct acdc_wheel *w, uint64_t now)
{
    struct acdc_wheel_item item;
    uint32_t n = 0;

    while (acdc_wheel_pop(w, now, NULL, &item)) {
        n++;
    }
    return n;
}

static void
test_time(void)
{
    struct acdc_wheel *w = acdc_wheel_create(START);

    ok(acdc_wheel_is_empty(w), "a new wheel is empty");
    ok(acdc_wheel_next(w) == UINT64_MAX, "and waits for nothing");
    add(w, START + 300 * SLOT, &port_a, ACDC_WHEEL_DATA);
    add(w, START + 100 * SLOT + 5, &port_a, ACDC_WHEEL_DATA);
    is_u64(acdc_wheel_next(w), START + 100 * SLOT, "the first is the next");
    is_u64(pop_all(w, START + 100 * SLOT - 1), 0, "nothing before its time");
    ok(!acdc_wheel_is_due(START + 100 * SLOT, START + 100 * SLOT - 1)
       && acdc_wheel_is_due(START + 100 * SLOT + 5, START + 100 * SLOT),
       "which is a slot's");
    is_u64(pop_all(w, START + 100 * SLOT), 1, "then one");
    is_u64(acdc_wheel_next(w), START + 300 * SLOT, "then the other is next");
    add(w, START, &port_a, ACDC_WHEEL_DATA);
    is_u64(pop_all(w, START + 100 * SLOT), 1, "what is too late comes at once");
    is_u64(pop_all(w, START + 5000000 * SLOT), 1, "and all after a long time");
    add(w, START + 5000010 * SLOT, &port_a, ACDC_WHEEL_DATA);
    is_u64(pop_all(w, START + 5000009 * SLOT), 0, "The wheel has turned");
    is_u64(pop_all(w, START + 5000010 * SLOT), 1, "since, more than once");
    acdc_wheel_destroy(w);
}

static void
test_horizon(void)
{
    const uint64_t end = START + (ACDC_WHEEL_SLOTS - 1) * SLOT;
    struct acdc_wheel *w = acdc_wheel_create(START);
    struct acdc_wheel_item item;

    add(w, START + 10 * (uint64_t) ACDC_WHEEL_HORIZON_NS, &port_a, ACDC_WHEEL_DATA);
    add(w, START + 3 * (uint64_t) ACDC_WHEEL_HORIZON_NS, &port_b, ACDC_WHEEL_PROBE);
    is_u64(pop_all(w, end - SLOT), 0, "so long everything can wait");
    ok(acdc_wheel_pop(w, end, NULL, &item) && item.port == &port_a,
       "data no longer");
    ok(!acdc_wheel_pop(w, end, NULL, &item), "a probe longer");
    is_u64(pop_all(w, START + 3 * (uint64_t) ACDC_WHEEL_HORIZON_NS - SLOT), 0,
           "until its time, ...");
    is_u64(pop_all(w, START + 3 * (uint64_t) ACDC_WHEEL_HORIZON_NS), 1, "...then");
    acdc_wheel_destroy(w);
}

static void
test_ports(void)
{
    struct acdc_wheel *w = acdc_wheel_create(START);
    struct acdc_wheel_item item;

    add(w, START + SLOT, &port_a, ACDC_WHEEL_DATA);
    add(w, START + SLOT, &port_a, ACDC_WHEEL_DATA);
    add(w, START + SLOT, &port_b, ACDC_WHEEL_DATA);
    add(w, START + SLOT, &port_a, ACDC_WHEEL_DATA);
    ok(acdc_wheel_pop(w, START + SLOT, NULL, &item)
       && acdc_wheel_pop(w, START + SLOT, item.port, &item)
       && !acdc_wheel_pop(w, START + SLOT, item.port, &item)
       && item.port == &port_a, "a port's until another one's is first");
    ok(acdc_wheel_pop(w, START + SLOT, NULL, &item) && item.port == &port_b,
       "which then comes");
    is_u64(pop_all(w, START + SLOT), 1, "and the rest");
    acdc_wheel_destroy(w);
}

static void
test_full(void)
{
    struct acdc_wheel *w = acdc_wheel_create(START);
    struct acdc_wheel_item large = { &port_a, &port_a, ACDC_WHEEL_BYTES,
                                     ACDC_WHEEL_DATA };
    struct acdc_wheel_item item;
    uint32_t n = 0;

    while (add(w, START + 9 * SLOT, &port_a, ACDC_WHEEL_PROBE)) {
        n++;
    }
    is_u64(n, ACDC_WHEEL_PROBES, "probes leave room");
    while (!acdc_wheel_is_full(w)) {
        add(w, START + (n++ % 7 + 1) * SLOT, &port_a, ACDC_WHEEL_DATA);
    }
    is_u64(n, ACDC_WHEEL_PACKETS, "so many fit");
    while (add(w, START + 8 * SLOT, &port_a, ACDC_WHEEL_DATA)) {
        n++;
    }
    is_u64(n, ACDC_WHEEL_PACKETS + ACDC_WHEEL_ROOM, "but a batch of data");
    is_u64(pop_all(w, START), 0, "nothing is due");
    is_u64(pop_all(w, ACDC_WHEEL_ANY), n, "nothing is lost");
    ok(acdc_wheel_is_empty(w) && !acdc_wheel_is_full(w), "all is free");
    acdc_wheel_add(w, &large, START + SLOT);
    ok(acdc_wheel_is_full(w), "bytes count, too");
    ok(acdc_wheel_pop(w, START + SLOT, NULL, &item) && !acdc_wheel_is_full(w),
       "while they are there");
    acdc_wheel_destroy(w);
}

/* Against a list of what is inside: whatever is added and taken out comes in order of
 * slots, and of adding in a slot, not before its slot, and all of it. */
static void
test_random(void)
{
    enum { STEPS = 200000, INSIDE = 3000 };
    static uint64_t slots[1 << 20];
    struct acdc_wheel *w = acdc_wheel_create(START);
    struct acdc_wheel_item item;
    bool in_order = true, in_time = true;
    uint64_t now = START;
    uint32_t inside = 0, n_out = 0, first = n_added;

    srand(1);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t last_slot = 0;
        uint32_t last = 0;

        while (acdc_wheel_pop(w, now, NULL, &item)) {
            uint32_t number = (uint32_t) (uintptr_t) item.packet;
            uint64_t slot = slots[number];

            in_order &= slot > last_slot || (slot == last_slot && number > last);
            in_time &= slot * SLOT <= now;
            last_slot = slot;
            last = number;
            inside--;
            n_out++;
        }
        in_time &= acdc_wheel_next(w) > now;
        for (int i = rand() % 4; i > 0 && inside < INSIDE; i--) {
            uint32_t number = n_added - first;
            uint64_t due = now + (uint64_t) rand() % (rand() % 8 ? 200 * SLOT
                                                     : ACDC_WHEEL_HORIZON_NS - SLOT);
            struct acdc_wheel_item next = { (void *) (uintptr_t) number, &port_a,
                                            1, ACDC_WHEEL_DATA };

            slots[number] = due / SLOT;
            acdc_wheel_add(w, &next, due);
            n_added++;
            inside++;
        }
        now += (uint64_t) rand() % (rand() % 1000 ? 5 * SLOT : 20000 * SLOT);
    }
    ok(in_order, "in order of time, then of adding");
    ok(in_time, "not early, and nothing that is due stays");
    is_u64(n_out + pop_all(w, ACDC_WHEEL_ANY), n_added - first, "all come out");
    acdc_wheel_destroy(w);
}

int
main(void)
{
    test_time();
    test_horizon();
    test_ports();
    test_full();
    test_random();
    return tap_end();
}
