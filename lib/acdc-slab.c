/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-slab.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __linux__
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "acdc-background.h"
#include "acdc-platform.h"
#include "coverage.h"
#include "openvswitch/list.h"
#include "openvswitch/thread.h"
#include "ovs-atomic.h"
#include "ovs-rcu.h"
#include "ovs-thread.h"
#include "util.h"

COVERAGE_DEFINE(acdc_slab_ready);       /* Slabs that were there when needed. */
COVERAGE_DEFINE(acdc_slab_late);        /* Small ones instead ... */
COVERAGE_DEFINE(acdc_slab_mapped);      /* ... of which not even these were. */

/* The thread that touches memory. */

/* Guarded by 'memory_mutex', but for 'done'. */
struct acdc_slab_order {
    struct ovs_list node;       /* In 'orders', until it is dealt with. */
    size_t size;
    int numa_node;              /* -1: any. */
    void *p;
    bool in_hand;
    bool cancelled;
    atomic_bool done;           /* 'p' is valid. */
};

static struct ovs_mutex memory_mutex = OVS_MUTEX_INITIALIZER;
static pthread_cond_t memory_cond = PTHREAD_COND_INITIALIZER;
static struct ovs_list orders = OVS_LIST_INITIALIZER(&orders);
static bool spares_wanted;

/* An object whose memory has been touched.  Gets spare slabs meanwhile. */
static void *alloc_touched(size_t, int numa_node);
/* Gets the spare slabs that are wanted, of ... */
static void get_spares(void);
/* ... these, of flows. */
static void init_classes(void);

/* The caller's, -1 if not known. */
static int
current_numa_node(void)
{
#ifdef SYS_getcpu
    unsigned int node;

    if (!syscall(SYS_getcpu, NULL, &node, NULL)) {
        return node;
    }
#endif
    return -1;
}

static void
deal_with_order(struct acdc_slab_order *order)
    OVS_REQUIRES(memory_mutex)
{
    order->in_hand = true;
    ovs_list_remove(&order->node);
    ovs_mutex_unlock(&memory_mutex);
    order->p = alloc_touched(order->size, order->numa_node);
    ovs_mutex_lock(&memory_mutex);
    order->in_hand = false;
    if (!order->cancelled) {
        atomic_store_explicit(&order->done, true, memory_order_release);
        return;
    }
    ovs_mutex_unlock(&memory_mutex);
    acdc_slab_free(order->p);
    free(order);
    ovs_mutex_lock(&memory_mutex);
}

static void
get_spares_if_wanted(void)
    OVS_REQUIRES(memory_mutex)
{
    if (spares_wanted) {
        spares_wanted = false;
        ovs_mutex_unlock(&memory_mutex);
        get_spares();
        ovs_mutex_lock(&memory_mutex);
    }
}

static void *
memory_main(void *aux OVS_UNUSED)
{
    /* Nothing here is under RCU. */
    ovsrcu_quiesce_start();
    for (;;) {
        ovs_mutex_lock(&memory_mutex);
        while (!spares_wanted && ovs_list_is_empty(&orders)) {
            ovs_mutex_cond_wait(&memory_cond, &memory_mutex);
        }
        ovs_mutex_unlock(&memory_mutex);

        acdc_background_begin();
        ovs_mutex_lock(&memory_mutex);
        get_spares_if_wanted();
        if (!ovs_list_is_empty(&orders)) {
            deal_with_order(CONTAINER_OF(ovs_list_front(&orders),
                                         struct acdc_slab_order, node));
        }
        ovs_mutex_unlock(&memory_mutex);
        acdc_background_end();
    }
    return NULL;
}

void
acdc_slab_start(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;

    if (ovsthread_once_start(&once)) {
        init_classes();
        /* The first small ones, which the arena must be there for. */
        spares_wanted = acdc_arena_reserve();
        ovs_thread_create("acdc_memory", memory_main, NULL);
        ovsthread_once_done(&once);
    }
}

struct acdc_slab_order *
acdc_slab_order(size_t size)
{
    struct acdc_slab_order *order = xzalloc(sizeof *order);

    order->size = size;
    order->numa_node = current_numa_node();
    atomic_init(&order->done, false);
    ovs_mutex_lock(&memory_mutex);
    ovs_list_push_back(&orders, &order->node);
    xpthread_cond_signal(&memory_cond);
    ovs_mutex_unlock(&memory_mutex);
    return order;
}

bool
acdc_slab_take(struct acdc_slab_order *order, void **pp)
{
    bool done;

    atomic_read_explicit(&order->done, &done, memory_order_acquire);
    if (done) {
        *pp = order->p;
        free(order);
    }
    return done;
}

void
acdc_slab_cancel(struct acdc_slab_order *order)
{
    bool done;

    if (!order) {
        return;
    }
    ovs_mutex_lock(&memory_mutex);
    atomic_read_explicit(&order->done, &done, memory_order_acquire);
    if (order->in_hand) {
        order->cancelled = true;
        order = NULL;
    } else if (!done) {
        ovs_list_remove(&order->node);
    }
    ovs_mutex_unlock(&memory_mutex);
    if (order) {
        acdc_slab_free(order->p);
        free(order);
    }
}

#ifdef ACDC_ASAN

/* AddressSanitizer sees what is beyond an object only if nothing else is
 * there. */
void *
acdc_slab_alloc(size_t size)
{
    void *p;

    return (posix_memalign(&p, CACHE_LINE_SIZE, size)
            ? NULL : memset(p, 0, size));
}

void
acdc_slab_free(void *p)
{
    free(p);
}

static void *
alloc_touched(size_t size, int numa_node OVS_UNUSED)
{
    return acdc_slab_alloc(size);
}

#else

/* As large as a huge page, and aligned like one. */
#define SLAB_SIZE ((size_t) 2 << 20)

/* As long as the kernel takes for one. */
#define REST_NS (200 * 1000)

/* Has the memory, which nobody touched so far, be of that node if it has any
 * left. */
static void
prefer_numa_node(void *p OVS_UNUSED, size_t size OVS_UNUSED, int node)
{
#ifdef SYS_mbind
    enum { BITS = 8 * sizeof(unsigned long) };
    unsigned long nodes[1024 / BITS] = { 0 };

    if (node >= 0 && node < 1024) {
        nodes[node / BITS] = 1ul << node % BITS;
        /* Where this fails memory is somewhere else. */
        (void) syscall(SYS_mbind, p, size, MPOL_PREFERRED, nodes,
                       (unsigned long) 1024, 0ul);
    }
#endif
}

/* Memory that will be met in no order is in huge pages where the kernel has
 * them.  With pages of 4 kB most packets of a million flows would wait for the
 * page's address as well. */
static void
prefer_huge_pages(void *p OVS_UNUSED, size_t size OVS_UNUSED)
{
#ifdef MADV_HUGEPAGE
    if (size >= SLAB_SIZE) {
        madvise(p, size, MADV_HUGEPAGE);
    }
#endif
}

/* Touches from 'begin' to 'end'.  By writing: what is read first becomes many
 * small pages once it is written. */
static void
touch(char *p, size_t begin, size_t end)
{
    for (size_t ofs = begin; ofs < end; ofs += get_page_size()) {
        ((volatile char *) p)[ofs] = 0;
    }
}

/* Between SLAB_SIZE bytes and the next: where PMD threads have all processors, one
 * of them waits while this thread runs. */
static void
rest(void)
{
    acdc_background_end();
    xnanosleep_no_quiesce(REST_NS);
    acdc_background_begin();
}

/* In the ACDC_APART bytes before each object.  Objects are as far from each other,
 * and from what else malloc() has: threads that only read one would wait for
 * those that write another. */
struct block {
    size_t mapped;              /* Bytes; 0: of malloc(). */
};

/* Returns 'size' bytes that begin with a struct block, zeroed, or NULL. */
static struct block *
block_map(size_t size, int numa_node)
{
    size_t excess, mapped;
    struct block *block;
    char *base;

    if (size > SIZE_MAX / 2) {
        return NULL;
    }
    size = ROUND_UP(size, get_page_size());
    mapped = size + SLAB_SIZE;
    base = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return NULL;
    }

    /* See arena_prepare(): in what is cut off below. */
    base[mapped - 1] = 0;

    /* Cuts to what is aligned. */
    excess = -(uintptr_t) base & (SLAB_SIZE - 1);
    if (excess) {
        munmap(base, excess);
    }
    munmap(base + excess + size, mapped - excess - size);
    prefer_huge_pages(base + excess, size);
    prefer_numa_node(base + excess, size, numa_node);

    block = (struct block *) (void *) (base + excess);
    block->mapped = size;
    return block;
}

static struct block *
block_alloc(size_t size, int numa_node)
{
    void *p;

    if (size > SIZE_MAX - 2 * ACDC_APART) {
        return NULL;
    }
    size = ROUND_UP(size + ACDC_APART, ACDC_APART);
    if (size >= SLAB_SIZE) {
        return block_map(size, numa_node);
    }
    return (posix_memalign(&p, ACDC_APART, size)
            ? NULL : memset(p, 0, size));
}

static void *
block_object(struct block *block)
{
    return block ? (char *) block + ACDC_APART : NULL;
}

static void *
alloc_touched(size_t size, int numa_node)
{
    struct block *block = block_alloc(size, numa_node);

    for (size_t ofs = 0; block && ofs < block->mapped; ofs += SLAB_SIZE) {
        if (ofs) {
            rest();
        }
        touch((char *) block, MAX(ofs, get_page_size()),
              MIN(ofs + SLAB_SIZE, block->mapped));
        ovs_mutex_lock(&memory_mutex);
        get_spares_if_wanted();
        ovs_mutex_unlock(&memory_mutex);
    }
    return block_object(block);
}

void *
acdc_slab_alloc(size_t size)
{
    return block_object(block_alloc(size, -1));
}

void
acdc_slab_free(void *p)
{
    struct block *block;

    if (!p) {
        return;
    }
    block = (struct block *) (void *) ((char *) p - ACDC_APART);
    if (block->mapped) {
        munmap(block, block->mapped);
    } else {
        free(block);
    }
}

#endif /* !ACDC_ASAN */

/* Flows. */

#ifndef ACDC_ARENA

/* AddressSanitizer sees the use of a freed flow only if each is on its own.  And
 * where addresses have 32 bits there is no room for an arena. */
void *
acdc_slab_alloc_flow(size_t size, bool v6 OVS_UNUSED)
{
    return calloc(1, size);
}

void
acdc_slab_free_flow(void *p)
{
    free(p);
}

static void
get_spares(void)
{
}

static void
init_classes(void)
{
}

#else

/* Slabs are aligned to SLAB_SIZE, so that a flow's address gives its slab.  Most
 * are as large, a huge page.  Where none is ready whoever needs one has a small
 * one of small pages, which the kernel has at once.  But mprotect() may wait while
 * the kernel fills a huge page for the memory thread, so for some of these it has
 * been called. */
#define SLAB_SIZE_SMALL ((size_t) 256 << 10)

struct slab {
    struct slab_class *class;
    size_t mapped;              /* Bytes, without the third parts of flows. */

    /* Guarded by the mutex of 'class'. */
    struct ovs_list node;       /* In 'class->partial' unless full. */
    void *free;                 /* Flows freed, linked by their first words. */
    char *next;                 /* The first flow never used. */
    size_t n_used;
};

/* The first group of flows has the header instead. */
BUILD_ASSERT_DECL(sizeof(struct slab) <= ACDC_GROUP);

/* Flows of IPv4, or of IPv6. */
struct slab_class {
    struct ovs_mutex mutex;
    bool v6;
    struct ovs_list partial;    /* Slabs with room. */
    struct ovs_list spares;     /* For when there is none, touched. */
    struct ovs_list smalls;     /* For when there is no spare, not touched. */
    size_t n_smalls;
    size_t n_spares;
    size_t n_wanted;            /* Spares there should be, from 1 to
                                 * SPARES_MAX. */
    bool wanted;                /* The memory thread was told. */
    int numa_node;              /* Of who told it. */
};

/* Some 140,000 flows. */
#define SPARES_MAX 8

/* Some 16,000 flows, for as long as the memory thread takes for a spare. */
#define SMALLS 8

static struct slab_class classes[2];

static void
init_classes(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
        ovs_mutex_init(&classes[i].mutex);
        classes[i].v6 = i;
        ovs_list_init(&classes[i].partial);
        ovs_list_init(&classes[i].spares);
        ovs_list_init(&classes[i].smalls);
        classes[i].n_wanted = 1;
    }
}

/* Places for slabs in the arena, SLAB_SIZE bytes of it each, which nothing may
 * access until there is one. */
#define N_PLACES (ACDC_ARENA_SIZE / SLAB_SIZE)

static struct ovs_mutex places_mutex = OVS_MUTEX_INITIALIZER;
static uint16_t free_places[N_PLACES] OVS_GUARDED_BY(places_mutex);
static size_t n_free_places OVS_GUARDED_BY(places_mutex);
/* Once or more, and the first one, which is not for slabs. */
static size_t n_places_used OVS_GUARDED_BY(places_mutex) = 1;
BUILD_ASSERT_DECL(N_PLACES <= UINT16_MAX + 1);
BUILD_ASSERT_DECL(ACDC_ARENA_ALIGN == SLAB_SIZE);

static char *
place_get(void)
{
    size_t place = N_PLACES;

    ovs_mutex_lock(&places_mutex);
    if (n_free_places) {
        place = free_places[--n_free_places];
    } else if (n_places_used < N_PLACES) {
        place = n_places_used++;
    }
    ovs_mutex_unlock(&places_mutex);
    return place < N_PLACES ? acdc_arena + place * SLAB_SIZE : NULL;
}

static void
place_put(char *p)
{
    ovs_mutex_lock(&places_mutex);
    free_places[n_free_places++] = (p - acdc_arena) / SLAB_SIZE;
    ovs_mutex_unlock(&places_mutex);
}

/* Bytes of the third parts of flows of IPv6 in 'size' bytes of a place. */
static size_t
size6(size_t size)
{
    return ROUND_UP(ACDC_SIZE6(size), get_page_size());
}

/* Gives the memory of a place back. */
static void
place_clear(char *p, size_t mapped, bool v6)
{
    if (acdc_arena_clear(p, mapped)
        && (!v6 || acdc_arena_clear(acdc_arena6(p), size6(mapped)))) {
        place_put(p);
    }
}

static bool
make_writable(void *p, size_t size, int numa_node)
{
    /* Before there is memory: after mlockall() there is all of it at once. */
    prefer_huge_pages(p, size);
    prefer_numa_node(p, size, numa_node);
    return !mprotect(p, size, PROT_READ | PROT_WRITE);
}

/* Has slab->next where there may be a flow. */
static void
slab_skip_header(struct slab *slab)
{
    while (slab->next - (char *) slab < (ptrdiff_t) ACDC_GROUP) {
        slab->next = acdc_arena_next(slab->next);
    }
}

/* Returns a slab with 'size' bytes, zeroed, or NULL. */
static struct slab *
slab_map(struct slab_class *class, size_t size, int numa_node)
{
    char *p = place_get();
    struct slab *slab;

    if (!p) {
        return NULL;
    }
    if (!make_writable(p, size, numa_node)
        || (class->v6
            && !make_writable(acdc_arena6(p), size6(size), numa_node))) {
        place_clear(p, size, class->v6);
        return NULL;
    }
    slab = (struct slab *) (void *) p;
    slab->class = class;
    slab->mapped = size;
    slab->next = p;
    slab_skip_header(slab);
    return slab;
}

static void
slab_unmap(struct slab *slab)
{
    place_clear((char *) slab, slab->mapped, slab->class->v6);
}

static bool
slab_is_full(const struct slab *slab)
{
    return !slab->free && slab->next == (char *) slab + slab->mapped;
}

/* Returns whether there was one to get. */
static bool
get_spare(struct slab_class *class)
{
    struct slab *slab;
    int numa_node;

    ovs_mutex_lock(&class->mutex);
    numa_node = class->numa_node;
    class->wanted = class->wanted && class->n_spares < class->n_wanted;
    if (!class->wanted) {
        ovs_mutex_unlock(&class->mutex);
        return false;
    }
    ovs_mutex_unlock(&class->mutex);

    slab = slab_map(class, SLAB_SIZE, numa_node);
    if (slab) {
        touch((char *) slab, get_page_size(), slab->mapped);
        if (class->v6) {
            touch(acdc_arena6(slab), 0, size6(slab->mapped));
        }
    }
    ovs_mutex_lock(&class->mutex);
    if (slab) {
        ovs_list_push_back(&class->spares, &slab->node);
        class->n_spares++;
    } else {
        class->wanted = false;
    }
    ovs_mutex_unlock(&class->mutex);
    return true;
}

static void
get_smalls(struct slab_class *class)
{
    struct slab *small;

    ovs_mutex_lock(&class->mutex);
    while (class->n_smalls < SMALLS) {
        ovs_mutex_unlock(&class->mutex);
        small = slab_map(class, SLAB_SIZE_SMALL, -1);
        ovs_mutex_lock(&class->mutex);
        if (!small) {
            break;
        }
        ovs_list_push_back(&class->smalls, &small->node);
        class->n_smalls++;
    }
    ovs_mutex_unlock(&class->mutex);
}

static void
get_spares(void)
{
    bool more;

    do {
        more = false;
        for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
            get_smalls(&classes[i]);
            if (get_spare(&classes[i])) {
                more = true;
                rest();
            }
        }
    } while (more);
}

static void
ask_for_spares(struct slab_class *class)
    OVS_REQUIRES(class->mutex)
{
    if (!class->wanted && class->n_spares < class->n_wanted) {
        class->wanted = true;
        class->numa_node = current_numa_node();
        ovs_mutex_lock(&memory_mutex);
        spares_wanted = true;
        xpthread_cond_signal(&memory_cond);
        ovs_mutex_unlock(&memory_mutex);
    }
}

/* For a class without room.  NULL if there is no memory. */
static struct slab *
add_slab(struct slab_class *class)
    OVS_REQUIRES(class->mutex)
{
    struct slab *slab;

    if (class->n_spares) {
        slab = CONTAINER_OF(ovs_list_pop_front(&class->spares), struct slab,
                            node);
        class->n_spares--;
        COVERAGE_INC(acdc_slab_ready);
    } else {
        if (class->n_smalls) {
            slab = CONTAINER_OF(ovs_list_pop_front(&class->smalls),
                                struct slab, node);
            class->n_smalls--;
        } else {
            slab = slab_map(class, SLAB_SIZE_SMALL, -1);
            COVERAGE_INC(acdc_slab_mapped);
        }
        COVERAGE_INC(acdc_slab_late);
        if (class->wanted) {
            /* One at a time is not enough. */
            class->n_wanted = MIN(2 * class->n_wanted, SPARES_MAX);
        }
        ask_for_spares(class);
    }
    if (slab) {
        ovs_list_push_front(&class->partial, &slab->node);
    }
    return slab;
}

void *
acdc_slab_alloc_flow(size_t size OVS_UNUSED, bool v6)
{
    struct slab_class *class = &classes[v6];
    struct slab *slab;
    void *p = NULL;

    ovs_mutex_lock(&class->mutex);
    slab = (ovs_list_is_empty(&class->partial)
            ? add_slab(class)
            : CONTAINER_OF(ovs_list_front(&class->partial), struct slab, node));
    if (slab) {
        if (slab->free) {
            p = slab->free;
            slab->free = *(void **) p;
        } else {
            p = slab->next;
            slab->next = acdc_arena_next(slab->next);
            slab_skip_header(slab);
        }
        slab->n_used++;
        if (slab_is_full(slab)) {
            ovs_list_remove(&slab->node);
        } else if (ovs_list_is_singleton(&class->partial) && !slab->free
                   && slab->next - (char *) slab > slab->mapped / 4) {
            ask_for_spares(class);
        }
    }
    ovs_mutex_unlock(&class->mutex);

    if (!p) {
        return NULL;
    }
    memset(acdc_arena_in(p), 0, ACDC_FLOW_IN);
    if (v6) {
        memset(acdc_arena6(p), 0, ACDC_FLOW6);
    }
    return memset(p, 0, ACDC_FLOW);
}

void
acdc_slab_free_flow(void *p)
{
    struct slab *slab, *spare = NULL;
    struct slab_class *class;
    bool unmap = false;

    if (!p) {
        return;
    }
    slab = (struct slab *) ((uintptr_t) p & ~(uintptr_t) (SLAB_SIZE - 1));
    class = slab->class;

    ovs_mutex_lock(&class->mutex);
    if (slab_is_full(slab)) {
        ovs_list_push_back(&class->partial, &slab->node);
    }
    *(void **) p = slab->free;
    slab->free = p;
    /* The last one with room stays, or one flow that comes and goes would map
     * a slab each time. */
    if (!--slab->n_used && !ovs_list_is_singleton(&class->partial)) {
        ovs_list_remove(&slab->node);
        unmap = true;
        class->n_wanted = 1;
        if (class->n_spares > 1) {
            spare = CONTAINER_OF(ovs_list_pop_front(&class->spares),
                                 struct slab, node);
            class->n_spares--;
        }
    }
    ovs_mutex_unlock(&class->mutex);

    if (unmap) {
        slab_unmap(slab);
    }
    if (spare) {
        slab_unmap(spare);
    }
}

#endif /* ACDC_ARENA */
