/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-background.h"

#ifdef __linux__

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "openvswitch/thread.h"
#include "openvswitch/vlog.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "util.h"

VLOG_DEFINE_THIS_MODULE(acdc_background);

/* A PMD thread waits as long.  The move takes some 20 us. */
#define MOVE_INTERVAL_NS (100 * 1000)

static struct ovs_mutex mutex = OVS_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

/* Threads that have each processor for their own. */
static uint32_t n_owners[CPU_SETSIZE] OVS_GUARDED_BY(mutex);

/* The thread between 'begin' and 'end', 0 if there is none, where it could run
 * before, and whether it is to be moved from one to the next. */
static pid_t worker OVS_GUARDED_BY(mutex);
static cpu_set_t allowed OVS_GUARDED_BY(mutex);
static bool moving OVS_GUARDED_BY(mutex);

/* Keeps the worker, if there is one, off processors that have an owner, or has it
 * moved. */
static void
place_worker(void)
    OVS_REQUIRES(mutex)
{
    cpu_set_t unowned = allowed;

    if (!worker) {
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (n_owners[cpu]) {
            CPU_CLR(cpu, &unowned);
        }
    }
    moving = !CPU_COUNT(&unowned) && CPU_COUNT(&allowed) > 1;
    if (moving) {
        xpthread_cond_signal(&cond);
    } else if (CPU_COUNT(&unowned)) {
        (void) sched_setaffinity(worker, sizeof unowned, &unowned);
    }
}

int
acdc_background_avoid(void)
{
    cpu_set_t own;

    if (sched_getaffinity(0, sizeof own, &own) || CPU_COUNT(&own) != 1) {
        return -1;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &own)) {
            ovs_mutex_lock(&mutex);
            n_owners[cpu]++;
            place_worker();
            ovs_mutex_unlock(&mutex);
            return cpu;
        }
    }
    return -1;
}

void
acdc_background_allow(int cpu)
{
    if (cpu >= 0) {
        ovs_mutex_lock(&mutex);
        n_owners[cpu]--;
        ovs_mutex_unlock(&mutex);
    }
}

/* Waits for a worker to be moved. */
static void
await_moving(void)
{
    ovs_mutex_lock(&mutex);
    while (!moving) {
        ovs_mutex_cond_wait(&cond, &mutex);
    }
    ovs_mutex_unlock(&mutex);
}

/* Returns the processor after 'cpu' that the worker has now, if there is one. */
static int
move_on(int cpu)
{
    ovs_mutex_lock(&mutex);
    for (int i = 0; moving && i < CPU_SETSIZE; i++) {
        cpu = (cpu + 1) % CPU_SETSIZE;
        if (CPU_ISSET(cpu, &allowed)) {
            cpu_set_t next;

            CPU_ZERO(&next);
            CPU_SET(cpu, &next);
            /* Fails if that processor has been switched off. */
            (void) sched_setaffinity(worker, sizeof next, &next);
            break;
        }
    }
    ovs_mutex_unlock(&mutex);
    return cpu;
}

static void *
mover_main(void *aux OVS_UNUSED)
{
    const struct sched_param param = {
        .sched_priority = sched_get_priority_min(SCHED_FIFO),
    };
    int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
    int cpu = 0;

    if (error) {
        VLOG_INFO("no real-time priority (%s): where PMD threads have all "
                  "processors packets may wait for some milliseconds while "
                  "memory grows", ovs_strerror(error));
    }
    /* Nothing here is under RCU. */
    ovsrcu_quiesce_start();
    for (;;) {
        await_moving();
        xnanosleep_no_quiesce(MOVE_INTERVAL_NS);
        cpu = move_on(cpu);
    }
    return NULL;
}

void
acdc_background_begin(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;

    if (ovsthread_once_start(&once)) {
        ovs_thread_create("acdc_mover", mover_main, NULL);
        ovsthread_once_done(&once);
    }

    ovs_mutex_lock(&mutex);
    if (!sched_getaffinity(0, sizeof allowed, &allowed)) {
        worker = syscall(SYS_gettid);
        place_worker();
    }
    ovs_mutex_unlock(&mutex);
}

void
acdc_background_end(void)
{
    ovs_mutex_lock(&mutex);
    if (worker) {
        (void) sched_setaffinity(0, sizeof allowed, &allowed);
    }
    worker = 0;
    moving = false;
    ovs_mutex_unlock(&mutex);
}

#else /* !__linux__ */

int
acdc_background_avoid(void)
{
    return -1;
}

void
acdc_background_allow(int cpu OVS_UNUSED)
{
}

void
acdc_background_begin(void)
{
}

void
acdc_background_end(void)
{
}

#endif
