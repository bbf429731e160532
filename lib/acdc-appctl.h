/* SPDX-License-Identifier: Apache-2.0 */

/* The commands acdc/show, acdc/dump-flows, acdc/stats and acdc/flush of
 * ovs-appctl, documented in acdc-unixctl.man.  They work on any datapath by
 * way of acdc-dpif.h.
 *
 * Commands that visit every flow do so a few milliseconds at a time, from
 * acdc_appctl_run(), so that the main loop goes on; the reply comes at the
 * end.
 *
 * Everything here is for the main thread of ovs-vswitchd. */

#ifndef ACDC_APPCTL_H
#define ACDC_APPCTL_H 1

void acdc_appctl_init(void);
void acdc_appctl_run(void);
void acdc_appctl_wait(void);

#endif /* acdc-appctl.h */
