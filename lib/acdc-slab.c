/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-slab.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "openvswitch/list.h"
#include "ovs-thread.h"
#include "util.h"

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)

/* AddressSanitizer sees the use of a freed object only if each is on its
 * own. */
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

#else

/* Slabs are aligned to their size, so that an object's address gives its
 * slab.  An object of more than OBJECT_MAX bytes has a slab for itself, as
 * large as needed. */
#define SLAB_SIZE ((size_t) 2 << 20)
#define OBJECT_MAX 1024

struct slab {
    struct slab_class *class;   /* NULL: of one large object. */
    size_t mapped;              /* Bytes. */

    /* Guarded by the mutex of 'class'. */
    struct ovs_list node;       /* In 'class->partial' unless full. */
    void *free;                 /* Objects freed, linked by their first
                                 * word. */
    size_t next;                /* Offset of the first object never used. */
    size_t n_used;
};

/* Where the first object is. */
#define SLAB_HEADER ROUND_UP(sizeof(struct slab), CACHE_LINE_SIZE)

struct slab_class {
    struct ovs_mutex mutex;
    size_t size;                /* Of an object. */
    struct ovs_list partial;    /* Slabs with room. */
};

static struct slab_class classes[OBJECT_MAX / CACHE_LINE_SIZE];

static void
slab_init(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;

    if (ovsthread_once_start(&once)) {
        for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
            ovs_mutex_init(&classes[i].mutex);
            classes[i].size = (i + 1) * CACHE_LINE_SIZE;
            ovs_list_init(&classes[i].partial);
        }
        ovsthread_once_done(&once);
    }
}

/* Returns a slab with 'size' bytes, zeroed, or NULL. */
static struct slab *
slab_map(struct slab_class *class, size_t size)
{
    size_t excess, mapped;
    struct slab *slab;
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

    /* Cuts to what is aligned. */
    excess = -(uintptr_t) base & (SLAB_SIZE - 1);
    if (excess) {
        munmap(base, excess);
    }
    munmap(base + excess + size, mapped - excess - size);
#ifdef MADV_HUGEPAGE
    /* Flows are met in no order.  With pages of 4 kB most packets of a million
     * of them would wait for the page's address as well. */
    madvise(base + excess, size, MADV_HUGEPAGE);
#endif

    slab = (struct slab *) (void *) (base + excess);
    slab->class = class;
    slab->mapped = size;
    slab->next = SLAB_HEADER;
    return slab;
}

static bool
slab_is_full(const struct slab *slab)
{
    return (!slab->free
            && slab->next + slab->class->size > slab->mapped);
}

void *
acdc_slab_alloc(size_t size)
{
    struct slab_class *class;
    struct slab *slab;
    void *p = NULL;

    if (size > OBJECT_MAX) {
        slab = slab_map(NULL, SLAB_HEADER + size);
        return slab ? (char *) slab + SLAB_HEADER : NULL;
    }

    slab_init();
    class = &classes[(MAX(size, 1) - 1) / CACHE_LINE_SIZE];
    ovs_mutex_lock(&class->mutex);
    if (ovs_list_is_empty(&class->partial)) {
        slab = slab_map(class, SLAB_SIZE);
        if (slab) {
            ovs_list_push_front(&class->partial, &slab->node);
        }
    } else {
        slab = CONTAINER_OF(ovs_list_front(&class->partial), struct slab,
                            node);
    }
    if (slab) {
        if (slab->free) {
            p = slab->free;
            slab->free = *(void **) p;
        } else {
            p = (char *) slab + slab->next;
            slab->next += class->size;
        }
        slab->n_used++;
        if (slab_is_full(slab)) {
            ovs_list_remove(&slab->node);
        }
    }
    ovs_mutex_unlock(&class->mutex);

    return p ? memset(p, 0, size) : NULL;
}

void
acdc_slab_free(void *p)
{
    struct slab_class *class;
    struct slab *slab;
    bool unmap = false;

    if (!p) {
        return;
    }
    slab = (struct slab *) ((uintptr_t) p & ~(uintptr_t) (SLAB_SIZE - 1));
    class = slab->class;
    if (!class) {
        munmap(slab, slab->mapped);
        return;
    }

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
    }
    ovs_mutex_unlock(&class->mutex);

    if (unmap) {
        munmap(slab, slab->mapped);
    }
}

#endif
