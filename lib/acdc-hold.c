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
#include "csum.h"
#include "openvswitch/poll-loop.h"
#include "packets.h"
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

/* Where the thread may put something; NULL: nowhere, now. */
static struct acdc_wheel *
acdc_hold_wheel(struct acdc_netdev *an, struct acdc_hold **hold,
                long long int now)
{
    if (OVS_UNLIKELY(!*hold)) {
        *hold = acdc_hold_create(an, now);
    }
    return *hold && !(*hold)->changed ? (*hold)->wheel : NULL;
}

/* A part of the payload of 'p', which is to be segmented, as it is.  NULL: a
 * DPDK port's memory pool has nothing for it. */
static struct dp_packet *
acdc_hold_piece(const struct acdc_pkt *p, uint32_t from, uint32_t len)
{
    unsigned int headers = p->l4_ofs + p->tcp_hlen;
    struct dp_packet *b = acdc_host_clone(p->host, headers, len);

    if (b) {
        memcpy((uint8_t *) dp_packet_data(b) + headers,
               p->data + headers + from, len);
        acdc_pkt_cut(p, dp_packet_data(b), from, len);
        acdc_packet_set_piece(b, len);
    }
    return b;
}

/* Adds 'p' in pieces, if it is to leave so and there is room. */
static bool
acdc_hold_add_pieces(struct acdc_wheel *wheel, struct dp_netdev_rxq *rxq,
                     const struct acdc_pkt *p)
{
    struct acdc_wheel_item item = { NULL, rxq, p->piece, ACDC_WHEEL_DATA };
    uint32_t payload = acdc_pkt_payload(p);
    uint64_t due = p->release;
    bool added;

    if (!p->piece || !p->csum_partial || p->hlen < p->len
        || payload / p->piece >= ACDC_WHEEL_ROOM - NETDEV_MAX_BURST
        || acdc_wheel_is_full(wheel)) {
        return false;
    }
    for (uint32_t from = 0; from < payload; from += p->piece) {
        item.packet = acdc_hold_piece(p, from,
                                      MIN(p->piece, payload - from));
        if (!item.packet) {
            if (!from) {
                return false;
            }
            break;              /* The rest is lost, as in a full queue. */
        }
        added = acdc_wheel_add(wheel, &item, due);
        ovs_assert(added);
        due += p->piece_ns;
        COVERAGE_INC(acdc_held);
    }
    dp_packet_delete(p->host);
    return true;
}

bool
acdc_hold_add(struct acdc_netdev *an, struct acdc_hold **hold,
              struct dp_netdev_rxq *rxq, const struct acdc_pkt *p,
              long long int now)
{
    struct acdc_wheel_item item = { p->host, rxq, p->len, ACDC_WHEEL_DATA };
    struct dp_packet *b = p->host;
    bool due = acdc_wheel_is_due(p->release, (uint64_t) now * 1000);
    struct acdc_wheel *wheel;
    bool added;

    if (due && !p->piece) {
        return false;
    }
    wheel = acdc_hold_wheel(an, hold, now);
    if (!wheel) {
        return false;
    }
    if (acdc_hold_add_pieces(wheel, rxq, p)) {
        return true;
    }
    if (due) {
        return false;
    }
    if (b->source == DPBUF_AFXDP) {
        /* What the socket receives into has few buffers. */
        item.packet = dp_packet_clone(b);
        dp_packet_delete(b);
    }
    /* There is room, as acdc_hold_release() leaves that of two batches. */
    added = acdc_wheel_add(wheel, &item, p->release);
    ovs_assert(added);
    COVERAGE_INC(acdc_held);
    return true;
}

/* Its headers and last segment, with a whole checksum.  NULL if that cannot be. */
static struct dp_packet *
acdc_hold_copy(const struct acdc_pkt *p)
{
    unsigned int headers = p->l4_ofs + p->tcp_hlen;
    const struct dp_packet *like = p->host;
    struct dp_packet *b;
    uint8_t *data;

    b = (p->hlen < p->len ? NULL
         : acdc_host_packet_like(like, headers + p->keep_len));
    if (!b) {
        return NULL;
    }
    if (dp_packet_rss_valid(like)) {
        /* It goes the same way, see acdc_host_set_path(). */
        dp_packet_set_rss_hash(b, dp_packet_get_rss_hash(like));
    }
    data = dp_packet_data(b);
    memcpy(data, p->data, headers);
    memcpy(data + headers, p->data + headers + acdc_tail_skip(p), p->keep_len);
    acdc_tail_cut(p, data);
    if (p->csum_partial) {
        struct tcp_header *tcp = (void *) (data + p->l4_ofs);

        /* Its field has the sum of the pseudo header. */
        tcp->tcp_csum = csum(tcp, p->tcp_hlen + p->keep_len);
    }
    return b;
}

void
acdc_hold_keep(struct acdc_netdev *an, struct acdc_hold **hold,
               struct acdc_port *port, struct dp_netdev_rxq *rxq,
               const struct acdc_pkt *p, long long int now)
{
    uint64_t leaves = p->verdict == ACDC_HOLD ? p->release : now * 1000;
    struct acdc_wheel_item item = { NULL, rxq, 0, ACDC_WHEEL_PROBE };
    struct acdc_wheel *wheel = acdc_hold_wheel(an, hold, now);

    if (wheel) {
        item.packet = acdc_hold_copy(p);
        /* Of a packet of many segments it is one. */
        item.len = item.packet ? dp_packet_size(item.packet) : 0;
    }
    if (!item.packet
        || !acdc_wheel_add(wheel, &item,
                           leaves + (uint64_t) p->keep_time
                                    * (ACDC_KEEP_US * 1000))) {
        dp_packet_delete(item.packet);
        acdc_tail_lost(port);
    }
}

/* Asks the engine for a probe.  True if it is to be sent; else it is freed or
 * waits again. */
static bool
acdc_hold_ask(struct acdc_wheel *wheel, const struct acdc_wheel_item *item,
              uint64_t now, bool lost)
{
    struct acdc_port *port = dpif_netdev_get_acdc_port(item->port);
    struct acdc_pkt p = { .verdict = ACDC_DROP };

    if (port && !lost) {
        acdc_netdev_show(&p, item->packet);
        acdc_process(port, ACDC_TAIL, &p, 1, now);
        lost = (p.verdict == ACDC_HOLD
                && !acdc_wheel_add(wheel, item, p.release));
    }
    if (port && lost) {
        acdc_tail_lost(port);
    }
    if (lost || p.verdict == ACDC_DROP) {
        dp_packet_delete(item->packet);
    }
    return p.verdict == ACDC_PASS;
}

bool
acdc_hold_release(struct acdc_netdev *an, struct acdc_hold *hold,
                  struct dp_packet_batch *batch, struct dp_netdev_rxq **rxq,
                  long long int now)
{
    unsigned int changes = changes_of(an);
    struct acdc_wheel *wheel = hold->wheel;
    struct acdc_wheel_item item;
    uint64_t until = now == LLONG_MAX ? 0 : (uint64_t) now * 1000;
    bool any = changes != hold->changes || !until;

    dp_packet_batch_init(batch);
    *rxq = NULL;
    while (!acdc_packet_batch_is_full(batch)) {
        bool early = !acdc_wheel_pop(wheel, until, *rxq, &item);

        if (early) {
            if ((!any && !acdc_wheel_is_full(wheel))
                || !acdc_wheel_pop(wheel, ACDC_WHEEL_ANY, *rxq, &item)) {
                break;
            }
        }
        if (item.kind == ACDC_WHEEL_PROBE) {
            if (!acdc_hold_ask(wheel, &item, until, early)) {
                continue;
            }
        } else if (early) {
            COVERAGE_INC(acdc_held_less);
        }
        dp_packet_batch_add(batch, item.packet);
        *rxq = item.port;
    }
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
