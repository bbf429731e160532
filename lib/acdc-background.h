/* SPDX-License-Identifier: Apache-2.0 */

/* Work that PMD threads are not to wait for.
 *
 * The kernel fills a huge page with zeros at once: in 0.2 ms, in a virtual machine
 * whose host has yet to find the memory in 5.  The thread that asked for it, where it
 * has a PMD thread's processor, gives that back at the scheduler's next tick, up to
 * 10 ms later, whatever the priorities of both.  So it is kept off processors that
 * have a PMD thread, and where all have one, does not stay on any: another thread
 * moves it to the next one all the time, which the kernel does amid a page.
 *
 * Thread-safe.  Does nothing on other systems than Linux. */

#ifndef ACDC_BACKGROUND_H
#define ACDC_BACKGROUND_H 1

/* Keeps such work off the calling thread's processor, for as long as there is that
 * thread, if it is a PMD thread and may run on that one alone.  It may be called
 * again. */
void acdc_background_avoid(void);

/* Begins and ends such work of the calling thread, which then may run where it
 * could before.  One thread at a time, and not within each other. */
void acdc_background_begin(void);
void acdc_background_end(void);

#endif /* acdc-background.h */
