/* SPDX-License-Identifier: Apache-2.0 */

/* What the engine asks of its host (the end of acdc-platform.h), for
 * ovs-vswitchd.  Unlike most of OVS nothing here aborts without memory: the
 * packet or the flow then goes without AC/DC. */

#include <config.h>
#include "acdc.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "acdc-arena.h"
#include "acdc-compat.h"
#include "acdc-netdev.h"
#include "dp-packet.h"
#include "ovs-rcu.h"
#include "random.h"
#include "util.h"

/* Headroom of packets that are made or moved here: for our options and for
 * the headers of a tunnel. */
#define ACDC_HOST_HEADROOM 128

/* Large objects are whole ones, where the kernel has them. */
#define HUGE_PAGE ((size_t) 2 << 20)

void
acdc_host_defer(struct acdc_rcu *r)
{
    ovsrcu_postpone(r->free, r);
}

/* Zeroed, which takes the kernel long where that is much: it is the configuration's
 * to wait for and not packets'.
 *
 * Nothing else of malloc() is in the same ACDC_APART bytes: threads that only read
 * an object would wait for those that write another. */
void *
acdc_host_alloc(size_t size)
{
    size_t align = size < HUGE_PAGE ? ACDC_APART : HUGE_PAGE;
    void *p;

    if (size > SIZE_MAX - ACDC_APART) {
        return NULL;
    }
    size = ROUND_UP(size, ACDC_APART);
    if (posix_memalign(&p, align, size)) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    if (align == HUGE_PAGE) {
        (void) madvise(p, size, MADV_HUGEPAGE);
    }
#endif
    return memset(p, 0, size);
}

void
acdc_host_free(void *p)
{
    free(p);
}

struct acdc_flow *
acdc_host_alloc_flow(size_t size, bool v6)
{
    return acdc_arena_alloc_flow(size, v6);
}

void
acdc_host_free_flow(struct acdc_flow *f)
{
    acdc_arena_free_flow(f);
}

uint64_t
acdc_host_clock(uint64_t now)
{
    struct timespec real, monotonic;

    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    clock_gettime(CLOCK_REALTIME, &real);
    return now + (uint64_t) (real.tv_sec - monotonic.tv_sec) * 1000000000
           + (uint64_t) (real.tv_nsec - monotonic.tv_nsec);
}

uint32_t
acdc_host_seed(void)
{
    return random_uint32();
}

/* Moves the first byte of 'b' by 'n' towards its beginning, or by -'n' away
 * from it.  Not with dp_packet_pull(), which looks at 'l2_pad_size': in a
 * packet just received that is not set yet.  The offsets of the layers stay
 * right, since the engine moves what is in front of the TCP options along.
 * Updates 'p'. */
static uint8_t *
acdc_host_move(struct acdc_pkt *p, struct dp_packet *b, int n)
{
#ifdef DPDK_NETDEV
    /* dp_packet_set_size() takes every packet for one segment. */
    b->mbuf.data_off -= n;
    b->mbuf.data_len += n;
    b->mbuf.pkt_len += n;
#else
    dp_packet_set_data(b, (char *) dp_packet_data(b) - n);
    dp_packet_set_size(b, dp_packet_size(b) + n);
#endif

    p->data -= n;
    p->len += n;
    p->hlen += n;
    return p->data;
}

/* Makes 'n' bytes of headroom in 'b', which has less.  dp_packet_resize()
 * would do that for some packets and abort for others.  Not in line: few
 * packets need it. */
static ACDC_NOINLINE bool
acdc_host_make_headroom(struct dp_packet *b, unsigned int n)
{
    size_t size = dp_packet_size(b);
    size_t headroom = dp_packet_headroom(b);
    size_t allocated = dp_packet_get_allocated(b);
    char *base;

#ifdef DPDK_NETDEV
    if (b->mbuf.nb_segs > 1) {
        return false;
    }
#endif

    /* netdev-linux receives into buffers of the MTU, mostly tailroom when the
     * packet is an ACK: cheaper to move that than to allocate. */
    if (b->source != DPBUF_STACK && headroom + size + n <= allocated) {
        size_t tailroom = allocated - headroom - size;

        dp_packet_shift(b, MIN(tailroom, ACDC_HOST_HEADROOM));
        return true;
    }

    /* 'allocated' is a 16-bit field. */
    if (b->source != DPBUF_MALLOC || size + ACDC_HOST_HEADROOM > UINT16_MAX) {
        return false;
    }
    base = malloc(ACDC_HOST_HEADROOM + size);
    if (!base) {
        return false;
    }
    memcpy(base + ACDC_HOST_HEADROOM, dp_packet_data(b), size);
    free(dp_packet_base(b));
    dp_packet_set_base(b, base);
    dp_packet_set_allocated(b, ACDC_HOST_HEADROOM + size);
    dp_packet_set_data(b, base + ACDC_HOST_HEADROOM);
    return true;
}

/* Headers are in the first segment of an mbuf, which has the size of a packet
 * of the MTU. */
bool
acdc_host_linear(struct acdc_pkt *p OVS_UNUSED, unsigned int n OVS_UNUSED)
{
    return false;
}

uint8_t *
acdc_host_push(struct acdc_pkt *p, unsigned int n)
{
    struct dp_packet *b = p->host;

    if (n > ACDC_HOST_HEADROOM || dp_packet_size(b) + n > UINT16_MAX) {
        return NULL;
    }
    if (OVS_UNLIKELY(n > dp_packet_headroom(b))) {
        if (!acdc_host_make_headroom(b, n)) {
            return NULL;
        }
        p->data = dp_packet_data(b);
    }
    return acdc_host_move(p, b, n);
}

uint8_t *
acdc_host_pull(struct acdc_pkt *p, unsigned int n)
{
    return n <= p->hlen ? acdc_host_move(p, p->host, -(int) n) : NULL;
}

void
acdc_host_trim(struct acdc_pkt *p, unsigned int n)
{
    p->len -= n;
    p->hlen -= n;
    /* One segment: all of it is linear. */
    dp_packet_set_size((struct dp_packet *) p->host, p->len);
}

/* The packets of a batch are private to it, except mbufs whose buffer a DPDK
 * driver or library shares.  Asked of what acdc_netdev_is_private() does not
 * know to be. */
bool
acdc_host_writable(struct acdc_pkt *p OVS_UNUSED)
{
#ifdef DPDK_NETDEV
    const struct dp_packet *b = p->host;

    if (b->source == DPBUF_DPDK) {
        const struct rte_mbuf *m = &b->mbuf;

        return (rte_mbuf_refcnt_read(m) == 1 && !RTE_MBUF_CLONED(m)
                && (!RTE_MBUF_HAS_EXTBUF(m)
                    || rte_mbuf_ext_refcnt_read(m->shinfo) == 1));
    }
#endif
    return true;
}

/* The hash is what netdev_tnl_get_src_port() goes by, and Open vSwitch does not compute
 * one where there is one.  Its caches take any: those of other packets of the connection
 * are of no use then. */
void
acdc_host_set_path(struct acdc_pkt *p, uint32_t hash)
{
    dp_packet_set_rss_hash((struct dp_packet *) p->host, hash);
}

/* Returns a packet with room for 'len' bytes from where 'like' is from, since
 * netdev-dpdk expects the packets of a batch to be all mbufs or none, or
 * NULL. */
static struct dp_packet *
acdc_host_new_packet(const struct dp_packet *like OVS_UNUSED,
                     unsigned int len)
{
    struct dp_packet *b;
    void *base;

#ifdef DPDK_NETDEV
    if (like->source == DPBUF_DPDK) {
        struct rte_mbuf *m = rte_pktmbuf_alloc(like->mbuf.pool);

        if (m && rte_pktmbuf_tailroom(m) < len) {
            rte_pktmbuf_free(m);
            return NULL;
        } else if (m) {
            m->port = like->mbuf.port;
        }
        return m ? CONTAINER_OF(m, struct dp_packet, mbuf) : NULL;
    }
#endif

    /* Aligned: with DPDK it begins with an mbuf. */
    b = acdc_host_alloc(sizeof *b);
    base = malloc(ACDC_HOST_HEADROOM + len);
    if (!b || !base) {
        free(b);
        free(base);
        return NULL;
    }
    dp_packet_use(b, base, ACDC_HOST_HEADROOM + len);
    dp_packet_reserve(b, ACDC_HOST_HEADROOM);
    return b;
}

struct dp_packet *
acdc_host_packet_like(const struct dp_packet *like, unsigned int len)
{
    struct dp_packet *b = (len > UINT16_MAX - ACDC_HOST_HEADROOM ? NULL
                           : acdc_host_new_packet(like, len));

    if (b) {
        /* What a netdev sets on receive. */
        dp_packet_set_size(b, len);
        dp_packet_reset_offsets(b);
        dp_packet_reset_cutlen(b);
        acdc_packet_reset_offloads(b);
        b->packet_type = like->packet_type;
    }
    return b;
}

struct dp_packet *
acdc_host_clone(struct dp_packet *like, unsigned int headers,
                unsigned int payload)
{
    uint32_t size = dp_packet_size(like);
    struct dp_packet *b;

#if defined DPDK_NETDEV && defined ACDC_LIKE_IS_MBUF
    if (like->source == DPBUF_DPDK) {
        b = acdc_host_packet_like(like, headers + payload);
        if (b) {
            memcpy(dp_packet_data(b), dp_packet_data(like), headers);
            acdc_packet_copy_state(b, like);
        }
        return b;
    }
#endif
    dp_packet_set_size(like, headers);
    b = dp_packet_clone_with_headroom(like, ACDC_HOST_HEADROOM);
    dp_packet_set_size(like, size);
    dp_packet_put_uninit(b, payload);
    return b;
}

uint8_t *
acdc_host_inject(struct acdc_pkt *like, unsigned int len)
{
    struct acdc_injected *injected = like->aux;
    struct dp_packet *b;

    if (!injected || injected->n >= ARRAY_SIZE(injected->items)) {
        return NULL;
    }
    b = acdc_host_packet_like(like->host, len);
    if (!b) {
        return NULL;
    }
    if (dp_packet_rss_valid(like->host)) {
        /* It goes the same way, see acdc_host_set_path(). */
        dp_packet_set_rss_hash(b, dp_packet_get_rss_hash(like->host));
    }
    injected->items[injected->n].packet = b;
    injected->items[injected->n].before = like->host;
    injected->n++;
    return dp_packet_data(b);
}
