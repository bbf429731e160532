// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

/* What a port recalls beside its flows, in tables of fixed size: which paths drop
 * the capability, what they have as MTU, which addresses are its guest's, and how much
 * TCP went to the guest that the engine could not follow. */

#include "acdc-table.h"

/* Of one address of 'p', the guest's or the peer's; of the upper half all bits are
 * good. */
static uint64_t
hash_address(const struct acdc_ctx *ctx, const struct acdc_pkt *p, bool guest)
{
    bool source = guest == (ctx->dir == ACDC_EGRESS);
    const uint8_t *ip = acdc_pkt_ip(p);

    if (p->ip_version == 4) {
        return acdc_hash_mix(ctx->basis ^ acdc_load32(ip + (source ? 12 : 16)));
    }
    ip += source ? 8 : 24;
    return acdc_hash_mix(acdc_hash_mix(ctx->basis ^ acdc_load64(ip))
                         ^ acdc_load64(ip + 8));
}

/* Paths.  An entry is a hash of the peer's address, a bit that says what is known,
 * and the time; 0: none.  The hash may be another address's, for one of 2^15. */
enum {
    PATH_TIME_MASK = 0xffff,
    PATH_PASSES = 1 << 16,
    PATH_HASH_SHIFT = 17,
};

static uint32_t
path_time(const struct acdc_ctx *ctx)
{
    return ctx->now_ms / ACDC_PATH_UNIT_MS & PATH_TIME_MASK;
}

/* Its entry, and in '*hash' what that has of the hash if it is for this path. */
static acdc_a32 *
path_entry(const struct acdc_ctx *ctx, const struct acdc_pkt *p,
           uint32_t *hash)
{
    uint64_t h = hash_address(ctx, p, false);

    ACDC_BUILD_ASSERT(ACDC_PATHS == 256);
    *hash = (uint32_t) (h >> 32) << PATH_HASH_SHIFT;
    return &ctx->port->paths[h >> 56];
}

static uint32_t
path_age(const struct acdc_ctx *ctx, uint32_t entry)
{
    return (path_time(ctx) - entry) & PATH_TIME_MASK;
}

static bool
is_fresh(const struct acdc_ctx *ctx, uint32_t entry)
{
    return entry && path_age(ctx, entry) <= ACDC_PATH_UNITS;
}

enum acdc_path
acdc_recall_path(const struct acdc_ctx *ctx, const struct acdc_pkt *p)
{
    uint32_t hash;
    uint32_t entry = acdc_a32_read(path_entry(ctx, p, &hash));

    if (!is_fresh(ctx, entry) || entry >> PATH_HASH_SHIFT != hash >> PATH_HASH_SHIFT) {
        return ACDC_PATH_UNKNOWN;
    }
    return entry & PATH_PASSES ? ACDC_PATH_PASSES : ACDC_PATH_DROPS;
}

void
acdc_recall_note_path(const struct acdc_ctx *ctx, const struct acdc_pkt *p,
                      bool passes)
{
    uint32_t hash;
    acdc_a32 *place = path_entry(ctx, p, &hash);
    uint32_t entry = acdc_a32_read(place);
    bool same = entry >> PATH_HASH_SHIFT == hash >> PATH_HASH_SHIFT;
    uint32_t new = hash | (passes ? PATH_PASSES : 0) | path_time(ctx);

    /* A path that passed the capability lost a packet.  Another one that drops it
     * is worth more than one that does not. */
    if (is_fresh(ctx, entry) && (passes ? !same && !(entry & PATH_PASSES)
                                        : same && (entry & PATH_PASSES))) {
        return;
    }
    if (entry != new) {
        acdc_a32_set(place, new);
    }
}

/* MTUs of paths, each with the time; 0: none. ------------------------------- */

enum { MTU_SHIFT = 16 };

/* In the place where it is, or of what was heard of first. */
void
acdc_recall_mtu(const struct acdc_ctx *ctx, uint32_t mtu)
{
    acdc_a32 *mtus = ctx->port->mtus;
    uint32_t oldest = 0, place = 0, i;

    for (i = 0; i < ACDC_MTUS; i++) {
        uint32_t entry = acdc_a32_read(&mtus[i]);

        if (!entry || entry >> MTU_SHIFT == mtu) {
            place = i;
            break;
        }
        if (path_age(ctx, entry) >= oldest) {
            oldest = path_age(ctx, entry);
            place = i;
        }
    }
    acdc_a32_set(&mtus[place], mtu << MTU_SHIFT | path_time(ctx));
}

bool
acdc_path_has_room(const struct acdc_ctx *ctx, uint32_t before, uint32_t after)
{
    unsigned int i;

    for (i = 0; i < ACDC_MTUS; i++) {
        uint32_t entry = acdc_a32_read(&ctx->port->mtus[i]);
        uint32_t mtu = entry >> MTU_SHIFT;

        if (before <= mtu && mtu < after && is_fresh(ctx, entry)) {
            return false;
        }
    }
    return true;
}

/* Addresses. --------------------------------------------------------------- */

static acdc_a32 *
address_entry(const struct acdc_ctx *ctx, const struct acdc_pkt *p,
              uint32_t *hash)
{
    uint64_t h = hash_address(ctx, p, true);

    ACDC_BUILD_ASSERT(ACDC_ADDRESSES == 64);
    *hash = (uint32_t) (h >> 26) | 1;
    return &ctx->port->addresses[h >> 58];
}

void
acdc_recall_address(const struct acdc_ctx *ctx, const struct acdc_pkt *p)
{
    uint32_t hash;
    acdc_a32 *place = address_entry(ctx, p, &hash);

    if (acdc_a32_read(place) != hash) {
        acdc_a32_set(place, hash);
    }
}

bool
acdc_recall_is_guest(const struct acdc_ctx *ctx, const struct acdc_pkt *p)
{
    uint32_t hash;

    return acdc_a32_read(address_entry(ctx, p, &hash)) == hash;
}

/* What could not be followed. ---------------------------------------------- */

static struct acdc_unseen *
unseen_entry(const struct acdc_ctx *ctx, uint64_t addrs)
{
    ACDC_BUILD_ASSERT(ACDC_UNSEEN == 16);
    return &ctx->port->unseen[acdc_hash_mix(ctx->basis ^ addrs) >> 60];
}

/* Bytes of TCP that a fragment has behind its IP headers.  None that its length claims
 * and that did not come. */
static uint32_t
fragment_bytes(const struct acdc_pkt *p)
{
    const uint8_t *ip = acdc_pkt_ip(p);
    bool v4 = ip[0] >> 4 == 4;
    uint32_t len = acdc_ip_len_said(ip);
    uint32_t ofs = ACDC_IP6_HLEN;
    uint8_t next = ip[6];

    len = len < p->len - p->l3_ofs ? len : p->len - p->l3_ofs;
    if (v4) {
        return ip[9] == ACDC_IPPROTO_TCP ? len - (ip[0] & 0xfu) * 4 : 0;
    }
    while (p->l3_ofs + ofs + 8 <= p->hlen && ofs + 8 <= len) {
        if (next == ACDC_IPPROTO_FRAGMENT) {
            return ip[ofs] == ACDC_IPPROTO_TCP ? len - ofs - 8 : 0;
        }
        next = ip[ofs];
        ofs += 8u + ip[ofs + 1] * 8u;
    }
    return 0;
}

/* How much of TCP a packet has whose length its header cannot say (BIG TCP). */
static uint32_t
big_bytes(const struct acdc_pkt *p)
{
    return p->gso && p->l4_ofs > p->l3_ofs && p->l4_ofs <= p->hlen
           ? p->len - p->l4_ofs : 0;
}

void
acdc_recall_unseen(const struct acdc_ctx *ctx, const struct acdc_pkt *p)
{
    uint32_t bytes = p->reason == ACDC_C_UNTOUCHED_FRAGMENT ? fragment_bytes(p)
                     : p->reason == ACDC_C_UNTOUCHED_LENGTH ? big_bytes(p)
                     : p->reason == ACDC_C_UNTOUCHED_OPTIONS ? p->payload : 0;
    struct acdc_unseen *u;
    uint64_t addrs;

    if (!bytes) {
        return;
    }
    if (acdc_pkt_ip(p)[0] >> 4 == 4) {
        addrs = acdc_load64(acdc_pkt_ip(p) + 12);
        addrs = addrs << 32 | addrs >> 32;
    } else {
        addrs = acdc_hash_addrs6(ctx, p) & ACDC_ADDRS6;
    }
    u = unseen_entry(ctx, addrs);
    acdc_lock(&ctx->port->recall_lock);
    if (u->addrs != addrs
        || elapsed_ms(ctx->now_ms, u->ms) >= ACDC_UNSEEN_MS) {
        u->addrs = addrs;
        u->bytes = 0;
    }
    u->ms = ctx->now_ms;
    u->bytes = bytes < ACDC_PLAUSIBLE - u->bytes ? u->bytes + bytes
                                                 : ACDC_PLAUSIBLE;
    acdc_unlock(&ctx->port->recall_lock);
}

bool
acdc_recall_excuses(const struct acdc_ctx *ctx, const struct acdc_flow *f,
                    uint32_t bytes)
{
    uint64_t addrs = acdc_flow_addrs(f)
                     & (acdc_flow_is_v6(f) ? ACDC_ADDRS6 : ~(uint64_t) 0);
    struct acdc_unseen *u = unseen_entry(ctx, addrs);
    bool excused;

    acdc_lock(&ctx->port->recall_lock);
    excused = u->addrs == addrs && u->bytes >= bytes
              && elapsed_ms(ctx->now_ms, u->ms) < ACDC_UNSEEN_MS;
    if (excused) {
        u->bytes -= bytes;
    }
    acdc_unlock(&ctx->port->recall_lock);
    return excused;
}
