/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Two engines, guests that send anything, a network that drops, duplicates,
 * reorders, marks, corrupts and answers with ICMP, while time passes and the configuration
 * changes.  The input is a program: an operation a byte, operands behind it.
 *
 * Held against DESIGN sections 3, 6 and 7: all passes but for FACKs, absorbed window updates
 * and what a tenant polices; what AC/DC has not to change is as it was (untouched.h); no
 * window raised, none zero unless the peer said zero, nothing of ours at a guest, never
 * more flows than the limit and no memory but for them. */

#include "acdc-private.h"
#include "icmp.h"
#include "sim.h"
#include "untouched.h"

enum {
    N_QUEUE = 8, N_PORTS = 3, MAX_FLOWS = 4, N_KEPT = 4,
    /* Tables of 64 or 128 buckets, policies with a rule or without. */
    MORE_MEMORY = 2 * (64 * 8 + sizeof(struct acdc_rule) + 64),
    ANOTHER_THREAD = 62,        /* That had a flow's lock. */
};
#define HELD_MAX (12 * UINT64_C(1000000000))    /* Of pacing: three RTTs of 2 s, and more. */

static struct sim s;
static struct acdc_port *other_port[2];         /* Of another tenant, "red", which polices. */
static bool swapped[2];         /* 's' has the port of that one. */
static bool polices[2];         /* So does SIM_TENANT. */
static uint64_t n_ended[2];     /* Of count_ended(). */
static int64_t memory_at_first;
static struct packet *queue[2][N_QUEUE];        /* Lists, to guest [i]. */
/* For tail probes, and of which port. */
static struct kept {
    struct packet *p;
    struct acdc_port *port;
} kept[2][N_KEPT];
static bool memory;             /* No failures of memory so far. */
static bool rescales;           /* Windows are in other units. */

/* Into the network, where it takes the place of another one. */
static void
enqueue(int to, struct packet *list)
{
    struct packet **slot = &queue[to][byte() % N_QUEUE];

    packet_free_list(*slot);                    /* Lost. */
    *slot = list;
}

static void
lose_kept(struct kept *k, bool tell)
{
    if (k->p && tell) {
        acdc_tail_lost(k->port);
    }
    packet_free(k->p);
    k->p = NULL;
}

/* A guest's packet did not go on. */
static void
check_dropped(int side, struct packet *before)
{
    struct acdc_pkt pkt;

    CHECK(!memory || swapped[side] || polices[side]
          || (!packet_parse(before, &pkt) && pkt.reason == ACDC_C_UNTOUCHED_FRAGMENT
              && acdc_pkt_hides(&pkt, ACDC_OPT_EXID, false)));
}

static void
sent(int side, const struct packet *before, struct packet *p)
{
    check_packet(before, p, true);
    CHECK(!p->release || p->release <= s.now + HELD_MAX);
    if (p->kept) {
        struct kept *k = &kept[side][byte() % N_KEPT];

        lose_kept(k, true);
        k->p = p->kept;
        k->p->kept_until = p->kept_until;
        k->port = s.port[side];
        p->kept = NULL;
        CHECK(packet_payload_ok(k->p));
        CHECK(!packet_csum_ok(before) || packet_csum_ok(k->p));
    }
}

static void
egress(int side, struct packet *list)
{
    struct batch b;
    struct packet *out, *p;
    unsigned int i = 0;

    remember(&b, list);
    out = sim_egress(&s, side, list);
    /* Each, and before it at most one FACK. */
    CHECK(packet_count(out) <= 2 * b.n);
    for (p = out; p; p = p->next) {
        unsigned int at = find(&b, i, p);

        if (at == b.n) {
            CHECK(packet_is_fack(p) && packet_csum_ok(p));
            continue;
        }
        while (i < at) {
            check_dropped(side, b.was[i++]);
        }
        sent(side, b.was[i++], p);
    }
    while (i < b.n) {
        check_dropped(side, b.was[i++]);
    }
    for (i = 0; i < b.n; i++) {
        packet_free(b.was[i]);
    }
    if (b.n > 1) {
        enqueue(!side, out);
        return;
    }
    while (out) {
        p = out;
        out = p->next;
        p->next = NULL;
        enqueue(!side, p);
    }
}

/* Whether the window 'is', in units that the guest was told, is no larger than 'was' in those
 * of the peer. */
static bool
is_smaller_in_bytes(int side, const struct packet *p, uint16_t was, uint16_t is)
{
    const struct acdc_table *t = s.acdc[side]->table;
    struct acdc_pkt pkt;
    uint8_t ports[4];
    uint32_t i;

    packet_parse(p, &pkt);
    memcpy(ports, acdc_pkt_tcp(&pkt) + 2, 2);
    memcpy(ports + 2, acdc_pkt_tcp(&pkt), 2);
    for (; t && !(pkt.tcp_flags & ACDC_TCP_SYN); t = t->old) {
        for (i = 0; i <= t->mask; i++) {
            const struct acdc_flow *f = acdc_link_load(&t->buckets[i]);

            for (; f; f = acdc_link_load(&f->next)) {
                if (f->ports == acdc_load32(ports)
                    && (uint64_t) is << f->out_wscale <= (uint64_t) was << f->peer_wscale) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* 'alone': nothing behind it has changed the flow already. */
static void
received(int side, const struct packet *before, const struct packet *p, bool alone)
{
    struct acdc_pkt pkt;
    uint16_t was, is;

    if (!packet_parse(before, &pkt) && pkt.reason == ACDC_C_UNTOUCHED_NOT_TCP
        && acdc_pkt_is_icmp(&pkt)) {
        check_icmp(before, p);
        return;
    }
    check_packet(before, p, false);
    if (!packet_parse(p, &pkt)) {
        return;
    }
    was = packet_window(before);
    is = packet_window(p);
    CHECK(is || !was);
    CHECK(is <= was || (rescales && (!alone || is_smaller_in_bytes(side, p, was, is))));
    /* The guest drops a corrupt SYN; so it stays as it is. */
    CHECK(!memory || !packet_is_ours(p)
          || ((pkt.tcp_flags & ACDC_TCP_SYN) && !packet_csum_ok(before)));
    if (pkt.payload || (pkt.tcp_flags & ACDC_TCP_SYN)) {
        s.guest[side].rcv_nxt = pkt.seq + pkt.payload + !!(pkt.tcp_flags & ACDC_TCP_SYN);
    }
}

/* What to a guest ends, as counters of both tenants say. */
static uint64_t
count_ended(int side)
{
    struct acdc_tenant_stats red;

    CHECK(!acdc_tenant_stats_get(s.acdc[side], "red", &red));
    return red.counters[ACDC_C_UPDATES_ABSORBED] + red.counters[ACDC_C_SYNACK_REFUSED]
           + sim_counter(&s, side, ACDC_C_UPDATES_ABSORBED)
           + sim_counter(&s, side, ACDC_C_SYNACK_REFUSED);
}

/* It went to no guest: a FACK, or true for a window update that says nothing new and for the
 * SYN-ACK to another SYN, which a policed guest does not get. */
static bool
is_counted(const struct packet *before)
{
    struct acdc_pkt pkt;

    CHECK(packet_parse(before, &pkt));
    CHECK((pkt.tcp_flags & ACDC_TCP_SYN) || acdc_pkt_is_pure_ack(&pkt));
    return !acdc_pkt_is_fack(&pkt);
}

static void
ingress(int side, struct packet *list)
{
    struct batch b;
    struct packet *out;
    unsigned int i, n = 0, n_counted = 0;

    remember(&b, list);
    out = sim_ingress(&s, side, list);
    for (i = 0; i < b.n; i++) {
        if (b.of[i] == out) {
            struct packet *next = out->next;

            received(side, b.was[i], out, b.n == 1);
            packet_free(out);
            out = next;
        } else {
            n++;
            n_counted += is_counted(b.was[i]);
        }
        packet_free(b.was[i]);
    }
    CHECK(!out);
    if (n) {
        uint64_t before = n_ended[side];

        n_ended[side] = count_ended(side);
        /* The FACK that answered a question is counted, too. */
        CHECK(n_ended[side] - before >= n_counted && n_ended[side] - before <= n);
    }
}

static bool
has_room(const struct tcp_spec *spec, size_t n)
{
    return spec->opts_len + n <= sizeof spec->opts;
}

/* Options of a SYN, or SACK, and what is forged. */
static void
add_options(struct tcp_spec *spec, bool timestamps, uint8_t a, uint8_t b, uint8_t c)
{
    if (spec->flags & ACDC_TCP_SYN) {
        opt_mss(spec, rescales ? (uint16_t) (byte() * 40) : 1460);
        opt_nop(spec, 1);
        opt_wscale(spec, byte() % (rescales ? 16 : 11));
        if (c & 1 || timestamps) {
            opt_sack_ok(spec);
            opt_timestamp(spec, 1, 2);
        }
    } else {
        uint32_t edges[6] = { spec->ack + 1000, spec->ack + 9000 };

        if (timestamps) {
            opt_nop(spec, 2);
            opt_timestamp(spec, (uint32_t) (s.now / SIM_MS), 1);
        }
        if (b & 0x10) {
            opt_nop(spec, 2);
            opt_sack(spec, 1 + b / 64 % 3, edges);
        }
    }
    if ((c & 0xf0) == 0x80 && has_room(spec, ACDC_OPT_FB_LEN)) {
        opt_feedback(spec, ACDC_OPT_EXID, b * 1000u, a * 1000u);
        if (a & 0x40 && has_room(spec, 8)) {
            /* A report: which segment, how long ago, and a time. */
            spec->opts[spec->opts_len - ACDC_OPT_FB_LEN + 1] = ACDC_OPT_REPORT_LEN;
            opt_raw(spec, (const uint8_t[8]) { b, 0, 0, a, c }, 8);
        }
    }
    if ((c & 0xf0) == 0x90 && has_room(spec, ACDC_OPT_CAP_LEN)) {
        opt_capability(spec, ACDC_OPT_EXID);
    }
}

/* The first fragment, or one behind it; IPv6 stays whole. */
static void
fragment(struct packet *p, uint8_t how)
{
    struct acdc_pkt pkt;
    uint8_t *ip;

    if (packet_parse(p, &pkt) && pkt.ip_version == 4) {
        uint16_t field = how & 1 ? 0x2000 : 1;

        ip = acdc_pkt_ip(&pkt);
        acdc_csum_apply(ip + 10, acdc_csum_replace(ip + 6, ACDC_BE16(field)));
    }
}

/* What a guest sends.  'more': there is a byte more of how. */
static struct packet *
make(int side, bool more)
{
    static const uint8_t kinds[16] = {
        ACDC_TCP_ACK, ACDC_TCP_ACK, ACDC_TCP_ACK, ACDC_TCP_ACK, ACDC_TCP_ACK,
        ACDC_TCP_ACK, ACDC_TCP_ACK | ACDC_TCP_PSH, ACDC_TCP_SYN,
        ACDC_TCP_SYN | ACDC_TCP_ACK, ACDC_TCP_SYN | ACDC_TCP_ECE
        | ACDC_TCP_CWR, ACDC_TCP_SYN | ACDC_TCP_ACK | ACDC_TCP_ECE,
        ACDC_TCP_ACK | ACDC_TCP_FIN, ACDC_TCP_ACK | ACDC_TCP_RST,
        ACDC_TCP_RST, ACDC_TCP_ACK | ACDC_TCP_ECE, ACDC_TCP_URG,
    };
    uint8_t a = byte(), b = byte(), c = byte(), d = more ? byte() : 0;
    uint8_t flags = kinds[a & 15];
    uint32_t payload = b & 1 ? (b >> 1) * 30u : 0;
    struct tcp_spec spec;
    struct packet *p;
    bool again = b >= 0xf0;

    s.guest[0].port = (uint16_t) (1000 + (a >> 4) % N_PORTS);
    s.v6 = a & 0x80;
    spec = sim_spec(&s, side, flags, payload);
    spec.vlans = (c & 3 ? 0 : 1) ^ (d & 1);
    spec.ecn = (c >> 2) & 3;
    spec.bad_csum = (c & 0xf0) == 0x50;
    spec.csum_partial = (c & 0xf0) == 0x60 || d & 2;
    spec.gso = (c & 0xf0) == 0x70 || d & 4;
    spec.reserved = c & 0x80 && c & 0x40 ? (c >> 2) & 15 : 0;
    spec.ip_opts = d & 8;
    spec.no_df = d & 16;
    if (again) {
        /* Sent again, or out of the blue. */
        spec.seq += (uint32_t) (int8_t) byte() * 700u;
        spec.ack += (uint32_t) (int8_t) byte() * 700u;
    } else {
        s.guest[side].snd_nxt = spec.seq + payload
                                + !!(flags & (ACDC_TCP_SYN | ACDC_TCP_FIN));
    }
    add_options(&spec, d & 32, a, b, c);
    spec.window = (uint16_t) (b * 257u);
    p = packet_make(&spec);
    p->linear = d & 64 ? 1u + byte() : 0;
    if ((d & 0x9e) == 0x80) {
        fragment(p, byte());
    }
    return p;
}

/* Up to 32 packets. */
static void
send_many(int side, bool more)
{
    struct packet *list = NULL, **tail = &list;
    unsigned int n = 1 + byte() % ACDC_BATCH_MAX;

    for (; n; n--) {
        *tail = make(side, more);
        tail = &(*tail)->next;
    }
    egress(side, list);
}

/* A SYN with another MSS or scale would be another negotiation.  Without its whole checksum a
 * packet goes over no network. */
static void
corrupt(struct packet *p)
{
    struct acdc_pkt pkt;

    if (p->len && packet_parse(p, &pkt) && !pkt.csum_partial
        && (rescales || !(pkt.tcp_flags & ACDC_TCP_SYN))) {
        uint32_t at = byte() * 256u + byte();
        uint8_t *b = packet_data(p) + at % p->len;
        uint8_t old = *b;

        *b ^= byte();
        if (!rescales && packet_parse(p, &pkt)
            && (pkt.tcp_flags & ACDC_TCP_SYN)) {
            *b = old;
        }
    }
}

/* The network.  'more': there is a byte more of how. */
static void
deliver(int side, bool more)
{
    uint8_t a = byte(), linear = more ? byte() : 0;
    struct packet **slot = &queue[side][a % N_QUEUE];
    struct packet *list = *slot, *p;
    struct acdc_pkt pkt;

    if (!list) {
        return;
    }
    if (a & 0x80) {
        list = packet_clone_list(list);         /* Duplicated. */
    } else {
        *slot = NULL;
    }
    for (p = list; p; p = p->next) {
        if (a & 0x40 && packet_parse(p, &pkt)) {
            packet_set_ecn(p, ACDC_ECN_CE);
        }
        p->linear = linear;
    }
    if (a & 0x20) {
        corrupt(list);
    }
    ingress(side, list);
}

static void
answer(int side)
{
    const struct packet *about = queue[!side][byte() % N_QUEUE];
    struct acdc_pkt pkt;

    if (about && packet_parse(about, &pkt)) {
        ingress(side, quote(about, &pkt));
    }
}

/* The time of what was kept has come, or not. */
static void
probe(int side, bool in_time)
{
    struct kept *k = &kept[side][byte() % N_KEPT];
    struct packet *p = k->p, *before;

    if (!p) {
        return;
    }
    k->p = NULL;
    before = packet_clone(p);
    s.now = in_time && p->kept_until > s.now ? p->kept_until : s.now;
    p = host_process(k->port, ACDC_TAIL, p, s.now);
    CHECK(!p || (!p->next && !p->kept && packet_same(before, p)));
    if (p && p->release) {
        p->kept_until = p->release;
        k->p = p;
    } else if (p) {
        enqueue(!side, p);
    }
    packet_free(before);
}

/* The port goes, and with it what was kept, and comes again. */
static void
bind_anew(int side)
{
    struct acdc_port **port = swapped[side] ? &other_port[side] : &s.port[side];
    int i;

    for (i = 0; i < N_KEPT; i++) {
        if (kept[side][i].port == *port) {
            lose_kept(&kept[side][i], false);
        }
    }
    CHECK(!acdc_port_unbind(s.acdc[side], SIM_PORT_NO) || !*port);
    host_quiesce();             /* For its place, else there are more and more. */
    *port = acdc_port_bind(s.acdc[side], SIM_PORT_NO, "vnet7", SIM_TENANT, SIM_MTU);
    CHECK(*port || !memory);
}

/* Which it was before this one, as a thread of its own processes the other direction. */
static void
share(int side)
{
    const struct acdc_table *t = s.acdc[side]->table;
    uint32_t i;

    for (i = 0; i <= t->mask; i++) {
        if (t->buckets[i]) {
            acdc_link_load(&t->buckets[i])->lock = ANOTHER_THREAD;
        }
    }
}

/* 'more': there is a byte more, of what is set seldom. */
static void
policy(int side, bool more)
{
    struct acdc_rule rule;
    struct acdc_tenant_config tc = { .name = SIM_TENANT, .rules = &rule };
    uint8_t a = byte(), b = byte(), c = more ? byte() : 0;

    tc.params = acdc_params_default;
    tc.params.algorithm = c & 1 ? ACDC_ALG_SWIFT : a & 3;
    tc.params.fallback = (a >> 2) % 3;
    tc.params.mode = (a >> 4) & 1;
    tc.params.enabled = (a & 0x60) != 0x60;
    tc.params.police = a & 0x80;
    tc.params.beta = ACDC_FIX_ONE / 4 * (b & 3);
    tc.params.max_window = b & 4 ? b * 100u : 0;
    tc.params.min_window = b & 8 ? b * 50u : 0;
    tc.params.gain = b & 16 ? 1 : ACDC_FIX_ONE / 16;
    tc.params.ecn_syn = b & 32;
    tc.params.align_mss = tc.params.spread_cuts = b & 128;
    tc.params.small_windows = b & 128;
    tc.params.on_ramp = c & 2 ? 1u + (c >> 4) * 20 : (b & 5) == 5;
    tc.params.pace = c & 4;
    tc.params.plb = c & 8;
    tc.params.tail_probe = c & 16 ? 1u + (c >> 5) * 1000 : 0;
    tc.n_rules = b & 64 ? 1 : 0;
    memset(&rule, 0, sizeof rule);
    rule.match.local_port_max = rule.match.remote_port_max = 2000;
    rule.params = tc.params;
    rule.params.algorithm = ACDC_ALG_CUBIC;
    if (!acdc_tenant_set(s.acdc[side], &tc)) {
        polices[side] = tc.params.police;
    }
}

/* What is no packet and no time. */
static void
administer(uint8_t op, int side, bool more)
{
    struct acdc_config c;
    struct acdc_flow_info fi[3];
    uint64_t cursor = 0;

    switch (op & 31) {
    case 18:
        policy(side, more);
        break;
    case 19:
        acdc_sweep(s.acdc[side], s.now, byte());
        break;
    case 20:
        acdc_flush(s.acdc[side], byte() & 1 ? SIM_TENANT : NULL, NULL);
        break;
    case 21:
        acdc_config_get(s.acdc[side], &c);
        c.max_flows = MAX_FLOWS + byte() % 100u;
        acdc_config_set(s.acdc[side], &c);
        c.max_flows = MAX_FLOWS;
        if (acdc_config_set(s.acdc[side], &c)) {
            /* Out of memory: not changed.  Once is enough. */
            CHECK(!acdc_config_set(s.acdc[side], &c));
        }
        break;
    case 22:
        while (acdc_dump(s.acdc[side], &cursor, s.now, fi, 3)) {
            continue;
        }
        break;
    case 23:
        if (more) {
            bind_anew(side);
            break;
        }
        /* An MTU that leaves no room for options. */
        acdc_port_bind(s.acdc[side], SIM_PORT_NO, "vnet7", SIM_TENANT,
                       byte() * 10);
        break;
    case 24:
        host_fail((enum host_call) (byte() % HOST_N_CALLS), 1 + (op >> 5) % 2,
                  1);
        memory = false;
        break;
    default:
        host_quiesce();
        CHECK(host_allocated() <= memory_at_first + MORE_MEMORY
              + (sim_n_flows(&s, 0) + sim_n_flows(&s, 1))
                * (int64_t) acdc_flow_size(true));
        break;
    }
}

/* Another guest, another tenant, the same addresses. */
static void
swap(int side)
{
    struct acdc_port *port = other_port[side];

    other_port[side] = s.port[side];
    s.port[side] = port;
    swapped[side] = !swapped[side];
}

static void
operate(void)
{
    uint8_t op = byte();
    int side = op >> 7;
    bool more = op & 32;

    switch (op & 31) {
    case 0: case 1: case 2: case 3: case 4: case 5: case 6: case 7:
        egress(side, make(side, more));
        break;
    case 8: case 9: case 10: case 11: case 12: case 13: case 14: case 15:
        deliver(side, more);
        break;
    case 16:
        s.now += byte() * (more ? SIM_MS / 32 : SIM_MS);
        break;
    case 17:
        s.now += byte() * 1000 * SIM_MS;
        break;
    case 25:
        s.now -= byte() % 4 * SIM_MS;           /* Another thread's clock. */
        break;
    case 26:
        swap(side);
        break;
    case 27:
        probe(side, more);
        break;
    case 28:
        answer(side);
        break;
    case 29:
        send_many(side, more);
        break;
    case 30:
        share(side);
        break;
    default:
        administer(op, side, more);
        break;
    }
}

static void
finish(void)
{
    int i, k;

    for (i = 0; i < HOST_N_CALLS; i++) {
        host_fail((enum host_call) i, 0, 0);
    }
    for (i = 0; i < 2; i++) {
        struct acdc_stats stats;

        for (k = 0; k < N_KEPT; k++) {
            lose_kept(&kept[i][k], true);
        }
        acdc_flush(s.acdc[i], NULL, NULL);
        acdc_stats_get(s.acdc[i], &stats);
        CHECK(!stats.n_flows && !stats.n_half_open && !stats.n_closed);
        for (k = 0; k < N_QUEUE; k++) {
            packet_free_list(queue[i][k]);
            queue[i][k] = NULL;
        }
    }
    sim_done(&s);
    CHECK(!host_allocated());
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct acdc_config config = {
        .max_flows = MAX_FLOWS, .idle_timeout = 100, .exid = ACDC_OPT_EXID,
    };
    struct acdc_params params = acdc_params_default;
    uint8_t first;
    int i;

    input = data;
    left = size;
    memory = true;
    first = byte();
    rescales = first & 1;
    params.on_ramp = first & 2;
    params.pace = first & 4;
    params.plb = first & 8;
    params.tail_probe = first & 16 ? 1000 : 0;
    params.algorithm = first & 32 ? ACDC_ALG_SWIFT : params.algorithm;
    sim_init(&s, &params, &params);
    for (i = 0; i < 2; i++) {
        struct acdc_tenant_config tc = { .name = "red",
                                         .params = acdc_params_default };

        swapped[i] = polices[i] = false;
        n_ended[i] = 0;
        acdc_config_set(s.acdc[i], &config);
        acdc_set_host(s.acdc[i], ACDC_HOST_HOLDS | ACDC_HOST_KEEPS);
        tc.params.police = true;
        acdc_tenant_set(s.acdc[i], &tc);
        other_port[i] = acdc_port_bind(s.acdc[i], SIM_PORT_NO + 1, "vnet8",
                                       "red", SIM_MTU);
    }
    host_quiesce();
    memory_at_first = host_allocated();
    while (left) {
        operate();
        CHECK(sim_n_flows(&s, 0) <= MAX_FLOWS);
        CHECK(sim_n_flows(&s, 1) <= MAX_FLOWS);
    }
    finish();
    return 0;
}
