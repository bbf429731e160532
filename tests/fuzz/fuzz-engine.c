/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Two engines, guests that send anything, a network that drops, duplicates,
 * reorders, marks and corrupts, while time passes and the configuration
 * changes.  The input is a program: an operation a byte, operands behind it.
 *
 * Held against DESIGN sections 3, 6 and 7: payload untouched, checksums as
 * right as they were, what is not understood passes bit for bit, no window
 * raised, none zero unless the peer said zero, nothing of ours at a guest, never
 * more flows than the limit and no memory but for them. */

#include "acdc-private.h"
#include "program.h"
#include "sim.h"

enum {
    N_QUEUE = 8, N_PORTS = 3, MAX_FLOWS = 4,
    /* Tables of 64 or 128 buckets, policies with a rule or without. */
    MORE_MEMORY = 2 * (64 * 8 + sizeof(struct acdc_rule) + 64),
};

static struct sim s;
static struct acdc_port *other_port[2];         /* Of another tenant. */
static int64_t memory_at_first;
static struct packet *queue[2][N_QUEUE];        /* To guest [i]. */
static bool memory;             /* No failures of memory so far. */
static bool rescales;           /* Windows are in other units. */

static uint8_t *
payload_of(const struct packet *p, uint32_t *len)
{
    struct acdc_pkt pkt;

    packet_parse(p, &pkt);
    *len = pkt.payload;
    return acdc_pkt_tcp(&pkt) + pkt.tcp_hlen;
}

/* What must hold of 'p', that was 'before'. */
static void
check_packet(const struct packet *before, const struct packet *p)
{
    struct acdc_pkt pkt;
    uint32_t n, m;

    if (!packet_parse(before, &pkt)) {
        CHECK(packet_same(before, p));
        return;
    }
    CHECK(packet_parse(p, &pkt));
    CHECK(packet_csum_ok(before) == packet_csum_ok(p)
          || (p->csum_partial && !packet_csum_ok(before)));
    {
        const uint8_t *a = payload_of(before, &n);
        const uint8_t *b = payload_of(p, &m);

        CHECK(n == m && !memcmp(a, b, n));
    }
}

static void
egress(int side, struct packet *p)
{
    struct packet *before = packet_clone(p);
    struct packet *out = sim_egress(&s, side, p);
    unsigned int n = packet_count(out);

    /* Itself, and before it at most one FACK. */
    CHECK(n <= 2);
    while (out) {
        struct packet *next = out->next;
        unsigned int i = byte() % N_QUEUE;

        out->next = NULL;
        if (next) {
            CHECK(packet_is_fack(out) && packet_csum_ok(out));
        } else {
            check_packet(before, out);
        }
        packet_free(queue[!side][i]);           /* Lost. */
        queue[!side][i] = out;
        out = next;
    }
    packet_free(before);
}

static void
ingress(int side, struct packet *p)
{
    struct packet *before = packet_clone(p);
    struct packet *out = sim_ingress(&s, side, p);
    struct acdc_pkt pkt;

    CHECK(packet_count(out) <= 1);
    if (out) {
        check_packet(before, out);
        if (packet_parse(out, &pkt)) {
            uint16_t was = packet_window(before);
            uint16_t is = packet_window(out);

            CHECK(is || !was);
            CHECK(rescales || is <= was);
            /* The guest drops a corrupt SYN; so it stays as it is. */
            CHECK(!memory || !packet_is_ours(out)
                  || ((pkt.tcp_flags & ACDC_TCP_SYN)
                      && !packet_csum_ok(before)));
            if (pkt.payload || (pkt.tcp_flags & ACDC_TCP_SYN)) {
                s.guest[side].rcv_nxt = pkt.seq + pkt.payload
                                        + !!(pkt.tcp_flags & ACDC_TCP_SYN);
            }
        }
    } else {
        /* Only what is no data ends here, or the SYN-ACK to another SYN, which a
         * policed guest does not get, whatever is in it. */
        CHECK(packet_parse(before, &pkt)
              && (!pkt.payload || (pkt.tcp_flags & ACDC_TCP_SYN)));
    }
    packet_free_list(out);
    packet_free(before);
}

static void
send(int side)
{
    static const uint8_t kinds[16] = {
        ACDC_TCP_ACK, ACDC_TCP_ACK, ACDC_TCP_ACK, ACDC_TCP_ACK, ACDC_TCP_ACK,
        ACDC_TCP_ACK, ACDC_TCP_ACK | ACDC_TCP_PSH, ACDC_TCP_SYN,
        ACDC_TCP_SYN | ACDC_TCP_ACK, ACDC_TCP_SYN | ACDC_TCP_ECE
        | ACDC_TCP_CWR, ACDC_TCP_SYN | ACDC_TCP_ACK | ACDC_TCP_ECE,
        ACDC_TCP_ACK | ACDC_TCP_FIN, ACDC_TCP_ACK | ACDC_TCP_RST,
        ACDC_TCP_RST, ACDC_TCP_ACK | ACDC_TCP_ECE, ACDC_TCP_URG,
    };
    uint8_t a = byte(), b = byte(), c = byte();
    uint8_t flags = kinds[a & 15];
    uint32_t payload = b & 1 ? (b >> 1) * 30u : 0;
    struct tcp_spec spec;
    struct packet *p;
    bool advance = true;

    s.guest[0].port = (uint16_t) (1000 + (a >> 4) % N_PORTS);
    s.v6 = a & 0x80;
    spec = sim_spec(&s, side, flags, payload);
    spec.vlans = c & 3 ? 0 : 1;
    spec.ecn = (c >> 2) & 3;
    spec.bad_csum = (c & 0xf0) == 0x50;
    spec.csum_partial = (c & 0xf0) == 0x60;
    spec.gso = (c & 0xf0) == 0x70;
    spec.reserved = c & 0x80 && c & 0x40 ? (c >> 2) & 15 : 0;
    if (b >= 0xf0) {
        /* Sent again, or out of the blue. */
        spec.seq += (uint32_t) (int8_t) byte() * 700u;
        spec.ack += (uint32_t) (int8_t) byte() * 700u;
        advance = false;
    }
    if (flags & ACDC_TCP_SYN) {
        opt_mss(&spec, rescales ? (uint16_t) (byte() * 40) : 1460);
        opt_nop(&spec, 1);
        opt_wscale(&spec, byte() % (rescales ? 16 : 11));
        if (c & 1) {
            opt_sack_ok(&spec);
            opt_timestamp(&spec, 1, 2);
        }
    } else if (b & 0x10) {
        uint32_t edges[6] = { spec.ack + 1000, spec.ack + 9000 };

        opt_nop(&spec, 2);
        opt_sack(&spec, 1 + b / 64 % 3, edges);
    }
    if ((c & 0xf0) == 0x80) {
        opt_feedback(&spec, ACDC_OPT_EXID, b * 1000u, a * 1000u);
        if (a & 0x40 && spec.opts_len + 8 <= sizeof spec.opts) {
            /* A report: which segment, how long ago, and a time. */
            spec.opts[spec.opts_len - ACDC_OPT_FB_LEN + 1] = ACDC_OPT_REPORT_LEN;
            opt_raw(&spec, (const uint8_t[8]) { b, 0, 0, a, c }, 8);
        }
    }
    if ((c & 0xf0) == 0x90) {
        opt_capability(&spec, ACDC_OPT_EXID);
    }
    spec.window = (uint16_t) (b * 257u);
    p = packet_make(&spec);
    if (advance) {
        s.guest[side].snd_nxt = spec.seq + payload
                                + !!(flags & (ACDC_TCP_SYN | ACDC_TCP_FIN));
    }
    egress(side, p);
}

/* The network. */
static void
deliver(int side)
{
    uint8_t a = byte();
    struct packet **slot = &queue[side][a % N_QUEUE];
    struct packet *p = *slot;
    struct acdc_pkt pkt;

    if (!p) {
        return;
    }
    if (a & 0x80) {
        p = packet_clone(p);            /* Duplicated. */
    } else {
        *slot = NULL;
    }
    if (a & 0x40 && packet_parse(p, &pkt)) {
        packet_set_ecn(p, ACDC_ECN_CE);
    }
    /* A SYN with another MSS or scale would be another negotiation.  Without its whole checksum
     * a packet goes over no network. */
    if (a & 0x20 && p->len && packet_parse(p, &pkt) && !pkt.csum_partial
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
    ingress(side, p);
}

static void
policy(int side)
{
    struct acdc_rule rule;
    struct acdc_tenant_config tc = { .name = SIM_TENANT, .rules = &rule };
    uint8_t a = byte(), b = byte();

    tc.params = acdc_params_default;
    tc.params.algorithm = a & 3;
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
    tc.params.on_ramp = (b & 5) == 5;
    tc.n_rules = b & 64 ? 1 : 0;
    memset(&rule, 0, sizeof rule);
    rule.match.local_port_max = rule.match.remote_port_max = 2000;
    rule.params = tc.params;
    rule.params.algorithm = ACDC_ALG_CUBIC;
    acdc_tenant_set(s.acdc[side], &tc);
}

static void
operate(void)
{
    uint8_t op = byte();
    int side = op >> 7;
    struct acdc_config c;
    struct acdc_flow_info fi[3];
    uint64_t cursor = 0;

    switch (op & 31) {
    case 0: case 1: case 2: case 3: case 4: case 5: case 6: case 7:
        send(side);
        break;
    case 8: case 9: case 10: case 11: case 12: case 13: case 14: case 15:
        deliver(side);
        break;
    case 16:
        s.now += byte() * SIM_MS;
        break;
    case 17:
        s.now += byte() * 1000 * SIM_MS;
        break;
    case 18:
        policy(side);
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
        /* An MTU that leaves no room for options. */
        acdc_port_bind(s.acdc[side], SIM_PORT_NO, "vnet7", SIM_TENANT,
                       byte() * 10);
        break;
    case 24:
        host_fail((enum host_call) (byte() % HOST_N_CALLS), 1 + (op >> 5) % 2,
                  1);
        memory = false;
        break;
    case 25:
        s.now -= byte() % 4 * SIM_MS;           /* Another thread's clock. */
        break;
    case 26: {
        /* Another guest, another tenant, the same addresses. */
        struct acdc_port *port = other_port[side];

        other_port[side] = s.port[side];
        s.port[side] = port;
        break;
    }
    default:
        host_quiesce();
        CHECK(host_allocated() <= memory_at_first + MORE_MEMORY
              + (sim_n_flows(&s, 0) + sim_n_flows(&s, 1))
                * (int64_t) acdc_flow_size(true));
        break;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct acdc_config config = {
        .max_flows = MAX_FLOWS, .idle_timeout = 100, .exid = ACDC_OPT_EXID,
    };
    struct acdc_params params = acdc_params_default;
    uint8_t first;
    int i, k;

    input = data;
    left = size;
    memory = true;
    first = byte();
    rescales = first & 1;
    params.on_ramp = first & 2;
    sim_init(&s, &params, &params);
    for (i = 0; i < 2; i++) {
        struct acdc_tenant_config tc = { .name = "red",
                                         .params = acdc_params_default };

        acdc_config_set(s.acdc[i], &config);
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
    for (i = 0; i < HOST_N_CALLS; i++) {
        host_fail((enum host_call) i, 0, 0);
    }
    for (i = 0; i < 2; i++) {
        struct acdc_stats stats;

        acdc_flush(s.acdc[i], NULL, NULL);
        acdc_stats_get(s.acdc[i], &stats);
        CHECK(!stats.n_flows && !stats.n_half_open && !stats.n_closed);
        for (k = 0; k < N_QUEUE; k++) {
            packet_free(queue[i][k]);
            queue[i][k] = NULL;
        }
    }
    sim_done(&s);
    CHECK(!host_allocated());
    return 0;
}
