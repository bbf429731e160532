/* SPDX-License-Identifier: Apache-2.0 */

/* Packets of guests that a thread of the userspace datapath holds until their time
 * to leave: those that were received, and have been through the engine, and not yet
 * been looked up.  At most ACDC_WHEEL_PACKETS and ACDC_WHEEL_BYTES: with more the
 * first ones leave early, so that none passes another one of its connection.
 *
 * Thread-safety: used by the thread that polls the queues.  The configuration may
 * change meanwhile, see acdc_netdev_begin_change(). */

#ifndef ACDC_HOLD_H
#define ACDC_HOLD_H 1

#include <stdbool.h>

struct acdc_hold;
struct acdc_netdev;
struct acdc_pkt;
struct acdc_port;
struct dp_netdev_rxq;
struct dp_packet_batch;

/* Holds 'p', received from 'rxq', until 'p->release'; '*hold' null makes one.
 * False: it is to go on. */
bool acdc_hold_add(struct acdc_netdev *, struct acdc_hold **hold,
                   struct dp_netdev_rxq *rxq, const struct acdc_pkt *p,
                   long long int now);
/* Keeps the last segment of 'p', received from 'rxq', to ask the engine for it
 * (acdc_pkt.keep_len). */
void acdc_hold_keep(struct acdc_netdev *, struct acdc_hold **hold,
                    struct acdc_port *, struct dp_netdev_rxq *rxq,
                    const struct acdc_pkt *p, long long int now);
/* To be asked after the engine: whether what is held must leave before what was not
 * to be held.  Until acdc_hold_release() finds nothing more acdc_hold_add() is
 * false. */
bool acdc_hold_has_changed(struct acdc_netdev *, struct acdc_hold *);
/* Sets 'batch' to packets whose time has come, all of one '*rxq'.  False if there
 * are none.  To be called often, and until it returns false: with 'now' LLONG_MAX
 * before queues are no longer polled, as whatever is held is then due. */
bool acdc_hold_release(struct acdc_netdev *, struct acdc_hold *,
                       struct dp_packet_batch *batch,
                       struct dp_netdev_rxq **rxq, long long int now);
/* Null counts as empty. */
bool acdc_hold_is_empty(const struct acdc_hold *);
/* Frees what is left, too.  Null is all right. */
void acdc_hold_destroy(struct acdc_hold *);

/* Has acdc_hold_wait() wake the main thread for what it holds. */
void acdc_hold_note(struct acdc_netdev *, const struct acdc_hold *);
void acdc_hold_wait(struct acdc_netdev *);

#endif /* acdc-hold.h */
