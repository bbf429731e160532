/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Tail probes: what is kept, when it is sent again, and what that changes. */

#include "acdc-tail.h"
#include "sim.h"
#include "tap.h"

enum { MSS = 1448, RTT_US = 200, PROBE_US = 2000, KNOWN = 17, DATA = ACDC_TCP_ACK,
       LAST = ACDC_TCP_ACK | ACDC_TCP_PSH };

/* How a test's connection is made. */
struct how {
    uint32_t probe_us;
    bool v6, no_sack, without_peer, csum_partial;
};

/* A connection that has sent some windows, nothing in flight. */
static void
begin_new(struct sim *s, const struct how *how)
{
    struct acdc_params params = acdc_params_default;
    unsigned int i;

    params.police = true;
    sim_init(s, &params, &params);
    acdc_set_host(s->acdc[0], ACDC_HOST_KEEPS);
    if (how->without_peer) {
        sim_remove_acdc(s, 1);
    }
    s->v6 = how->v6;
    s->csum_partial = how->csum_partial;
    s->guest[0].no_sack = s->guest[1].no_sack = how->no_sack;
    s->guest[0].timestamps = s->guest[1].timestamps = true;
    s->guest[1].window = 0x4000;
    sim_connect(s);
    for (i = 0; i < 10; i++) {
        sim_data(s, 0, MSS, false);
        sim_data(s, 0, MSS, false);
        s->now += RTT_US * 1000;
        packet_free_list(sim_ack(s, 1));
    }
    params.tail_probe = how->probe_us;
    sim_policy(s, 0, &params);
}

static const struct how usual = { .probe_us = PROBE_US };

/* What guest 0 sends, on the wire. */
static struct packet *
send_at(struct sim *s, uint32_t seq, uint8_t flags, uint32_t n)
{
    struct tcp_spec spec = sim_spec(s, 0, flags, n);

    spec.seq = seq;
    return sim_egress(s, 0, packet_make(&spec));
}

static struct packet *
send(struct sim *s, uint8_t flags, uint32_t n)
{
    struct packet *p = send_at(s, s->guest[0].snd_nxt, flags, n);

    s->guest[0].snd_nxt += n + (flags & ACDC_TCP_FIN ? 1 : 0);
    return p;
}

/* The packet goes on its way or is lost; what is kept of it. */
static struct packet *
kept_of(struct sim *s, struct packet *p, bool arrives)
{
    struct packet *kept = p->kept;

    p->kept = NULL;
    if (kept) {
        kept->release = p->kept_until;
    }
    if (arrives) {
        packet_free_list(sim_ingress(s, 1, p));
        s->guest[1].rcv_nxt = s->guest[0].snd_nxt;
    } else {
        packet_free_list(p);
    }
    return kept;
}

static struct packet *
keep(struct sim *s, uint8_t flags, uint32_t n, bool arrives)
{
    return kept_of(s, send(s, flags, n), arrives);
}

/* Asks for what is kept, when its time has come.  NULL: it is not needed. */
static struct packet *
ask(struct sim *s, struct packet *kept)
{
    s->now = kept->release > s->now ? kept->release : s->now;
    kept->next = NULL;
    return host_process(s->port[0], ACDC_TAIL, kept, s->now);
}

static bool
is_sent(const struct packet *p)
{
    return p && !p->release;
}

static bool
is_dropped(struct sim *s, struct packet *kept)
{
    struct packet *p = kept ? ask(s, kept) : NULL;
    bool dropped = kept && !p;

    packet_free_list(p);
    return dropped;
}

/* So many tails of a segment are acknowledged in time: the engine learns it when the next
 * one is kept, of the last when it is asked. */
static void
send_prompt(struct sim *s, unsigned int n)
{
    struct packet *kept, *before = NULL;

    for (; n--; before = kept) {
        kept = keep(s, LAST, 100, true);
        s->now += RTT_US * 1000;
        packet_free_list(sim_ack(s, 1));
        packet_free_list(before ? ask(s, before) : NULL);
    }
    ok(is_dropped(s, before), "acknowledged: not sent");
}

/* The same, where the other guest is known to delay no ACK. */
static void
begin(struct sim *s, const struct how *how)
{
    begin_new(s, how);
    if (how->probe_us && !how->without_peer) {
        send_prompt(s, KNOWN);
    }
}

/* The probe arrives, and its ACK after a round trip. */
static void
answer(struct sim *s, struct packet *probe)
{
    packet_free_list(sim_ingress(s, 1, probe));
    s->guest[1].rcv_nxt = s->guest[0].snd_nxt;
    s->now += RTT_US * 1000;
    packet_free_list(sim_ack(s, 1));
}

/* ACK with SACK blocks of guest 1. */
static void
sack(struct sim *s, uint32_t ack, uint32_t left, uint32_t right)
{
    struct tcp_spec spec = sim_spec(s, 1, ACDC_TCP_ACK, 0);
    const uint32_t edges[2] = { left, right };

    spec.ack = ack;
    opt_sack(&spec, 1, edges);
    packet_free_list(sim_send(s, 1, &spec));
}

/* Engine and host agree on what is kept. */
static void
done(struct sim *s, unsigned int n_kept)
{
    is_u64(s->acdc[0]->n_tails, n_kept, "%u kept packets are out", n_kept);
    is_u64(sim_counter(s, 0, ACDC_C_POLICED_PACKETS), 0, "nothing is policed");
    is_u64(sim_counter(s, 0, ACDC_C_FEEDBACK_BAD), 0, "feedback is plausible");
    sim_done(s);
}

static void
test_off(void)
{
    static const struct how off = { .probe_us = 0 };
    static const struct how without = { .probe_us = PROBE_US,
                                        .without_peer = true };
    struct sim s;

    begin(&s, &off);
    ok(!keep(&s, LAST, MSS, false), "off: nothing is kept");
    done(&s, 0);
    begin(&s, &without);
    ok(!keep(&s, LAST, MSS, false), "nor without AC/DC at the other end");
    sim_done(&s);
}

static void
test_lost(const struct how *how, const char *what)
{
    struct packet *wire, *kept, *probe;
    struct acdc_flow_info fi;
    uint64_t samples, rtt;
    struct sim s;

    begin(&s, how);
    sim_info(&s, 0, &fi);
    rtt = fi.srtt_us;
    samples = sim_counter(&s, 0, ACDC_C_RTT_SAMPLES);
    packet_free_list(kept_of(&s, send(&s, DATA, MSS), true));
    wire = send(&s, LAST, 700);
    kept = kept_of(&s, packet_clone(wire), false);
    ok(!kept, "a copy has none");
    kept = wire->kept;
    wire->kept = NULL;
    ok(kept && packet_same(kept, wire) && packet_ecn(kept) == ACDC_ECN_ECT0,
       "%s: the last segment is kept as it left", what);
    kept->release = 0;
    probe = host_process(s.port[0], ACDC_TAIL, packet_clone(kept), s.now);
    ok(!probe, "it is not the one that is due");
    acdc_count_add(&s.acdc[0]->n_tails, 1);
    acdc_count_add(&s.port[0]->n_tails, 1);
    s.now += PROBE_US * 1000 + ACDC_KEEP_US * 1000;
    probe = host_process(s.port[0], ACDC_TAIL, packet_clone(kept), s.now);
    /* An ACK came meanwhile in none of these: the first of the two did not. */
    ok(is_sent(probe) && packet_same(probe, wire) && packet_csum_ok(probe),
       "and sent as it was");
    is_u64(sim_counter(&s, 0, ACDC_C_TAIL_PROBES), 1, "counted");
    acdc_count_add(&s.acdc[0]->n_tails, 1);
    acdc_count_add(&s.port[0]->n_tails, 1);
    ok(is_dropped(&s, kept), "only once");
    answer(&s, probe);
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "its answer tells of a loss");
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0, "not of a timeout");
    is_u64(sim_counter(&s, 0, ACDC_C_TAIL_SPURIOUS), 0, "which it was");
    is_u64(sim_counter(&s, 0, ACDC_C_RETRANSMITS), 0, "the guest sent nothing again");
    sim_info(&s, 0, &fi);
    is_u64(sim_counter(&s, 0, ACDC_C_RTT_SAMPLES), samples, "nothing is timed by it");
    is_u64(fi.srtt_us, rtt, "nor");
    is_u64(fi.in_flight, 0, "nothing is in flight");
    packet_free(wire);
    done(&s, 1);
}

static void
test_needless(void)
{
    struct packet *first, *second, *p;
    struct acdc_params params;
    uint32_t una;
    struct sim s;

    begin(&s, &usual);
    first = keep(&s, LAST, MSS, true);
    packet_free_list(sim_ack(&s, 1));
    ok(is_dropped(&s, first), "acknowledged: not sent");

    una = s.guest[0].snd_nxt;
    packet_free(keep(&s, DATA, MSS, false));
    acdc_tail_lost(s.port[0]);
    is_u64(sim_counter(&s, 0, ACDC_C_TAIL_NO_ROOM), 1, "what the host lost is counted");
    second = keep(&s, LAST, MSS, true);
    s.guest[1].rcv_nxt = una;
    sack(&s, una, una + MSS, una + 2 * MSS);
    ok(is_dropped(&s, second), "SACK: not sent");
    first = kept_of(&s, send_at(&s, una, DATA, MSS), false);
    ok(first != NULL, "what is sent again is kept");
    p = ask(&s, first);
    ok(is_sent(p), "and sent once more");
    answer(&s, p);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0, "no timeout");

    first = keep(&s, LAST, MSS, false);
    second = keep(&s, LAST, MSS, false);
    ok(is_dropped(&s, first), "there is a newer one: not sent");
    params = acdc_params_default;
    params.tail_probe = PROBE_US;
    params.algorithm = ACDC_ALG_NONE;
    sim_policy(&s, 0, &params);
    ok(is_dropped(&s, second), "another policy: not sent");
    first = keep(&s, LAST, MSS, false);
    params.mode = ACDC_MODE_OBSERVE;
    sim_policy(&s, 0, &params);
    ok(is_dropped(&s, first), "nor by an observer");
    ok(!keep(&s, LAST, MSS, false), "who keeps nothing");
    done(&s, 0);
}

/* While ACKs come one a window is kept, and it is put off. */
static void
test_window(void)
{
    struct packet *kept, *next, *p;
    unsigned int i, n = 0;
    uint32_t first;
    struct sim s;

    begin(&s, &usual);
    first = s.guest[0].snd_nxt;
    kept = keep(&s, DATA, MSS, true);
    for (i = 0; i < 7; i++) {
        p = keep(&s, DATA, MSS, true);
        n += p != NULL;
        packet_free_list(p);
    }
    is_u64(n, 0, "one a window is kept");
    s.guest[1].rcv_nxt = first + MSS;
    packet_free_list(sim_ack(&s, 1));
    next = keep(&s, DATA, MSS, false);
    ok(next != NULL, "and the next once that is acknowledged");
    ok(is_dropped(&s, kept), "which is not needed any more");
    /* ACKs of what came between. */
    s.guest[1].rcv_nxt = first + 4 * MSS;
    packet_free_list(sim_ack(&s, 1));
    p = ask(&s, next);
    ok(p && p->release, "ACKs came: it waits");
    is_u64(p ? p->release - s.now : 0, PROBE_US * 1000, "as long again");
    s.guest[1].rcv_nxt = first + 8 * MSS;
    p = p ? ask(&s, p) : NULL;
    ok(is_sent(p), "then it goes");
    answer(&s, p);
    done(&s, 0);
}

/* Whether a single segment waits so long for its probe, which is answered. */
static bool
waits(struct sim *s, bool arrives, uint64_t least_ms)
{
    uint64_t since = s->now;
    struct packet *p = keep(s, LAST, 100, arrives);

    while (p && p->release) {
        p = ask(s, p);
    }
    since = s->now - since;
    if (p) {
        answer(s, p);
    }
    return p && since >= least_ms * SIM_MS && since < (least_ms + 5) * SIM_MS;
}

/* The other guest may delay its ACK of a single segment, as long as nobody knows. */
static void
test_unknown(void)
{
    struct packet *p;
    struct sim s;

    begin_new(&s, &usual);
    ok(waits(&s, false, 50), "a single segment waits");
    send_prompt(&s, KNOWN - 1);
    p = ask(&s, keep(&s, LAST, 100, true));
    ok(p && p->release > s.now + 40 * SIM_MS, "too few in time: the next one, too");
    packet_free_list(sim_ack(&s, 1));
    ok(is_dropped(&s, p), "for an ACK that was delayed");
    send_prompt(&s, KNOWN - 1);
    ok(waits(&s, false, 50), "they count anew");
    send_prompt(&s, KNOWN);
    ok(waits(&s, false, 2), "no ACK was delayed");
    send_prompt(&s, 1);
    ok(waits(&s, true, 2), "the same, but this one has arrived");
    is_u64(sim_counter(&s, 0, ACDC_C_TAIL_SPURIOUS), 1, "a needless probe");
    ok(waits(&s, true, 50), "the last so soon");
    done(&s, 0);
}

/* The other end has what is probed, and delays its ACK: fewer probes. */
static void
test_delayed(void)
{
    static const uint64_t least_ms[] = { 2, 50, 250 };
    unsigned int i, alpha = 0;
    struct acdc_flow_info fi;
    struct packet *kept, *p;
    struct sim s;

    begin(&s, &usual);
    sim_info(&s, 0, &fi);
    alpha = fi.window;
    for (i = 0; i < 3; i++) {
        kept = keep(&s, LAST, 100, true);
        ok(kept && kept->release - s.now >= least_ms[i] * SIM_MS
           && kept->release - s.now < (least_ms[i] + 5) * SIM_MS,
           "needless probe %u after %u ms", i + 1, (unsigned int) least_ms[i]);
        p = ask(&s, kept);
        ok(is_sent(p), "it goes");
        answer(&s, p);
        is_u64(sim_counter(&s, 0, ACDC_C_TAIL_SPURIOUS), i + 1, "and was for nothing");
    }
    ok(!keep(&s, LAST, 100, true), "there is no fourth of a single segment");
    packet_free_list(keep(&s, DATA, MSS, true));
    kept = keep(&s, LAST, MSS, true);
    ok(kept && kept->release - s.now < 5 * SIM_MS, "of two there is, at once");
    s.guest[1].rcv_nxt -= MSS;
    packet_free_list(sim_ack(&s, 1));
    ok(is_dropped(&s, kept), "unless all but the last are acknowledged");
    sim_info(&s, 0, &fi);
    ok(fi.window >= alpha && !sim_counter(&s, 0, ACDC_C_CUTS_LOSS),
       "needless probes cost no window");
    sim_done(&s);
}

/* The ACK was on its way when the probe left.  'more': the guest goes on. */
static void
test_crossing(const struct how *how, bool more)
{
    struct tcp_spec spec;
    struct packet *kept, *probe, *wire;
    uint32_t tail, before;
    struct sim s;

    begin(&s, how);
    before = sim_info_of(&s, 0).alpha;
    packet_free_list(keep(&s, DATA, MSS, true));
    tail = s.guest[0].snd_nxt;
    kept = keep(&s, LAST, 700, true);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    wire = sim_egress(&s, 1, packet_make(&spec));
    probe = ask(&s, kept);
    ok(is_sent(probe), "a probe, when the ACK is on its way");
    s.now += RTT_US * 500;
    packet_free_list(sim_ingress(&s, 0, wire));
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "which says nothing of it");
    if (more) {
        packet_free_list(keep(&s, DATA, MSS, true));
    }
    packet_free_list(sim_ingress(&s, 1, probe));
    s.now += RTT_US * 500;
    if (how->no_sack) {
        packet_free_list(sim_ack(&s, 1));
    } else {
        sack(&s, s.guest[1].rcv_nxt - more * MSS, tail, tail + 700);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_TAIL_SPURIOUS), 1, "the next ACK says that both arrived");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "no loss");
    ok(sim_info_of(&s, 0).alpha <= before, "alpha stays");
    packet_free_list(keep(&s, DATA, MSS, true));
    packet_free_list(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "nor later");
    done(&s, 2);
}

/* Less than the counts tell apart: only D-SACK does, and no window is cut.  'lost': or
 * it was of use. */
static void
test_byte(bool lost)
{
    struct packet *kept, *probe;
    struct sim s;
    uint32_t tail;

    begin(&s, &usual);
    tail = s.guest[0].snd_nxt;
    kept = keep(&s, LAST, 1, !lost);
    probe = ask(&s, kept);
    ok(is_sent(probe), "a byte is probed");
    packet_free_list(sim_ingress(&s, 1, probe));
    s.guest[1].rcv_nxt = s.guest[0].snd_nxt;
    s.now += RTT_US * 1000;
    if (lost) {
        packet_free_list(sim_ack(&s, 1));
    } else {
        sack(&s, tail + 1, tail, tail + 1);
    }
    is_u64(sim_counter(&s, 0, ACDC_C_TAIL_SPURIOUS), !lost, "needless or not");
    kept = keep(&s, LAST, 1, true);
    ok(kept && (kept->release - s.now >= 50 * SIM_MS) == !lost,
       "the next one comes later if that was needless");
    packet_free_list(kept);
    packet_free_list(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 0, "no window is cut");
    done(&s, 1);
}

/* The probe is of use, and its ACK is lost: the next one that is of later data tells. */
static void
test_repaired(void)
{
    struct tcp_spec spec;
    struct packet *p;
    struct sim s;

    begin(&s, &usual);
    packet_free_list(kept_of(&s, send(&s, DATA, MSS), true));
    p = ask(&s, keep(&s, LAST, 700, false));
    packet_free_list(sim_ingress(&s, 1, p));
    packet_free_list(keep(&s, DATA, MSS, true));
    s.now += RTT_US * 1000;
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    packet_free_list(keep(&s, DATA, MSS, true));
    packet_free_list(sim_send(&s, 1, &spec));
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "later data is acknowledged: a loss");
    is_u64(sim_counter(&s, 0, ACDC_C_TAIL_SPURIOUS), 0, "and no needless probe");
    packet_free_list(sim_ack(&s, 1));
    packet_free_list(keep(&s, DATA, MSS, true));
    packet_free_list(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_LOSS), 1, "once");
    sim_done(&s);
}

/* The probe is lost, too. */
static void
test_timeout(void)
{
    struct packet *p;
    uint32_t seq;
    struct sim s;

    begin(&s, &usual);
    seq = s.guest[0].snd_nxt;
    p = ask(&s, keep(&s, LAST, MSS, false));
    ok(is_sent(p), "a probe");
    packet_free_list(p);
    s.now += 200 * SIM_MS;
    p = send_at(&s, seq, LAST, MSS);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0,
           "the guest's timer: it may be early");
    packet_free_list(ask(&s, kept_of(&s, p, true)));
    s.now += RTT_US * 1000;
    packet_free_list(sim_ack(&s, 1));
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 1,
           "was not, and is taken for what it is");
    is_u64(sim_counter(&s, 0, ACDC_C_TAIL_PROBES), 2,
           "one for each that the guest sent");
    done(&s, 0);
}

/* Segmentation is left to the device: 'segment' bytes, the last one 'last'. */
static void
test_gso(bool v6, uint16_t segment, uint32_t last)
{
    struct how how = { .probe_us = PROBE_US, .v6 = v6, .csum_partial = true };
    struct packet *p, *kept;
    struct tcp_spec spec;
    struct acdc_pkt pkt;
    uint32_t end;
    struct sim s;

    begin(&s, &how);
    spec = sim_spec(&s, 0, LAST | ACDC_TCP_CWR, 3 * MSS + 500);
    spec.gso = segment;
    s.guest[0].snd_nxt += spec.payload;
    end = s.guest[0].snd_nxt;
    kept = kept_of(&s, sim_egress(&s, 0, packet_make(&spec)), false);
    ok(kept && packet_parse(kept, &pkt) && pkt.payload == last
       && pkt.seq == end - last, "IPv%d: the last segment alone is kept", v6 ? 6 : 4);
    ok(kept && packet_csum_ok(kept) && packet_payload_ok(kept)
       && !(pkt.tcp_flags & ACDC_TCP_CWR), "with sums and data that are right");
    p = ask(&s, kept);
    ok(is_sent(p), "and sent");
    packet_free_list(p);
    sim_done(&s);
}

/* The mark of what is timed is not on the copy. */
static void
test_mark(bool partial)
{
    struct tcp_spec spec = { .src = "\x0a\0\0\1", .dst = "\x0a\0\0\2", .seq = 1,
                             .flags = LAST, .reserved = ACDC_RES_FACK | 2,
                             .payload = 100, .csum_partial = partial };
    struct packet *p = packet_make(&spec);
    struct acdc_pkt pkt;

    ok(packet_parse(p, &pkt), "a packet");
    pkt.keep_len = 100;
    acdc_tail_cut(&pkt, packet_data(p));
    ok(packet_reserved(p) == 2 && packet_csum_ok(p),
       "without the mark, the sum is right");
    packet_free(p);
}

static void
test_fin(void)
{
    struct packet *p;
    struct sim s;

    begin(&s, &usual);
    p = ask(&s, keep(&s, LAST | ACDC_TCP_FIN, 300, false));
    ok(is_sent(p), "a last segment with FIN");
    answer(&s, p);
    is_u64(sim_counter(&s, 0, ACDC_C_TIMEOUTS), 0, "no timeout");
    p = send(&s, ACDC_TCP_ACK | ACDC_TCP_RST, 0);
    ok(!p->kept, "no RST is kept");
    packet_free_list(p);
    done(&s, 0);
}

/* The peer's window is closed: what probes it is not kept. */
static void
test_closed(void)
{
    struct packet *kept;
    struct sim s;

    begin(&s, &usual);
    s.guest[1].window = 0;
    packet_free_list(sim_ack(&s, 1));
    ok(!keep(&s, LAST, 1, false), "no window, no probe");
    kept = keep(&s, LAST, MSS, false);
    ok(!kept, "nor of data beyond");
    packet_free_list(kept);
    sim_done(&s);
}

static void
test_limit(void)
{
    struct packet *p, *list = NULL;
    unsigned int i, n = 0;
    struct sim s;

    begin(&s, &usual);
    for (i = 0; i < ACDC_TAILS_PORT + 10; i++) {
        p = keep(&s, LAST, 10, true);
        packet_free_list(sim_ack(&s, 1));
        if (p) {
            n++;
            p->next = list;
            list = p;
        }
    }
    is_u64(n, ACDC_TAILS_PORT, "so many are kept of a port");
    is_u64(sim_counter(&s, 0, ACDC_C_TAIL_NO_ROOM), 10, "more are counted");
    is_u64(s.acdc[0]->n_tails, n, "the engine knows");
    s.now += SIM_MS * 100;
    ok(!host_process(s.port[0], ACDC_TAIL, list, s.now), "none is needed");
    p = keep(&s, LAST, 10, true);
    ok(p != NULL, "then there is room again");
    ok(is_sent(p = ask(&s, p)), "and a probe");
    packet_free_list(p);
    done(&s, 0);
}

/* The port is bound anew while something is kept, which nobody asks for, or the new
 * port: that can keep as much as another. */
static void
test_rebind(bool asked)
{
    static const char *const name = "vnet7";
    struct packet *kept[2];
    unsigned int i;
    struct sim s;

    begin(&s, &usual);
    for (i = 0; i < 2; i++) {
        kept[i] = keep(&s, LAST, MSS, false);
    }
    ok(kept[0] && kept[1] && s.acdc[0]->n_tails == 2, "two are kept");
    acdc_port_unbind(s.acdc[0], SIM_PORT_NO);
    ok(is_dropped(&s, kept[0]), "the unbound port's is not sent");
    s.port[0] = acdc_port_bind(s.acdc[0], SIM_PORT_NO, name, SIM_TENANT, SIM_MTU);
    if (asked) {
        ok(is_dropped(&s, kept[1]), "nor the new port's");
    } else {
        packet_free(kept[1]);
    }
    host_quiesce();
    is_u64(s.acdc[0]->n_tails, 0, "nothing is out");
    s.guest[0].port++;
    sim_connect(&s);
    sim_data(&s, 0, MSS, false);
    packet_free_list(sim_ack(&s, 1));
    kept[0] = keep(&s, LAST, MSS, false);
    ok(kept[0] != NULL, "the new port's connection is probed");
    packet_free_list(kept[0]);
    done(&s, 1);
}

int
main(void)
{
    static const struct how v6 = { .probe_us = PROBE_US, .v6 = true };
    static const struct how no_sack = { .probe_us = PROBE_US, .no_sack = true };

    test_off();
    test_lost(&usual, "IPv4");
    test_lost(&v6, "IPv6");
    test_lost(&no_sack, "without SACK");
    test_needless();
    test_window();
    test_unknown();
    test_delayed();
    test_crossing(&usual, false);
    test_crossing(&usual, true);
    test_crossing(&v6, true);
    test_crossing(&no_sack, false);
    test_byte(false);
    test_byte(true);
    test_repaired();
    test_timeout();
    test_gso(false, MSS, 500);
    test_gso(true, MSS, 500);
    test_gso(false, 600, 44);
    test_mark(false);
    test_mark(true);
    test_fin();
    test_closed();
    test_limit();
    test_rebind(false);
    test_rebind(true);
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
