/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-background.h"

#ifdef __linux__

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
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
 * before, whether it was told to run elsewhere, and whether it is to be moved from
 * one to the next. */
static pid_t worker OVS_GUARDED_BY(mutex);
static cpu_set_t allowed OVS_GUARDED_BY(mutex);
static bool placed OVS_GUARDED_BY(mutex);
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
        placed = true;
        xpthread_cond_signal(&cond);
    } else if (CPU_COUNT(&unowned) && !CPU_EQUAL(&unowned, &allowed)) {
        placed = true;
        (void) sched_setaffinity(worker, sizeof unowned, &unowned);
    }
}

static void
disown(void *cpu_)
{
    size_t cpu = (uintptr_t) cpu_ - 1;

    ovs_mutex_lock(&mutex);
    ovs_assert(n_owners[cpu]);
    n_owners[cpu]--;
    ovs_mutex_unlock(&mutex);
}

/* Of owners, their processors plus 1. */
static ovsthread_key_t
owner_key(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;
    static ovsthread_key_t key;

    if (ovsthread_once_start(&once)) {
        ovsthread_key_create(&key, disown);
        ovsthread_once_done(&once);
    }
    return key;
}

void
acdc_background_avoid(void)
{
    uintptr_t cpu = 0;
    cpu_set_t own;

    if (!thread_is_pmd() || ovsthread_getspecific(owner_key())
        || sched_getaffinity(0, sizeof own, &own) || CPU_COUNT(&own) != 1) {
        return;
    }
    while (!CPU_ISSET(cpu, &own)) {
        cpu++;
    }
    ovsthread_setspecific(owner_key(), (void *) (cpu + 1));
    ovs_mutex_lock(&mutex);
    n_owners[cpu]++;
    place_worker();
    ovs_mutex_unlock(&mutex);
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
    if (moving) {
        cpu_set_t next;

        do {
            cpu = (cpu + 1) % CPU_SETSIZE;
        } while (!CPU_ISSET(cpu, &allowed));
        CPU_ZERO(&next);
        CPU_SET(cpu, &next);
        /* Fails if that processor has been switched off. */
        (void) sched_setaffinity(worker, sizeof next, &next);
    }
    ovs_mutex_unlock(&mutex);
    return cpu;
}

/* Before there is anything to move: a thread without it waits for its turn. */
static int
get_priority(void)
{
    const struct sched_param param = {
        .sched_priority = sched_get_priority_min(SCHED_FIFO),
    };

    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

static void *
mover_main(void *aux OVS_UNUSED)
{
    int error = get_priority();
    int cpu = 0;

    /* Nothing here is under RCU. */
    ovsrcu_quiesce_start();
    await_moving();
    if (error) {
        VLOG_WARN("no real-time priority (%s): PMD threads have all processors, "
                  "and packets may wait for some milliseconds while memory "
                  "grows", ovs_strerror(error));
    }
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
    ovs_assert(!worker);
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
    if (placed) {
        if (CPU_COUNT(&allowed) >= sysconf(_SC_NPROCESSORS_ONLN)) {
            /* Those that come later, too. */
            memset(&allowed, 0xff, sizeof allowed);
        }
        (void) sched_setaffinity(0, sizeof allowed, &allowed);
    }
    worker = 0;
    placed = moving = false;
    ovs_mutex_unlock(&mutex);
}

#else /* !__linux__ */

void
acdc_background_avoid(void)
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
