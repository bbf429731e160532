/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-hold.h"

#ifdef __linux__
#include <sys/timerfd.h>
#endif

#include "acdc-compat.h"
#include "acdc-netdev.h"
#include "acdc-wheel.h"
#include "coverage.h"
#include "openvswitch/poll-loop.h"
#include "timeval.h"

COVERAGE_DEFINE(acdc_held);             /* Packets that left later. */
COVERAGE_DEFINE(acdc_held_less);        /* Of these, before their time: too many
                                         * were held, or something changed. */

/* What a thread holds. */
struct acdc_hold {
    struct acdc_wheel *wheel;
    unsigned int changes;       /* Of the datapath when it was empty. */
    bool changed;               /* Those since say that nothing is to be held. */
};

/* After the engine was asked: what that did is not older. */
static unsigned int
changes_of(struct acdc_netdev *an)
{
    unsigned int changes;

    atomic_thread_fence(memory_order_acquire);
    atomic_read(&an->changes, &changes);
    return changes;
}

bool
acdc_hold_has_changed(struct acdc_netdev *an, struct acdc_hold *hold)
{
    hold->changed = changes_of(an) != hold->changes;
    return hold->changed;
}

static struct acdc_hold *
acdc_hold_create(struct acdc_netdev *an, long long int now)
{
    unsigned int changes = changes_of(an);
    struct acdc_wheel *wheel;
    struct acdc_hold *hold;

    if (changes & 1) {
        return NULL;
    }
    wheel = acdc_wheel_create((uint64_t) now * 1000);
    if (!wheel) {
        return NULL;
    }
    hold = xzalloc(sizeof *hold);
    hold->wheel = wheel;
    hold->changes = changes;
    return hold;
}

void
acdc_hold_destroy(struct acdc_hold *hold)
{
    struct acdc_wheel_item item;

    if (hold) {
        while (acdc_wheel_pop(hold->wheel, ACDC_WHEEL_ANY, NULL, &item)) {
            dp_packet_delete(item.packet);
        }
        acdc_wheel_destroy(hold->wheel);
        free(hold);
    }
}

bool
acdc_hold_is_empty(const struct acdc_hold *hold)
{
    return !hold || acdc_wheel_is_empty(hold->wheel);
}

bool
acdc_hold_add(struct acdc_netdev *an, struct acdc_hold **hold,
              struct dp_netdev_rxq *rxq, const struct acdc_pkt *p,
              long long int now)
{
    struct acdc_wheel_item item = { p->host, rxq, p->len, ACDC_WHEEL_DATA };
    struct dp_packet *b = p->host;
    bool added;

    if (acdc_wheel_is_due(p->release, (uint64_t) now * 1000)) {
        return false;
    }
    if (OVS_UNLIKELY(!*hold)) {
        *hold = acdc_hold_create(an, now);
    }
    if (!*hold || (*hold)->changed) {
        return false;
    }
    if (b->source == DPBUF_AFXDP) {
        /* What the socket receives into has few buffers. */
        item.packet = dp_packet_clone(b);
        dp_packet_delete(b);
    }
    /* There is room, as acdc_hold_release() leaves that of two batches. */
    added = acdc_wheel_add((*hold)->wheel, &item, p->release);
    ovs_assert(added);
    COVERAGE_INC(acdc_held);
    return true;
}

bool
acdc_hold_release(struct acdc_netdev *an, struct acdc_hold *hold,
                  struct dp_packet_batch *batch, struct dp_netdev_rxq **rxq,
                  long long int now)
{
    unsigned int changes = changes_of(an);
    struct acdc_wheel *wheel = hold->wheel;
    struct acdc_wheel_item item = { .port = NULL };
    uint64_t until = now == LLONG_MAX ? 0 : (uint64_t) now * 1000;
    bool any = changes != hold->changes || !until;

    dp_packet_batch_init(batch);
    while (!acdc_packet_batch_is_full(batch)) {
        if (!acdc_wheel_pop(wheel, until, item.port, &item)) {
            if ((!any && !acdc_wheel_is_full(wheel))
                || !acdc_wheel_pop(wheel, ACDC_WHEEL_ANY, item.port, &item)) {
                break;
            }
            COVERAGE_INC(acdc_held_less);
        }
        dp_packet_batch_add(batch, item.packet);
    }
    *rxq = item.port;
    if (any && !(changes & 1) && acdc_wheel_is_empty(wheel)) {
        hold->changes = changes;
        hold->changed = false;
    }
    return !dp_packet_batch_is_empty(batch);
}

void
acdc_hold_note(struct acdc_netdev *an, const struct acdc_hold *hold)
{
    an->next_release = (acdc_hold_is_empty(hold) ? LLONG_MAX
                        : DIV_ROUND_UP(acdc_wheel_next(hold->wheel), 1000));
}

/* A poll loop's own timers have milliseconds, which is many round trips. */
void
acdc_hold_wait(struct acdc_netdev *an)
{
    long long int us;

    if (an->next_release == LLONG_MAX) {
        return;
    }
    us = an->next_release - time_usec();
    if (us <= 0) {
        poll_immediate_wake();
        return;
    }
#ifdef __linux__
    struct itimerspec ts = {
        .it_value = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 },
    };

    if (an->timer_fd < 0) {
        an->timer_fd = timerfd_create(CLOCK_MONOTONIC,
                                      TFD_NONBLOCK | TFD_CLOEXEC);
    }
    if (an->timer_fd >= 0 && !timerfd_settime(an->timer_fd, 0, &ts, NULL)) {
        poll_fd_wait(an->timer_fd, POLLIN);
        return;
    }
#endif
    poll_timer_wait_until(time_msec() + us / 1000);
}
