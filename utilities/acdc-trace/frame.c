/* SPDX-License-Identifier: Apache-2.0 */

/* From a frame to the TCP segment in it, also inside of VXLAN and Geneve. */

/* It comes before acdc.h, which trace.h has. */
#include "acdc-parse.h"

#include "trace.h"

#include <pcap/dlt.h>

enum {
    UDP_HLEN = 8,
    VXLAN_PORT = 4789, VXLAN_HLEN = 8,  /* RFC 7348 */
    GENEVE_PORT = 6081, GENEVE_HLEN = 8,        /* RFC 8926 */
    GENEVE_ETHERNET = 0x6558,
    IPPROTO_UDP_NR = 17,
    SLL_HLEN = 16, SLL2_HLEN = 20,      /* Linux "cooked" captures. */
    NULL_HLEN = 4,
    MAX_TUNNELS = 2,
    HEADERS = 512,
    IP_LEN_MAX = 0xffff, BIG_TCP_MAX = 8 * IP_LEN_MAX,  /* Linux's most. */
};

/* The host's part of the parser: what the capture lacks cannot be had. */
bool
acdc_host_linear(struct acdc_pkt *p, unsigned int n)
{
    return n <= p->hlen;
}

bool
frame_knows(int linktype)
{
    switch (linktype) {
    case DLT_EN10MB:
    case DLT_LINUX_SLL:
    case DLT_LINUX_SLL2:
    case DLT_RAW:
    case DLT_IPV4:
    case DLT_IPV6:
    case DLT_NULL:
    case DLT_LOOP:
        return true;
    default:
        return false;
    }
}

/* The Ethernet type behind VLAN tags, of which 'type' says that they are at '*ofs';
 * moves that behind them and sets '*vids', as the parser does with Ethernet's. */
static uint16_t
skip_tags(const uint8_t *data, uint32_t hlen, uint16_t type, uint16_t *ofs,
          uint32_t *vids)
{
    unsigned int n;

    for (n = 0; n < ACDC_MAX_VLANS && hlen >= *ofs + (uint32_t) ACDC_VLAN_HLEN
                && (type == ACDC_ETHERTYPE_VLAN || type == ACDC_ETHERTYPE_QINQ); n++) {
        uint32_t vid = acdc_get16(data + *ofs) & ACDC_VID_MASK;

        if (vid && *vids <= ACDC_VID_MASK) {
            *vids = *vids << 12 | vid;
        }
        type = acdc_get16(data + *ofs + 2);
        *ofs = (uint16_t) (*ofs + ACDC_VLAN_HLEN);
    }
    return type;
}

/* The Ethernet type of what is behind a header of 'linktype' that is not Ethernet's, and
 * behind VLAN tags '*vids'; sets '*ofs' to where that begins.  0: none. */
static uint16_t
network_type(const uint8_t *data, uint32_t hlen, int linktype, uint16_t *ofs,
             uint32_t *vids)
{
    uint8_t first;

    switch (linktype) {
    case DLT_LINUX_SLL:
        *ofs = SLL_HLEN;
        return hlen < SLL_HLEN ? 0
               : skip_tags(data, hlen, acdc_get16(data + 14), ofs, vids);
    case DLT_LINUX_SLL2:
        *ofs = SLL2_HLEN;
        return hlen < SLL2_HLEN ? 0
               : skip_tags(data, hlen, acdc_get16(data), ofs, vids);
    case DLT_NULL:
    case DLT_LOOP:
        *ofs = NULL_HLEN;
        break;
    default:
        *ofs = 0;
        break;
    }
    first = hlen > *ofs ? data[*ofs] >> 4 : 0;
    return first == 4 ? ACDC_ETHERTYPE_IP4 : first == 6 ? ACDC_ETHERTYPE_IP6 : 0;
}

/* Whether 'p', which is not TCP, is a tunnel.  Sets '*ofs' to where the Ethernet
 * frame inside begins, and '*vni'. */
static bool
is_tunnel(const struct acdc_pkt *p, uint32_t *ofs, uint32_t *vni)
{
    const uint8_t *ip = p->data + p->l3_ofs;
    const uint8_t *udp = p->data + p->l4_ofs, *inner;
    uint32_t hlen = UDP_HLEN + VXLAN_HLEN;

    if (p->reason != ACDC_C_UNTOUCHED_NOT_TCP || p->l4_ofs <= p->l3_ofs
        || p->l4_ofs + hlen > p->hlen
        || (ip[0] >> 4 == 4 ? ip[9] : ip[6]) != IPPROTO_UDP_NR) {
        return false;
    }
    inner = udp + UDP_HLEN;
    switch (acdc_get16(udp + 2)) {
    case VXLAN_PORT:
        break;
    case GENEVE_PORT:
        if (acdc_get16(inner + 2) != GENEVE_ETHERNET) {
            return false;
        }
        hlen = UDP_HLEN + GENEVE_HLEN + (inner[0] & 0x3f) * 4u;
        break;
    default:
        return false;
    }
    *vni = acdc_get32(inner + 4) >> 8;
    *ofs = p->l4_ofs + hlen;
    return *ofs <= p->hlen;
}

static void
copy_addresses(const struct acdc_pkt *p, struct segment *s)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    const uint8_t *ip = p->data + p->l3_ofs;
    int i;

    for (i = 0; i < 2; i++) {
        if (p->ip_version == 4) {
            memcpy(s->addr[i], mapped, sizeof mapped);
            memcpy(s->addr[i] + sizeof mapped, ip + 12 + 4 * i, 4);
        } else {
            memcpy(s->addr[i], ip + 8 + 16 * i, 16);
        }
    }
}

static void
to_segment(const struct acdc_pkt *p, struct segment *s)
{
    const uint8_t *tcp = p->data + p->l4_ofs;

    copy_addresses(p, s);
    s->port[0] = acdc_get16(tcp);
    s->port[1] = acdc_get16(tcp + 2);
    s->seq = p->seq;
    s->ack = p->ack;
    s->payload = p->payload;
    s->window = acdc_pkt_window(p);
    s->flags = p->tcp_flags;
    s->ecn = acdc_pkt_ecn(p);
    s->fack = acdc_pkt_reserved(p) & ACDC_RES_FACK;
    s->timestamps = p->opt_flags & ACDC_O_TIMESTAMP;
    if (s->timestamps) {
        s->ts_val = acdc_get32(tcp + p->ts_ofs + 2);
        s->ts_ecr = acdc_get32(tcp + p->ts_ofs + 6);
    }
    s->capability = p->opt_flags & ACDC_O_CAPABILITY;
    s->feedback = p->opt_flags & ACDC_O_FEEDBACK;
    s->sack = p->opt_flags & ACDC_O_SACK;
    s->has_wscale = p->opt_flags & ACDC_O_WSCALE;
    s->wscale = 0;
    if (s->has_wscale) {
        s->wscale = p->wscale < ACDC_WSCALE_MAX ? p->wscale : ACDC_WSCALE_MAX;
    }
    s->mss = p->opt_flags & ACDC_O_MSS ? p->mss : 0;
    if (s->feedback) {
        acdc_pkt_get_feedback(p, &s->fb_ce, &s->fb_total);
    }
}

static void
count(struct frame_counts *counts, const struct acdc_pkt *p)
{
    switch (p->reason) {
    case ACDC_C_UNTOUCHED_MEMORY:
        counts->cut++;
        break;
    case ACDC_C_UNTOUCHED_LENGTH:
    case ACDC_C_UNTOUCHED_OPTIONS:
    case ACDC_C_UNTOUCHED_FLAGS:
    case ACDC_C_REFUSED:
        counts->malformed++;
        break;
    default:
        counts->other++;
        break;
    }
}

/* A large segment that a NIC is to cut up may have no length in its IP header (Windows, BIG
 * TCP): it ends with the frame.  Then this parses 'copy', in which it has the largest there is,
 * and adds what is left to the payload. */
static bool
parse(struct acdc_pkt *p, uint16_t exid, uint8_t copy[HEADERS])
{
    const struct acdc_pkt old = *p;
    uint32_t field, hlen, held, len, told;

    if (acdc_pkt_parse(p, exid)) {
        return true;
    }
    if (p->reason != ACDC_C_UNTOUCHED_LENGTH) {
        return false;
    }
    held = old.hlen < HEADERS ? old.hlen : HEADERS;
    if (p->l3_ofs + (uint32_t) ACDC_IP4_HLEN > held) {
        return false;
    }
    hlen = p->data[p->l3_ofs] >> 4 == 4 ? 0 : ACDC_IP6_HLEN;
    field = p->l3_ofs + (hlen ? 4u : 2u);
    len = p->len - p->l3_ofs - hlen;
    if (acdc_get16(p->data + field) || len > BIG_TCP_MAX) {
        return false;
    }
    told = len < IP_LEN_MAX ? len : IP_LEN_MAX;
    *p = old;
    p->hlen = held;
    memcpy(copy, p->data, held);
    copy[field] = (uint8_t) (told >> 8);
    copy[field + 1] = (uint8_t) told;
    p->data = copy;
    if (!acdc_pkt_parse(p, exid)) {
        return false;
    }
    p->payload += len - told;
    return true;
}

bool
frame_read(const uint8_t *data, uint32_t hlen, uint32_t len, int linktype,
           uint16_t exid, struct segment *s, struct frame_counts *counts)
{
    uint32_t vni = 0, ofs, depth, vids;
    uint8_t copy[HEADERS];
    struct acdc_pkt p;

    s->network = 0;
    for (depth = 0;; depth++) {
        uint16_t type = 0, at = 0;

        vids = 0;
        if (linktype != DLT_EN10MB) {
            type = network_type(data, hlen, linktype, &at, &vids);
            if (!type) {
                counts->other++;
                return false;
            }
        }
        /* The parser writes nothing. */
        acdc_pkt_init(&p, (uint8_t *) (uintptr_t) data, len, hlen);
        p.ethertype = type;
        p.l3_ofs = at;
        p.vids = 0;
        if (parse(&p, exid, copy)) {
            break;
        }
        if (depth == MAX_TUNNELS || !is_tunnel(&p, &ofs, &vni)) {
            count(counts, &p);
            return false;
        }
        data += ofs;
        hlen -= ofs;
        len -= ofs;
        linktype = DLT_EN10MB;
        s->network = vni << 8 ^ 1;
    }
    s->network ^= vids | (p.kind == ACDC_KIND_4 ? 0 : p.vids);
    to_segment(&p, s);
    counts->tcp++;
    return true;
}
