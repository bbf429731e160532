/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-conn-cache.h"

#include <sys/mman.h>

#include "acdc-compat.h"
#include "coverage.h"
#include "flow.h"
#include "random.h"
#include "unaligned.h"

COVERAGE_DEFINE(acdc_conn_hit);         /* Packets that need no look-up. */
COVERAGE_DEFINE(acdc_conn_insert);      /* Connections entered. */

#define N_WORDS 3

struct path {
    ovs_be64 value[N_WORDS], mask[N_WORDS];     /* Of get_words(). */
    struct dp_netdev_flow *flow;        /* With a reference; NULL: unused. */
    odp_port_t in_port;
    uint32_t id;                /* Its index, and above that a number that differs
                                 * from that of the path that was here before. */
};
BUILD_ASSERT_DECL(sizeof(struct path) <= CACHE_LINE_SIZE);

/* A path is in the set that its hash gives, and gives way to another if it is unused,
 * or with one of REPLACE_INV_PROB: where there are too many, some are found. */
#define N_PATHS 1024
#define PATHS_IN_SET 4
#define REPLACE_INV_PROB 64

/* The packets of a connection in one direction. */
struct conn {
    ovs_be64 addrs;             /* Source and destination, as in the packet. */
    uint32_t mix;               /* Likewise ports, exclusive or both addresses. */
    uint32_t path;              /* As the path's 'id', or that path is gone. */
};

/* A connection is in the cache line that its hash gives, or in the one beside it.  With
 * no room there it takes another's with one of EVICT_INV_PROB packets, so that a guest
 * that makes up connections does not push others out with each. */
#define CONNS_IN_LINE 4
#define WAYS (2 * CONNS_IN_LINE)
#define EVICT_INV_PROB 8
BUILD_ASSERT_DECL(CONNS_IN_LINE * sizeof(struct conn) == CACHE_LINE_SIZE);

/* The table's memory is reserved at first, and comes from the kernel as it is touched.
 * The part in use grows when it has fewer than CONNS_PER_FLOW places for a connection
 * of the engine: two directions, and as many free.  One of GROW_INV_PROB looks.
 * Pages are small: the packet that touches a huge one would wait for 2 MB. */
#define MIN_CONNS 4096
#define CONNS_PER_FLOW UINT64_C(4)
#define GROW_INV_PROB 64

/* Of PROBE_PACKETS from a port less than a part (1 / PROBE_USEFUL) was found or newly
 * entered, as most is not for guests: none is looked at for REST batches. */
#define PROBE_PACKETS 1024
#define PROBE_USEFUL 8
#define REST_BATCHES 1024
#define N_SOURCES 64

struct acdc_conn_cache {
    struct path paths[N_PATHS];
    const struct acdc_netdev *an;
    struct conn *conns;
    uint32_t n_conns, max_conns;        /* In use and in all, powers of 2. */
    uint32_t sweep;             /* Path to look at next. */
    struct source {
        uint32_t seen, useful;  /* Packets. */
        uint32_t rest;          /* Batches left. */
    } sources[N_SOURCES];       /* By the port's hash. */
    struct source *source;      /* Of the last batch. */
};

static struct acdc_conn_cache *
acdc_conn_cache_create(const struct acdc_netdev *an)
{
    struct acdc_conn_cache *cache = xzalloc_cacheline(sizeof *cache);
    uint64_t max = acdc_netdev_stats(an).max_flows * CONNS_PER_FLOW;
    size_t size;

    cache->an = an;
    cache->n_conns = MIN_CONNS;
    cache->max_conns = ROUND_UP_POW2(MAX(max, MIN_CONNS));
    size = cache->max_conns * sizeof *cache->conns;
    cache->conns = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cache->conns == MAP_FAILED) {
        free_cacheline(cache);
        return NULL;
    }
    return cache;
}

static void
acdc_conn_cache_free(struct acdc_conn_cache *cache)
{
    munmap(cache->conns, cache->max_conns * sizeof *cache->conns);
    free_cacheline(cache);
}

static void
path_clear(struct path *path)
{
    if (path->flow) {
        dp_netdev_flow_unref(path->flow);
        path->flow = NULL;
    }
}

void
acdc_conn_cache_destroy(struct acdc_conn_cache *cache)
{
    if (cache) {
        for (size_t i = 0; i < N_PATHS; i++) {
            path_clear(&cache->paths[i]);
        }
        /* Giving much memory back takes long; not in this thread. */
        ovsrcu_postpone(acdc_conn_cache_free, cache);
    }
}

bool
acdc_conn_cache_ready(struct acdc_conn_cache **cachep,
                      const struct acdc_netdev *an)
{
    bool active = acdc_netdev_is_active(an) && !acdc_offload_may_restore();

    if (active && OVS_UNLIKELY(!*cachep)) {
        *cachep = acdc_conn_cache_create(an);
    } else if (!active) {
        acdc_conn_cache_destroy(*cachep);
        *cachep = NULL;
    }
    return *cachep != NULL;
}

/* What a flow may look at in a plain TCP packet beside addresses and ports: the frame's
 * first two words, and from TOS to TTL. */
static inline void
get_words(const struct dp_packet *packet, ovs_be64 words[N_WORDS])
{
    const ovs_be64 *frame = dp_packet_data(packet);
    const char *nh = (const char *) frame + packet->l3_ofs;

    words[0] = get_unaligned_be64(&frame[0]);
    words[1] = get_unaligned_be64(&frame[1]);
    words[2] = get_unaligned_be64((const void *) (nh + 1));
}

/* From the EtherType on, and from the fragment offset on: IPv4 without options, no
 * fragment, TCP. */
#define PLAIN_IP_MASK htonl(0xffffff00)
#define PLAIN_IP htonl(0x08004500)
#define PLAIN_FRAG_MASK htonl(0x3fff00ff)
#define PLAIN_FRAG htonl(IPPROTO_TCP)

/* Whether miniflow_extract() would find plain TCP in 'packet'.  If so, sets the
 * 'addrs' and 'mix' of '*conn', and the packet's offsets as that does, and returns
 * the data offset and flags; else 0. */
static inline ovs_be16
parse(struct dp_packet *packet, struct conn *conn)
{
    const struct eth_header *eth = dp_packet_data(packet);
    uint32_t size = dp_packet_size(packet);
    uint32_t tot_len, tcp_hlen;
    const struct tcp_header *th;
    const struct ip_header *nh;
    ovs_be32 ip, frag;
    size_t l3_ofs;

    /* All that is read lies in these bytes, behind a tag, too.  Whether the packet is
     * whole 'tot_len' says. */
    if (OVS_UNLIKELY(size < ETH_HEADER_LEN + IP_HEADER_LEN + TCP_HEADER_LEN
                     || packet->packet_type != htonl(PT_ETH))) {
        return 0;
    }
    l3_ofs = (eth->eth_type == htons(ETH_TYPE_VLAN)
              ? VLAN_ETH_HEADER_LEN : ETH_HEADER_LEN);
    nh = (const void *) ((const char *) eth + l3_ofs);
    th = (const void *) (nh + 1);
    size -= l3_ofs;
    tot_len = ntohs(nh->ip_tot_len);
    tcp_hlen = TCP_OFFSET(th->tcp_ctl) * 4;
    ip = get_unaligned_be32((const void *) ((const char *) nh - 2));
    frag = get_unaligned_be32((const void *) &nh->ip_frag_off);
    /* With a wrong data offset there are no ports for Open vSwitch. */
    if (OVS_UNLIKELY((ip & PLAIN_IP_MASK) != PLAIN_IP
                     || (frag & PLAIN_FRAG_MASK) != PLAIN_FRAG
                     || tcp_hlen < TCP_HEADER_LEN
                     || tot_len < IP_HEADER_LEN + tcp_hlen || tot_len > size
                     || size - tot_len > UINT16_MAX)) {
        return 0;
    }
    dp_packet_reset_offsets(packet);
    packet->l3_ofs = l3_ofs;
    packet->l4_ofs = l3_ofs + IP_HEADER_LEN;
    dp_packet_set_l2_pad_size(packet, size - tot_len);
    conn->addrs = get_unaligned_be64((const void *) &nh->ip_src);
    conn->mix = (OVS_FORCE uint32_t) get_unaligned_be32((const void *) th)
                ^ (OVS_FORCE uint64_t) conn->addrs
                ^ (OVS_FORCE uint64_t) conn->addrs >> 32;
    return th->tcp_ctl;
}

/* The first of the places of a connection: they are that, exclusive or 0 to WAYS - 1.
 * A NIC's hash may be of the addresses alone, and queues have taken bits of it. */
static inline uint32_t
get_place(const struct acdc_conn_cache *cache, const struct conn *conn,
          struct dp_packet *packet)
{
    dp_packet_update_rss_hash_ipv4_tcp_udp(packet);
    return ((dp_packet_get_rss_hash(packet) ^ conn->mix) * 0x9e3779b1 >> 6
            & (cache->n_conns - CONNS_IN_LINE));
}

static inline bool
is_alive(const struct path *path)
{
    return path->flow && !path->flow->dead;
}

static inline bool
path_takes(const struct path *path, const struct dp_packet *packet,
           odp_port_t in_port)
{
    ovs_be64 words[N_WORDS];

    get_words(packet, words);
    return path->in_port == in_port
           && !(((words[0] ^ path->value[0]) & path->mask[0])
                | ((words[1] ^ path->value[1]) & path->mask[1])
                | ((words[2] ^ path->value[2]) & path->mask[2]));
}

/* A word of a miniflow's Ethernet header, which lies as in a packet. */
static ovs_be64
ethernet_word(const struct miniflow *mf, size_t i)
{
    size_t idx = FLOW_U64_OFFSET(dl_dst) + i;

    BUILD_ASSERT_DECL(FLOW_U64_OFFREM(dl_dst) == 0);
    return MINIFLOW_IN_MAP(mf, idx)
           ? (OVS_FORCE ovs_be64) *miniflow_get__(mf, idx) : 0;
}

/* Takes what the flow's mask has of the packet. */
static void
path_init(struct path *path, const struct dp_packet *packet)
{
    /* With each field of plain TCP that struct flow gets here or in parse(). */
    BUILD_ASSERT_DECL(FLOW_WC_SEQ == 42 || FLOW_WC_SEQ == 43);
    const struct miniflow *mask = &path->flow->cr.mask->mf;
    uint64_t tci = ntohs(MINIFLOW_GET_BE16(mask, vlans[0].tci));
    /* EtherType, or TPID and a tag, of which Open vSwitch does not look at DEI. */
    uint64_t type = (0xffff0000 | (packet->l3_ofs == ETH_HEADER_LEN
                                   ? 0 : tci & ~VLAN_CFI));
    uint64_t tos = MINIFLOW_GET_U8(mask, nw_tos);
    uint64_t ttl = MINIFLOW_GET_U8(mask, nw_ttl);

    path->mask[0] = ethernet_word(mask, 0);
    path->mask[1] = (ethernet_word(mask, 1) & htonll(0xffffffff00000000))
                    | htonll(type);
    path->mask[2] = htonll(tos << 56 | ttl);
    get_words(packet, path->value);
    for (size_t i = 0; i < N_WORDS; i++) {
        path->value[i] &= path->mask[i];
    }
}

/* The path of 'flow' for packets like this one, or NULL. */
static struct path *
path_get(struct acdc_conn_cache *cache, const struct dp_packet *packet,
         struct dp_netdev_flow *flow, uint32_t random)
{
    struct path new = {
        .flow = flow,
        .in_port = packet->md.in_port.odp_port,
    };
    struct path *room = NULL;
    struct path *set;
    uint32_t hash;

    path_init(&new, packet);
    hash = hash_bytes(new.value, sizeof new.value, hash_pointer(flow, 0));
    set = &cache->paths[hash % (N_PATHS / PATHS_IN_SET) * PATHS_IN_SET];
    for (size_t i = 0; i < PATHS_IN_SET; i++) {
        if (!memcmp(&set[i], &new, offsetof(struct path, id))) {
            return is_alive(&set[i]) ? &set[i] : NULL;
        }
        room = is_alive(&set[i]) ? room : &set[i];
    }
    if (!room && !(random % REPLACE_INV_PROB)) {
        room = &set[random / REPLACE_INV_PROB % PATHS_IN_SET];
    }
    if (!room || flow->dead || !ovs_refcount_try_ref_rcu(&flow->ref_cnt)) {
        return NULL;
    }
    path_clear(room);
    new.id = ROUND_DOWN(room->id, N_PATHS) + N_PATHS + (room - cache->paths);
    if (new.id < N_PATHS) {
        /* Once in four million times.  Unused connections have 0. */
        memset(cache->conns, 0, cache->n_conns * sizeof *cache->conns);
        new.id += N_PATHS;
    }
    *room = new;
    return room;
}

static inline bool
is_of(const struct conn *conn, const struct conn *key)
{
    return !((conn->addrs ^ key->addrs) | (conn->mix ^ key->mix));
}

/* The path that 'conn' takes, or NULL. */
static inline const struct path *
path_of(const struct acdc_conn_cache *cache, const struct conn *conn)
{
    const struct path *path = &cache->paths[conn->path % N_PATHS];

    return path->id == conn->path && is_alive(path) ? path : NULL;
}

/* The path for 'packet' of the connection 'key', whose place is 'place', or NULL.  No
 * processor can predict where in its cache line a connection is, so arithmetic finds
 * it, as gcc makes a branch of a question: by 'mix', which another one seldom has as
 * well.  It may be there twice, as of two tags. */
static inline ALWAYS_INLINE const struct path *
find_path(const struct acdc_conn_cache *cache, const struct conn *key,
          uint32_t place, const struct dp_packet *packet, odp_port_t in_port)
{
    const struct conn *line = &cache->conns[place];
    size_t second = line[1].mix == key->mix;
    size_t third = line[2].mix == key->mix;
    size_t fourth = line[3].mix == key->mix;
    size_t at = (second | fourth) | (third | fourth) << 1;

    for (size_t i = 0; i < WAYS; i++) {
        const struct conn *conn = &cache->conns[place ^ at ^ i];
        const struct path *path = path_of(cache, conn);

        if (OVS_LIKELY(path && is_of(conn, key)
                       && path_takes(path, packet, in_port))) {
            return path;
        }
    }
    return NULL;
}

bool
acdc_conn_cache_find(struct acdc_conn_cache *cache,
                     const struct dp_packet_batch *batch, odp_port_t in_port,
                     struct acdc_conn_hits *hits)
{
    const size_t n = dp_packet_batch_size(batch);
    struct conn keys[NETDEV_MAX_BURST];
    uint32_t places[NETDEV_MAX_BURST];
    ovs_be16 tcp_ctl[NETDEV_MAX_BURST];         /* 0: not plain TCP. */
    struct dp_packet *packet;
    uint32_t hash = hash_int(odp_to_u32(in_port), 0);
    struct source *source = &cache->sources[hash % N_SOURCES];
    struct path *path_to_sweep = &cache->paths[cache->sweep++ % N_PATHS];
    size_t n_hits = 0;

    /* Nobody else gives a deleted flow's memory back. */
    if (!is_alive(path_to_sweep)) {
        path_clear(path_to_sweep);
    }
    if (source->rest) {
        source->rest--;
        return false;
    }
    if (source->seen >= PROBE_PACKETS) {
        if (source->useful < source->seen / PROBE_USEFUL) {
            source->rest = REST_BATCHES;
        }
        source->seen = source->useful = 0;
    }
    source->seen += n;

    cache->source = source;
    hits->learn = 0;
    /* In steps, so that the batch waits for memory together. */
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        if (i + 1 < n) {
            OVS_PREFETCH(dp_packet_data(batch->packets[i + 1]));
        }
        tcp_ctl[i] = parse(packet, &keys[i]);
        if (OVS_LIKELY(tcp_ctl[i])) {
            places[i] = get_place(cache, &keys[i], packet);
            OVS_PREFETCH(&cache->conns[places[i]]);
        }
    }
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        const struct path *path = NULL;

        if (OVS_LIKELY(tcp_ctl[i])) {
            path = find_path(cache, &keys[i], places[i], packet, in_port);
        }
        hits->flows[i] = path ? path->flow : NULL;
        if (OVS_LIKELY(path)) {
            hits->tcp_flags[i] = TCP_FLAGS(tcp_ctl[i]);
            acdc_packet_set_offloads(packet);
            n_hits++;
        }
    }
    source->useful += n_hits;
    COVERAGE_ADD(acdc_conn_hit, n_hits);
    return true;
}

void
acdc_conn_cache_insert(struct acdc_conn_cache *cache,
                       struct dp_packet *packet, struct dp_netdev_flow *flow)
{
    const uint32_t random = random_uint32();
    struct path *path;
    struct conn new;
    uint32_t place;
    size_t i;

    if (!parse(packet, &new)
        || MINIFLOW_GET_BE16(&flow->cr.mask->mf, tcp_flags)) {
        return;
    }
    place = get_place(cache, &new, packet);
    if (find_path(cache, &new, place, packet, packet->md.in_port.odp_port)) {
        /* By another packet of the same batch. */
        return;
    }
    for (i = 0; i < WAYS && path_of(cache, &cache->conns[place ^ i]); i++) {
        continue;
    }
    if (i < WAYS) {
        cache->source->useful++;
    } else if (random % EVICT_INV_PROB) {
        return;
    } else {
        i = random / EVICT_INV_PROB % WAYS;
    }
    path = path_get(cache, packet, flow, random_uint32());
    if (path) {
        new.path = path->id;
        cache->conns[place ^ i] = new;
        COVERAGE_INC(acdc_conn_insert);
        if (!(random % GROW_INV_PROB) && cache->n_conns < cache->max_conns
            && (cache->n_conns
                < acdc_netdev_stats(cache->an).n_flows * CONNS_PER_FLOW)) {
            /* Three of four connections get another place, with their next packet. */
            cache->n_conns = MIN(4 * (uint64_t) cache->n_conns, cache->max_conns);
        }
    }
}
