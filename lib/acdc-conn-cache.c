/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-conn-cache.h"

#include <string.h>

#include "acdc-netdev.h"
#include "byte-order.h"
#include "coverage.h"
#include "dpif-netdev-private-dpcls.h"
#include "dpif-netdev-private-flow.h"
#include "flow.h"
#include "hash.h"
#include "ovs-rcu.h"
#include "packets.h"
#include "random.h"
#include "util.h"

COVERAGE_DEFINE(acdc_conn_hit);         /* Packets that need no look-up. */
COVERAGE_DEFINE(acdc_conn_insert);      /* Connections entered. */

/* Offsets from the IP header of a plain TCP packet, of which MIN_LEN bytes are
 * looked at. */
#define ADDRS_OFS 12
#define TCP_OFS IP_HEADER_LEN
#define MIN_LEN (IP_HEADER_LEN + TCP_HEADER_LEN)

/* All that is in front of the addresses, but TOS, and what follows the VLAN tag
 * if there is one: two words of the frame, and of the IP header total length, ID,
 * flags and offset, TTL and protocol. */
#define N_WORDS 3
#define WORD_2_OFS 2

/* In the second word: IPv4 without options; an 802.1Q tag.  In the third: no
 * fragment, TCP. */
#define UNTAGGED_MASK htonll(0x00000000ffffff00)
#define UNTAGGED htonll(0x0000000008004500)
#define TAGGED_MASK htonll(0x00000000ffff0000)
#define TAGGED htonll(0x0000000081000000)
#define WHOLE_TCP_MASK htonll(0x000000003fff00ff)
#define WHOLE_TCP htonll(0x0000000000000006)

/* A path. */
struct path {
    ovs_be64 value[N_WORDS], mask[N_WORDS];
    struct dp_netdev_flow *flow;        /* With a reference; NULL: unused. */
    odp_port_t in_port;
    uint16_t gen;                       /* Differs from that of connections of
                                         * the path that was here before.  0:
                                         * there is no other one left, nothing
                                         * may be here until the table is
                                         * another. */
    uint8_t tos, tos_mask;
};
BUILD_ASSERT_DECL(sizeof(struct path) == CACHE_LINE_SIZE);

/* A path is in the set that its hash gives. */
#define N_PATHS 1024
#define PATHS_IN_SET 4

/* A path that is in use gives way to another with this probability (one in
 * ...): where there are too many, some of them are better than none. */
#define REPLACE_INV_PROB 64

/* The packets of a connection in one direction. */
struct conn {
    ovs_be64 addrs;             /* Source and destination, as in the packet. */
    ovs_be32 ports;             /* Likewise. */
    uint16_t path;              /* Index. */
    uint16_t gen;               /* Must be that of the path. */
};

/* A connection is in the cache line that its hash gives, or where that has no
 * room in the one beside it: in the WAYS places that differ in the lowest bits
 * of their numbers. */
#define CONNS_IN_LINE 4
#define WAYS (2 * CONNS_IN_LINE)
BUILD_ASSERT_DECL(CONNS_IN_LINE * sizeof(struct conn) == CACHE_LINE_SIZE);

#define MIN_CONNS 4096

/* The table grows when more than a quarter of it is taken, so that most are in the
 * line that is looked at first, while it has fewer places than four for each
 * connection that the engine follows: two directions, and as many free, with which
 * one of a hundred finds no room. */
#define CONNS_PER_FLOW 4

/* That is looked at after a part (1 / ...) of what it holds. */
#define GROW_AFTER 64

/* A connection that finds no room takes that of another with this probability:
 * one that sends packets gets it soon, a guest that makes up connections does
 * not push others out with each. */
#define EVICT_INV_PROB 8

/* A port is watched for PROBE packets.  If less than a part (1 / ...) of them
 * was found, newly entered, or will be when the table has grown (most is not for
 * guests, or has no room), none is looked at for REST batches. */
#define PROBE_PACKETS 1024
#define PROBE_USEFUL 8
#define REST_BATCHES 1024
#define N_SOURCES 64

struct source {
    uint32_t seen;
    uint32_t useful;
    uint32_t rest;              /* Batches left. */
};

struct acdc_conn_cache {
    const struct acdc_netdev *an;
    struct path *paths;         /* N_PATHS. */
    struct conn *conns;
    uint32_t n_conns;           /* A power of 2. */
    uint32_t n_taken;           /* Of them, also by what has ended since. */
    uint32_t pressure;          /* Connections entered beyond a quarter, or
                                 * without room, since it was last seen whether
                                 * the table should grow. */
    bool may_grow;              /* As last seen. */
    char *conns_mem;            /* What 'conns' are in. */
    uint32_t n_next;            /* Of those that will replace 'conns', or 0. */
    uint32_t sweep;             /* Path to look at next. */
    struct source *source;      /* Of the last batch. */
    struct source sources[N_SOURCES];   /* By the port's hash. */
};

/* The table. */

/* Zeroed when it is touched, so that nobody waits for all of it at once. */
static char *
conns_mem_alloc(uint32_t n)
{
    return calloc(1, n * sizeof(struct conn) + CACHE_LINE_SIZE);
}

static void
set_conns(struct acdc_conn_cache *cache, char *mem, uint32_t n)
{
    cache->conns_mem = mem;
    cache->conns = (void *) ROUND_UP((uintptr_t) mem, CACHE_LINE_SIZE);
    cache->n_conns = n;
    cache->n_taken = 0;
}

static struct acdc_conn_cache *
acdc_conn_cache_create(const struct acdc_netdev *an)
{
    struct acdc_conn_cache *cache = xzalloc(sizeof *cache);

    cache->an = an;
    cache->paths = xzalloc_cacheline(N_PATHS * sizeof cache->paths[0]);
    set_conns(cache, conns_mem_alloc(MIN_CONNS), MIN_CONNS);
    cache->may_grow = true;
    cache->source = &cache->sources[0];
    if (!cache->conns_mem) {
        acdc_conn_cache_destroy(cache);
        return NULL;
    }
    for (size_t i = 0; i < N_PATHS; i++) {
        cache->paths[i].gen = 1;        /* Not that of an empty entry. */
    }
    return cache;
}

void
acdc_conn_cache_destroy(struct acdc_conn_cache *cache)
{
    if (!cache) {
        return;
    }
    for (size_t i = 0; i < N_PATHS; i++) {
        if (cache->paths[i].flow) {
            dp_netdev_flow_unref(cache->paths[i].flow);
        }
    }
    free_cacheline(cache->paths);
    if (cache->conns_mem) {
        ovsrcu_postpone(free, cache->conns_mem);
    }
    free(cache);
}

/* Has the table replaced, soon, by an empty one for 'n' connections.  They enter
 * with their next packet again, so that no packet waits for all of them to be
 * moved; nor does one for so much memory. */
static void
order_conns(struct acdc_conn_cache *cache, uint32_t n)
{
    if (!cache->n_next) {
        cache->n_next = n;
    }
}

/* Makes places of paths that had no 'gen' left usable again, once no connection is
 * of any path.  Returns whether there are some. */
static bool
renew_paths(struct acdc_conn_cache *cache)
{
    bool any = false;

    for (size_t i = 0; i < N_PATHS; i++) {
        if (!cache->paths[i].gen) {
            cache->paths[i].gen = 1;
            any = true;
        }
    }
    return any;
}

/* Goes on with that.  To be called once a batch. */
static void
take_conns(struct acdc_conn_cache *cache)
{
    char *new = conns_mem_alloc(cache->n_next);
    bool renewed = renew_paths(cache);

    cache->pressure = 0;
    if (new) {
        /* Giving much memory back takes long; not in this thread. */
        ovsrcu_postpone(free, cache->conns_mem);
        set_conns(cache, new, cache->n_next);
    } else {
        /* There is no memory. */
        cache->may_grow = false;
        if (renewed) {
            memset(cache->conns, 0, cache->n_conns * sizeof *cache->conns);
            cache->n_taken = 0;
        }
    }
    cache->n_next = 0;
}

static bool
is_filling(const struct acdc_conn_cache *cache)
{
    return cache->n_taken > cache->n_conns / 4;
}

static void
see_whether_may_grow(struct acdc_conn_cache *cache)
{
    cache->may_grow = is_filling(cache)
                      && cache->n_conns < acdc_netdev_n_flows(cache->an)
                                          * (uint64_t) CONNS_PER_FLOW;
}

static void
note_pressure(struct acdc_conn_cache *cache)
{
    if (++cache->pressure >= cache->n_conns / GROW_AFTER) {
        cache->pressure = 0;
        see_whether_may_grow(cache);
        if (cache->may_grow) {
            order_conns(cache, 2 * cache->n_conns);
        }
    }
}

/* Packets. */

static inline ovs_be64
get_be64(const uint8_t *p)
{
    ovs_be64 value;

    memcpy(&value, p, sizeof value);
    return value;
}

static inline ovs_be32
get_be32(const uint8_t *p)
{
    ovs_be32 value;

    memcpy(&value, p, sizeof value);
    return value;
}

/* Of the IP header at 'ip'. */
static inline uint32_t
get_tot_len(const uint8_t *ip)
{
    return ip[2] << 8 | ip[3];
}

/* Bytes that are at hand. */
static inline uint32_t
linear_size(const struct dp_packet *packet)
{
#ifdef DPDK_NETDEV
    return packet->mbuf.data_len;
#else
    return dp_packet_size(packet);
#endif
}

/* Whether miniflow_extract() would find plain TCP in 'packet'.  If so, returns
 * where its IP header is and sets the addresses and ports, else returns 0. */
static inline size_t
parse(const struct dp_packet *packet, struct conn *conn)
{
    const uint8_t *data = dp_packet_data(packet);
    uint32_t len = linear_size(packet);
    uint32_t size, tot_len, tcp_hlen;
    size_t ip_ofs;

    if (OVS_UNLIKELY(len < ETH_HEADER_LEN + MIN_LEN
                     || packet->packet_type != htonl(PT_ETH))) {
        return 0;
    }
    if (OVS_LIKELY((get_be64(data + 8) & UNTAGGED_MASK) == UNTAGGED)) {
        ip_ofs = ETH_HEADER_LEN;
    } else if ((get_be64(data + 8) & TAGGED_MASK) == TAGGED
               && (get_be64(data + 8 + VLAN_HEADER_LEN) & UNTAGGED_MASK)
                  == UNTAGGED
               && len >= VLAN_ETH_HEADER_LEN + MIN_LEN) {
        ip_ofs = VLAN_ETH_HEADER_LEN;
    } else {
        return 0;
    }
    data += ip_ofs;
    size = dp_packet_size(packet) - ip_ofs;
    tot_len = get_tot_len(data);
    tcp_hlen = (data[TCP_OFS + 12] >> 4) * 4;
    /* With a wrong data offset there are no ports for Open vSwitch. */
    if (OVS_UNLIKELY((get_be64(data + WORD_2_OFS) & WHOLE_TCP_MASK)
                     != WHOLE_TCP
                     || tcp_hlen < TCP_HEADER_LEN
                     || tot_len < IP_HEADER_LEN + tcp_hlen || tot_len > size
                     || size - tot_len > UINT16_MAX)) {
        return 0;
    }
    conn->addrs = get_be64(data + ADDRS_OFS);
    conn->ports = get_be32(data + TCP_OFS);
    return ip_ofs;
}

/* The first of the places of a connection, which are the returned number with
 * each of 0 to WAYS - 1 (exclusive or).  Mixes its ports with the packet's
 * 'hash', which a NIC may make of the addresses alone, and of which queues have
 * taken bits. */
static inline uint32_t
get_place(const struct acdc_conn_cache *cache, const struct conn *conn,
          uint32_t hash)
{
    hash = (hash ^ (OVS_FORCE uint32_t) conn->ports) * 0x9e3779b1;
    return hash >> 6 & (cache->n_conns - CONNS_IN_LINE);
}

/* The hash that the EMC's look-up takes or makes, so that a connection has one
 * and the same, whichever way its packets are found: tunnels and bonds spread
 * by it. */
static inline uint32_t
get_hash(struct dp_packet *packet, const struct conn *conn)
{
    uint32_t words[2];
    uint32_t hash;

    if (dp_packet_rss_valid(packet)) {
        return dp_packet_get_rss_hash(packet);
    }
    /* As miniflow_hash_5tuple(). */
    memcpy(words, &conn->addrs, sizeof words);
    hash = hash_add(0, words[0]);
    hash = hash_add(hash, words[1]);
    hash = hash_add(hash, IPPROTO_TCP);
    hash = hash_add(hash, (OVS_FORCE uint32_t) conn->ports);
    hash = hash_finish(hash, 42);
    dp_packet_set_rss_hash(packet, hash);
    return hash;
}

/* Paths. */

static inline bool
is_alive(const struct path *path)
{
    return path->flow && !path->flow->dead;
}

/* A packet's words. */
static inline void
get_words(const uint8_t *data, size_t ip_ofs, ovs_be64 words[N_WORDS])
{
    words[0] = get_be64(data);
    words[1] = get_be64(data + 8);
    words[2] = get_be64(data + ip_ofs + WORD_2_OFS);
}

static inline bool
path_takes(const struct path *path, const uint8_t *data, size_t ip_ofs,
           odp_port_t in_port)
{
    ovs_be64 words[N_WORDS];

    get_words(data, ip_ofs, words);
    return path->in_port == in_port
           && !((data[ip_ofs + 1] ^ path->tos) & path->tos_mask)
           && !(((words[0] ^ path->value[0]) & path->mask[0])
                | ((words[1] ^ path->value[1]) & path->mask[1])
                | ((words[2] ^ path->value[2]) & path->mask[2]));
}

static void
path_clear(struct acdc_conn_cache *cache, struct path *path)
{
    if (path->flow) {
        dp_netdev_flow_unref(path->flow);
        path->flow = NULL;
        if (!++path->gen) {
            order_conns(cache, cache->n_conns);
        }
    }
}

/* A word of a miniflow's Ethernet header, which lies as in a packet. */
static ovs_be64
ethernet_word(const struct miniflow *mf, size_t i)
{
    size_t idx = FLOW_U64_OFFSET(dl_dst) + i;

    BUILD_ASSERT_DECL(FLOW_U64_OFFREM(dl_dst) == 0);
    BUILD_ASSERT_DECL(offsetof(struct flow, dl_src)
                      == offsetof(struct flow, dl_dst) + ETH_ADDR_LEN);
    return MINIFLOW_IN_MAP(mf, idx)
           ? (OVS_FORCE ovs_be64) *miniflow_get__(mf, idx) : 0;
}

/* The second word's mask of what follows the Ethernet type or TPID: the tag, of
 * which Open vSwitch does not look at DEI, or what IPv4 begins with. */
static ovs_be64
tag_mask(const struct miniflow *mask, bool tagged)
{
    union flow_vlan_hdr vlan = {
        .qtag = MINIFLOW_GET_BE32(mask, vlans[0].qtag),
    };

    return tagged ? TAGGED_MASK | htonll(ntohs(vlan.tci) & ~VLAN_CFI)
                  : UNTAGGED_MASK;
}

/* Takes what 'mask', a flow's, has of the packet, and what makes it plain TCP. */
static void
path_init(struct path *path, const uint8_t *data, size_t ip_ofs,
          const struct miniflow *mask)
{
    /* With each field of plain TCP that struct flow gets here or in parse(). */
    BUILD_ASSERT_DECL(FLOW_WC_SEQ == 42);
    uint64_t ttl = MINIFLOW_GET_U8(mask, nw_ttl);

    path->mask[0] = ethernet_word(mask, 0);
    path->mask[1] = (ethernet_word(mask, 1) & htonll(0xffffffff00000000))
                    | tag_mask(mask, ip_ofs != ETH_HEADER_LEN);
    path->mask[2] = WHOLE_TCP_MASK | htonll(ttl << 8);
    get_words(data, ip_ofs, path->value);
    for (size_t i = 0; i < N_WORDS; i++) {
        path->value[i] &= path->mask[i];
    }
    path->tos_mask = MINIFLOW_GET_U8(mask, nw_tos);
    path->tos = data[ip_ofs + 1] & path->tos_mask;
}

static uint32_t
path_hash(const struct path *path)
{
    return hash_bytes(path->value, sizeof path->value,
                      hash_pointer(path->flow, path->tos));
}

/* The path of 'flow' for packets like this one, or NULL. */
static struct path *
path_get(struct acdc_conn_cache *cache, const struct dp_packet *packet,
         size_t ip_ofs, struct dp_netdev_flow *flow)
{
    struct path new = {
        .flow = flow,
        .in_port = packet->md.in_port.odp_port,
    };
    struct path *room = NULL;
    struct path *set;
    uint32_t random;

    path_init(&new, dp_packet_data(packet), ip_ofs, &flow->cr.mask->mf);
    set = &cache->paths[path_hash(&new) % (N_PATHS / PATHS_IN_SET)
                        * PATHS_IN_SET];
    for (size_t i = 0; i < PATHS_IN_SET; i++) {
        if (set[i].flow == flow && set[i].in_port == new.in_port
            && set[i].tos == new.tos && set[i].tos_mask == new.tos_mask
            && !memcmp(set[i].value, new.value, sizeof new.value)
            && !memcmp(set[i].mask, new.mask, sizeof new.mask)) {
            return is_alive(&set[i]) ? &set[i] : NULL;
        }
        if (!is_alive(&set[i]) && set[i].gen) {
            room = &set[i];
        }
    }
    random = room ? 0 : random_uint32();
    if (random % REPLACE_INV_PROB) {
        return NULL;
    }
    if (!room) {
        room = &set[random / REPLACE_INV_PROB % PATHS_IN_SET];
    }
    if (flow->dead) {
        return NULL;
    }
    path_clear(cache, room);
    if (!room->gen || !ovs_refcount_try_ref_rcu(&flow->ref_cnt)) {
        return NULL;
    }
    new.gen = room->gen;
    *room = new;
    return room;
}

static inline bool
is_of(const struct conn *conn, const struct conn *key)
{
    return !((conn->addrs ^ key->addrs) | (conn->ports ^ key->ports));
}

/* The path of a packet that is of the connection 'key', if 'conn' has it, or
 * NULL. */
static inline const struct path *
conn_path(const struct acdc_conn_cache *cache, const struct conn *conn,
          const struct conn *key, const uint8_t *data, size_t ip_ofs,
          odp_port_t in_port)
{
    const struct path *path = &cache->paths[conn->path];

    return (OVS_LIKELY(is_of(conn, key) && conn->gen == path->gen
                       && is_alive(path)
                       && path_takes(path, data, ip_ofs, in_port))
            ? path : NULL);
}

/* In all of its places. */
static const struct path * __attribute__((noinline))
find_path_anywhere(const struct acdc_conn_cache *cache,
                   const struct conn *key, uint32_t place,
                   const uint8_t *data, size_t ip_ofs, odp_port_t in_port)
{
    /* A connection may be there twice, as of two tags. */
    for (size_t i = 0; i < WAYS; i++) {
        const struct path *path = conn_path(cache, &cache->conns[place ^ i],
                                            key, data, ip_ofs, in_port);
        if (path) {
            return path;
        }
    }
    return NULL;
}

/* 'place' is the connection's.  In which place of a cache line it is differs
 * from one to another, which no processor can predict: chosen by arithmetic, as
 * gcc makes a branch of a question. */
static inline const struct path *
find_path(const struct acdc_conn_cache *cache, const struct conn *key,
          uint32_t place, const uint8_t *data, size_t ip_ofs,
          odp_port_t in_port)
{
    const struct conn *line = &cache->conns[place];
    size_t second = is_of(&line[1], key);
    size_t third = is_of(&line[2], key);
    size_t fourth = is_of(&line[3], key);
    size_t at = (second | fourth) | (third | fourth) << 1;
    const struct path *path;

    BUILD_ASSERT(CONNS_IN_LINE == 4);
    path = conn_path(cache, &line[at], key, data, ip_ofs, in_port);
    return (OVS_LIKELY(path)
            ? path
            : find_path_anywhere(cache, key, place, data, ip_ofs, in_port));
}

/* Looks at one path a batch: nobody else gives a deleted flow's memory back. */
static void
sweep_paths(struct acdc_conn_cache *cache)
{
    struct path *path = &cache->paths[cache->sweep++ % N_PATHS];

    if (!is_alive(path)) {
        path_clear(cache, path);
    }
}

/* Ports. */

/* True: what comes from the port of this batch of 'n' is not worth a look
 * now. */
static bool
source_rests(struct acdc_conn_cache *cache, size_t n)
{
    struct source *source = cache->source;

    if (source->rest) {
        source->rest--;
        return true;
    }
    if (source->seen >= PROBE_PACKETS) {
        if (source->useful < source->seen / PROBE_USEFUL) {
            source->rest = REST_BATCHES;
            /* There may be more connections since. */
            see_whether_may_grow(cache);
        }
        source->seen = source->useful = 0;
    }
    source->seen += n;
    return false;
}

bool
acdc_conn_cache_ready(struct acdc_conn_cache **cachep,
                      const struct acdc_netdev *an)
{
    bool active = acdc_netdev_is_active(an);

    if (OVS_UNLIKELY(active != (*cachep != NULL))) {
        if (active) {
            *cachep = acdc_conn_cache_create(an);
        } else {
            acdc_conn_cache_destroy(*cachep);
            *cachep = NULL;
        }
    }
    return *cachep != NULL;
}

bool
acdc_conn_cache_find(struct acdc_conn_cache *cache,
                     const struct dp_packet_batch *batch, odp_port_t in_port,
                     struct acdc_conn_hits *hits)
{
    uint32_t places[NETDEV_MAX_BURST];
    const size_t n = dp_packet_batch_size(batch);
    struct conn keys[NETDEV_MAX_BURST];
    size_t ip_ofs[NETDEV_MAX_BURST];
    struct dp_packet *packet;
    size_t n_hits = 0;

    sweep_paths(cache);
    if (OVS_UNLIKELY(cache->n_next)) {
        take_conns(cache);
    }
    cache->source = &cache->sources[hash_int(odp_to_u32(in_port), 0)
                                    % N_SOURCES];
    if (source_rests(cache, n)) {
        return false;
    }

    hits->learn = 0;
    /* In steps, so that the batch waits for memory together. */
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        if (i + 1 < n) {
            OVS_PREFETCH(dp_packet_data(batch->packets[i + 1]));
        }
        ip_ofs[i] = parse(packet, &keys[i]);
        if (OVS_LIKELY(ip_ofs[i])) {
            places[i] = get_place(cache, &keys[i],
                                  get_hash(packet, &keys[i]));
            OVS_PREFETCH(&cache->conns[places[i]]);
        }
    }
    DP_PACKET_BATCH_FOR_EACH (i, packet, batch) {
        const uint8_t *data = dp_packet_data(packet);
        const uint8_t *ip = data + ip_ofs[i];
        const struct path *path;

        path = (OVS_LIKELY(ip_ofs[i])
                ? find_path(cache, &keys[i], places[i], data, ip_ofs[i],
                            in_port)
                : NULL);
        hits->flows[i] = path ? path->flow : NULL;
        if (OVS_LIKELY(path)) {
            hits->tcp_flags[i] = (ip[TCP_OFS + 12] << 8
                                  | ip[TCP_OFS + 13]) & 0xfff;
            dp_packet_reset_offsets(packet);
            packet->l3_ofs = ip_ofs[i];
            packet->l4_ofs = ip_ofs[i] + IP_HEADER_LEN;
            dp_packet_set_l2_pad_size(packet, dp_packet_size(packet)
                                              - ip_ofs[i] - get_tot_len(ip));
            n_hits++;
        }
    }
    cache->source->useful += n_hits;
    COVERAGE_ADD(acdc_conn_hit, n_hits);
    return true;
}

bool
acdc_conn_cache_takes(const struct dp_packet *packet,
                      const struct dp_netdev_flow *flow)
{
    struct conn conn;

    return parse(packet, &conn) && dp_packet_rss_valid(packet)
           && !MINIFLOW_GET_BE16(&flow->cr.mask->mf, tcp_flags);
}

void
acdc_conn_cache_insert(struct acdc_conn_cache *cache,
                       const struct dp_packet *packet,
                       struct dp_netdev_flow *flow)
{
    const uint8_t *data = dp_packet_data(packet);
    odp_port_t in_port = packet->md.in_port.odp_port;
    struct conn *room = NULL;
    struct path *path;
    struct conn new;
    uint32_t place;
    bool has_room;
    size_t ip_ofs = parse(packet, &new);

    place = get_place(cache, &new, dp_packet_get_rss_hash(packet));
    for (size_t i = 0; i < WAYS; i++) {
        struct conn *conn = &cache->conns[place ^ i];
        const struct path *its = &cache->paths[conn->path];

        if (conn->gen != its->gen || !is_alive(its)) {
            room = room ? room : conn;
        } else if (is_of(conn, &new) && path_takes(its, data, ip_ofs, in_port)) {
            /* By another packet of the same batch. */
            return;
        }
    }
    has_room = room != NULL;
    if (!has_room) {
        uint32_t random = random_uint32();

        note_pressure(cache);
        /* What will have room is not in vain. */
        cache->source->useful += cache->may_grow;
        if (random % EVICT_INV_PROB) {
            return;
        }
        room = &cache->conns[place ^ random / EVICT_INV_PROB % WAYS];
    }

    /* Last, as it costs more than all this. */
    path = path_get(cache, packet, ip_ofs, flow);
    if (path) {
        if (has_room) {
            cache->source->useful++;
            cache->n_taken += !room->gen;
            if (is_filling(cache)) {
                note_pressure(cache);
            }
        }
        new.path = path - cache->paths;
        new.gen = path->gen;
        *room = new;
        COVERAGE_INC(acdc_conn_insert);
    }
}
