/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The only header of the engine that knows where it runs: integers, errors,
 * byte order, atomics, locks, memory.  Kernel style in the first half, C11 in
 * the second.  The functions declared at the end are what a host must define
 * (lib/acdc-host.c in ovs-vswitchd, datapath/linux/ in the kernel,
 * tests/unit/ for the tests). */

#ifndef ACDC_PLATFORM_H
#define ACDC_PLATFORM_H 1

#ifdef __KERNEL__

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/cache.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/prefetch.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>

#include "acdc-trace.h"
#include "compat.h"

/* A tracepoint of a connection, of the same name in tracefs (acdc/acdc_NAME) and
 * among the USDT probes of ovs-vswitchd (acdc:acdc_NAME).  ARGS: tenant's name,
 * flow, addresses and ports as in struct acdc_flow, and two numbers, see
 * ACDC_TRACE_FLOW(). */
#define ACDC_TRACE(NAME, ...) trace_acdc_##NAME(__VA_ARGS__)

#define acdc_likely(X) likely(X)
#define acdc_unlikely(X) unlikely(X)
#define ACDC_ALWAYS_INLINE __always_inline
#define ACDC_NOINLINE noinline
/* Of a large variable that is written before it is read: else kernels that are built
 * so (CONFIG_INIT_STACK_ALL_ZERO) fill it with zeros at each packet. */
#if __has_attribute(uninitialized)
#define ACDC_UNINITIALIZED __attribute__((uninitialized))
#else
#define ACDC_UNINITIALIZED
#endif
#define ACDC_PACKED __packed
typedef u64 acdc_u64_align4 __aligned(4);
#define ACDC_BUILD_ASSERT(X) BUILD_BUG_ON(!(X))
#define ACDC_STATIC_ASSERT(X) _Static_assert(X, #X)
#define ACDC_PREFETCH(P) prefetch(P)
#define ACDC_PREFETCH_WRITE(P) prefetchw(P)
#define ACDC_CACHE_LINE 64

/* Plain integers that several threads read and write.  Relaxed unless the
 * name says otherwise. */
typedef u32 acdc_a32;
typedef u64 acdc_a64;
#define acdc_a32_read(P) READ_ONCE(*(P))
#define acdc_a32_set(P, V) WRITE_ONCE(*(P), V)
/* Of what others write under a lock, to guess what will be needed. */
#define acdc_hint(P) data_race(READ_ONCE(*(P)))
#define acdc_a64_read(P) READ_ONCE(*(P))
/* Counters live in per-CPU slots and are only added to with bottom halves
 * off, so no two writers meet and a plain addition will do: one instruction. */
#define acdc_a64_add(P, V) data_race(*(P) += (V))
/* Whether acdc_process() is called with one packet, never more.  What only batches
 * need is left out then.  The packet adds to the counters itself, and not
 * acdc_process() at its end: an addition is one instruction. */
#define ACDC_ONE_A_CALL 1

/* Pointers published to lock-free readers. */
#define acdc_ptr_load(P) smp_load_acquire(P)
/* Not to be followed: whether there is one.  Part of another instruction. */
#define acdc_ptr_peek(P) data_race(*(P))
#define acdc_ptr_store(P, V) smp_store_release(P, V)

/* Such a pointer to a flow, of which there are three for each flow.  In user
 * space it is a number. */
struct acdc_flow;
typedef struct acdc_flow *acdc_link;
#define acdc_link_flow(L) (L)
#define acdc_link_of(F) (F)
static inline bool acdc_arena_reserve(void) { return true; }

/* For what runs outside of acdc_process(). */
static inline void acdc_read_lock(void) { rcu_read_lock(); }
static inline void acdc_read_unlock(void) { rcu_read_unlock(); }

/* Held for a few dozen instructions, never across a call to the host.
 * Bottom halves are off while a packet is processed, and here while it is held. */
typedef spinlock_t acdc_lock_t;
static inline void acdc_lock_init(acdc_lock_t *l) { spin_lock_init(l); }
static inline void acdc_lock(acdc_lock_t *l) { spin_lock_bh(l); }
static inline void acdc_unlock(acdc_lock_t *l) { spin_unlock_bh(l); }
/* See below; here nobody knows.  Only within acdc_process(). */
static inline u8 acdc_lock_as(acdc_lock_t *l, u8 me)
{
    spin_lock(l);
    return 0;
}
static inline void acdc_unlock_as(acdc_lock_t *l, u8 me) { spin_unlock(l); }
static inline u8 acdc_lock_holder(const acdc_lock_t *l) { return 0; }
/* Without locks, where one may sleep: lets others have what this thread locks
 * again and again. */
static inline void acdc_yield(void) { cond_resched(); }

static inline u32 acdc_slot(void) { return raw_smp_processor_id(); }
#define ACDC_N_SLOTS nr_cpu_ids

/* Counts that several threads change. */
typedef atomic_t acdc_count_t;
#define acdc_count_add(P, V) atomic_add(V, P)
#define acdc_count_read(P) ((u32) atomic_read(P))
/* Takes one off, unless it is 0: then false. */
#define acdc_count_take(P) ((bool) atomic_add_unless(P, -1, 0))

static inline u16 acdc_get16(const void *p) { return get_unaligned_be16(p); }
static inline u32 acdc_get32(const void *p) { return get_unaligned_be32(p); }
static inline void acdc_put16(void *p, u16 v) { put_unaligned_be16(v, p); }
static inline void acdc_put32(void *p, u32 v) { put_unaligned_be32(v, p); }
#define ACDC_BE16(V) ((__force u16) cpu_to_be16(V))
#define ACDC_BE32(V) ((__force u32) cpu_to_be32(V))
static inline u16 acdc_load16(const void *p)
{
    return get_unaligned((const u16 *) p);
}
static inline u32 acdc_load32(const void *p)
{
    return get_unaligned((const u32 *) p);
}
static inline u64 acdc_load64(const void *p)
{
    return get_unaligned((const u64 *) p);
}
static inline void acdc_store16(void *p, u16 v)
{
    put_unaligned(v, (u16 *) p);
}

/* The number of the lowest bit set; there is one. */
static inline unsigned int acdc_lowest_bit(u64 v) { return __ffs64(v); }

#include <linux/math64.h>
static inline u64 acdc_div64(u64 a, u64 b) { return div64_u64(a, b); }

#else /* !__KERNEL__ */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined __SANITIZE_ADDRESS__
#define ACDC_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define ACDC_ASAN 1
#endif
#endif

/* A no-operation, to which a debugger or bpftrace attaches. */
#ifdef ACDC_USDT
#include <sys/sdt.h>
#define ACDC_TRACE(NAME, ...) DTRACE_PROBE6(acdc, acdc_##NAME, __VA_ARGS__)
#else
#define ACDC_TRACE(NAME, ...) ((void) 0)
#endif

#define acdc_likely(X) __builtin_expect(!!(X), 1)
#define acdc_unlikely(X) __builtin_expect(!!(X), 0)
/* For what is worth a copy where it is needed most. */
#define ACDC_ALWAYS_INLINE inline __attribute__((always_inline))
/* For what few packets need: in line it takes registers from all others. */
#define ACDC_NOINLINE __attribute__((noinline))
#define ACDC_UNINITIALIZED
#define ACDC_PACKED __attribute__((packed))
typedef uint64_t acdc_u64_align4 __attribute__((aligned(4)));
#define ACDC_BUILD_ASSERT(X) _Static_assert(X, #X)
#define ACDC_STATIC_ASSERT(X) _Static_assert(X, #X)
/* Into the second-level cache.  Processors wait for fewer lines at a time that
 * the first one is to get than a batch has. */
#define ACDC_PREFETCH(P) __builtin_prefetch(P, 0, 2)
/* To be written: other processors lose their copies. */
#ifdef __x86_64__
/* gcc makes this instruction only for processors that it is told have it; to
 * others it is none. */
#define ACDC_PREFETCH_WRITE(P) \
    __asm__ volatile ("prefetchw %0" : : "m" (*(const char *) (P)))
#else
#define ACDC_PREFETCH_WRITE(P) __builtin_prefetch(P, 1, 2)
#endif
#define ACDC_CACHE_LINE 64

typedef uint32_t acdc_a32;
typedef uint64_t acdc_a64;
#define acdc_a32_read(P) __atomic_load_n(P, __ATOMIC_RELAXED)
#define acdc_a32_set(P, V) __atomic_store_n(P, V, __ATOMIC_RELAXED)
#ifdef __SANITIZE_THREAD__
#define acdc_hint(P) 0u
#else
#define acdc_hint(P) __atomic_load_n(P, __ATOMIC_RELAXED)
#endif
#define acdc_a64_read(P) __atomic_load_n(P, __ATOMIC_RELAXED)
#define acdc_a64_add(P, V) \
    ((void) __atomic_fetch_add(P, V, __ATOMIC_RELAXED))
/* A call has many packets, and an addition waits for those before. */
#define ACDC_ONE_A_CALL 0

#define acdc_ptr_load(P) __atomic_load_n(P, __ATOMIC_ACQUIRE)
#define acdc_ptr_peek(P) __atomic_load_n(P, __ATOMIC_RELAXED)
#define acdc_ptr_store(P, V) __atomic_store_n(P, V, __ATOMIC_RELEASE)

/* Such a pointer to a flow.  All flows lie in one range of addresses, so that
 * 32 bits are enough, but where each is to be on its own, for
 * AddressSanitizer. */
struct acdc_flow;
#if UINTPTR_MAX > UINT32_MAX && !defined ACDC_ASAN
#define ACDC_ARENA 1
#define ACDC_ARENA_SIZE ((size_t) 4 << 30)
#define ACDC_ARENA_ALIGN ((size_t) 2 << 20)
/* Aligned so.  Its first ACDC_ARENA_ALIGN bytes are zeros, which nobody may
 * write, see acdc_nil(). */
extern char *acdc_arena;                /* In lib/acdc-arena.c. */
/* Reserves the addresses, at the first call; there is no memory yet.  Returns
 * false if there are not enough.  acdc_table_ensure() calls it, before there can
 * be a link. */
bool acdc_arena_reserve(void);
typedef uint32_t acdc_link;             /* In units of 8 bytes; 0: NULL. */

/* Flows have two parts.  The arena is in groups, each of the first parts of some
 * flows, which begin where cache lines do, and behind them the others, which
 * follow each other without gaps.  In a group both are near each other: with
 * all first parts in one place and all others in another, a packet took a tenth
 * longer with a million flows. */
#define ACDC_GROUP ((size_t) 2048)
#define ACDC_FLOW ((size_t) 64)
#define ACDC_GROUP_FLOWS (ACDC_GROUP / (2 * ACDC_FLOW))     /* Of two parts, as
                                                             * large. */
#define ACDC_GROUP_IN (ACDC_GROUP_FLOWS * ACDC_FLOW)
static inline void *acdc_arena_in(const void *flow)
{
    return (void *) ((uintptr_t) flow + ACDC_GROUP_IN);
}
/* Those of IPv6 have a third part, behind the arena, and behind all of these is what
 * some flows use, struct acdc_flow_more: the kernel fills it where it is written
 * first. */
#define ACDC_FLOW6 ((size_t) 32)
#define ACDC_MORE ((size_t) 64)
/* Bytes of PART for the flows in SIZE bytes of the arena, whole groups. */
#define ACDC_PARTS(SIZE, PART) ((SIZE) / ACDC_GROUP * (ACDC_GROUP_FLOWS * (PART)))
#define ACDC_ARENA_END6 (ACDC_ARENA_SIZE + ACDC_PARTS(ACDC_ARENA_SIZE, ACDC_FLOW6))
#define ACDC_ARENA_END (ACDC_ARENA_END6 + ACDC_PARTS(ACDC_ARENA_SIZE, ACDC_MORE))
static inline size_t acdc_arena_part(const void *flow, size_t part)
{
    size_t ofs = (size_t) ((const char *) flow - acdc_arena);

    return ACDC_PARTS(ofs, part) + (ofs & (ACDC_GROUP - 1)) / ACDC_FLOW * part;
}
static inline void *acdc_arena6(const void *flow)
{
    return acdc_arena + ACDC_ARENA_SIZE + acdc_arena_part(flow, ACDC_FLOW6);
}
static inline void *acdc_arena_more(const void *flow)
{
    return acdc_arena + ACDC_ARENA_END6 + acdc_arena_part(flow, ACDC_MORE);
}
#define acdc_link_flow(L) \
    ((struct acdc_flow *) (void *) (acdc_arena + (uint64_t) (L) * 8))
#define acdc_link_of(F) \
    ((acdc_link) ((uint64_t) ((const char *) (F) - acdc_arena) / 8))
#else
typedef struct acdc_flow *acdc_link;
#define acdc_link_flow(L) (L)
#define acdc_link_of(F) (F)
static inline bool acdc_arena_reserve(void) { return true; }
#endif

/* A thread of ovs-vswitchd is in a read section until it quiesces. */
static inline void acdc_read_lock(void) { }
static inline void acdc_read_unlock(void) { }

/* A spinlock of one byte: the flow table has one a connection, and PMD threads
 * must never sleep.  Its lowest bit says whether it is held, the others by whom,
 * or by whom last: an even number, 0 for nobody yet and for who does not say. */
typedef uint8_t acdc_lock_t;
enum { ACDC_LOCKED = 1 };
static inline void acdc_lock_init(acdc_lock_t *l) { *l = 0; }
void acdc_lock_slow(acdc_lock_t *, uint8_t me);     /* lib/acdc-platform-user.c */
/* Returns who held it last. */
static inline uint8_t acdc_lock_as(acdc_lock_t *l, uint8_t me)
{
    uint8_t last = __atomic_exchange_n(l, me | ACDC_LOCKED, __ATOMIC_ACQUIRE);

    if (acdc_unlikely(last & ACDC_LOCKED)) {
        acdc_lock_slow(l, me);
        last ^= ACDC_LOCKED;
    }
    return last;
}
static inline void acdc_unlock_as(acdc_lock_t *l, uint8_t me)
{
    __atomic_store_n(l, me, __ATOMIC_RELEASE);
}
static inline void acdc_lock(acdc_lock_t *l) { acdc_lock_as(l, 0); }
static inline void acdc_unlock(acdc_lock_t *l) { acdc_unlock_as(l, 0); }
static inline uint8_t acdc_lock_holder(const acdc_lock_t *l)
{
    return __atomic_load_n(l, __ATOMIC_RELAXED) & (uint8_t) ~ACDC_LOCKED;
}
/* Lets others have a lock that this thread takes again and again.  These are not
 * fair: who had it last has its cache line. */
void acdc_yield(void);                  /* In lib/acdc-platform-user.c. */

/* A small number that differs between threads that run at once, as far as
 * there are enough: selects the slot of a counter. */
uint32_t acdc_slot(void);               /* In lib/acdc-platform-user.c. */
#define ACDC_N_SLOTS 16u

/* Counts that several threads change. */
typedef uint32_t acdc_count_t;
#define acdc_count_add(P, V) \
    ((void) __atomic_fetch_add(P, (uint32_t) (V), __ATOMIC_RELAXED))
#define acdc_count_read(P) __atomic_load_n(P, __ATOMIC_RELAXED)
static inline bool
acdc_count_take(acdc_count_t *count)
{
    uint32_t n = acdc_count_read(count);

    while (n && !__atomic_compare_exchange_n(count, &n, n - 1, true, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED)) {
        continue;
    }
    return n;
}

/* From and to the byte order of packets. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ACDC_BE16(V) __builtin_bswap16(V)
#define ACDC_BE32(V) __builtin_bswap32(V)
#else
#define ACDC_BE16(V) (V)
#define ACDC_BE32(V) (V)
#endif
/* Words as they are in memory. */
static inline uint16_t acdc_load16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t acdc_load32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t acdc_load64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void acdc_store16(void *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}
static inline uint16_t acdc_get16(const void *p)
{
    return ACDC_BE16(acdc_load16(p));
}
static inline uint32_t acdc_get32(const void *p)
{
    return ACDC_BE32(acdc_load32(p));
}
static inline void acdc_put16(void *p, uint16_t v)
{
    acdc_store16(p, ACDC_BE16(v));
}
static inline void acdc_put32(void *p, uint32_t v)
{
    v = ACDC_BE32(v);
    memcpy(p, &v, sizeof v);
}

static inline unsigned int acdc_lowest_bit(uint64_t v)
{
    return (unsigned int) __builtin_ctzll(v);
}

static inline uint64_t acdc_div64(uint64_t a, uint64_t b) { return a / b; }

#endif /* !__KERNEL__ */

/* Bytes between what different threads write, or one writes and others read:
 * processors hand each other whole cache lines, and some fetch them in pairs. */
#define ACDC_APART 128

static inline struct acdc_flow *acdc_link_load(const acdc_link *l)
{
    acdc_link link = acdc_ptr_load(l);

    return link ? acdc_link_flow(link) : NULL;
}
static inline void acdc_link_store(acdc_link *l, struct acdc_flow *f)
{
    acdc_ptr_store(l, f ? acdc_link_of(f) : (acdc_link) 0);
}

/* What the host provides; for packets see acdc.h. -------------------------- */

/* Called after all readers that may still hold the object are done: the
 * object starts with this. */
struct acdc_rcu {
#ifdef __KERNEL__
    struct rcu_head rcu;
#else
    struct acdc_rcu *next;      /* For the host's use. */
#endif
    void (*free)(struct acdc_rcu *);
};

/* Calls 'r->free(r)' once every thread that might be inside the engine now
 * has left it.  Any context.  Never fails. */
void acdc_host_defer(struct acdc_rcu *r);

/* Zeroed memory, aligned to a cache line; NULL if there is none.  Called by the
 * configuration thread, which may sleep.  Small objects and the bucket array
 * alike. */
void *acdc_host_alloc(size_t size);
void acdc_host_free(void *p);

/* Zeroed memory of a flow, which is of IPv6 or not; NULL if there is none.  Must
 * not sleep.  'size' bytes with all parts in a row, or where there is an arena each
 * in its place there. */
struct acdc_flow *acdc_host_alloc_flow(size_t size, bool v6);
void acdc_host_free_flow(struct acdc_flow *);

/* A random 32-bit seed for hashes, two per engine. */
uint32_t acdc_host_seed(void);

#endif /* acdc-platform.h */
