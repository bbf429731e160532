/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* A guest that tries SYN, SYN-ACK, RST, FIN and silence in any order, some of which its
 * honest peer gets and some not, with police=true.  Whenever the peer has a connection,
 * the guest is to have no more of it than the law's window.  What else the tenant's
 * parameters have is on or off at random.
 *
 * Half of the peers are behind a vSwitch of their own, which the guest may deceive: there
 * the guest's data is to be governed by anything but the fallback `none`.
 *
 * ACDC_TEST_SEQUENCES: how many, 20,000 by default. */

#include "sim.h"
#include "tap.h"

enum { MSS = 1460, SCALE = 7, STEPS = 12, N_ISNS = 3, TRANSFER = 206 };

/* The peer's TCP, as RFC 9293 and 5961 have it. */
struct peer {
    enum { LISTEN, SYN_SENT, SYN_RECEIVED, ESTABLISHED } state;
    uint32_t iss, rcv_nxt;
    bool scaled;                /* Both SYNs have a window scale. */
    bool takes_synack;          /* In SYN-RECEIVED, as an ACK. */
    unsigned int age;           /* Seconds in a handshake. */
};

struct search {
    struct sim s;
    struct peer peer;
    bool two;                   /* The peer's vSwitch has an engine, too. */
    bool marks;                 /* The network marks all data that is ECT. */
    bool known;                 /* The guest has seen the peer's ISN. */
    uint64_t random;
    bool bursts;                /* It came to a connection, ... */
    unsigned int passed;        /* ... of whose guest's segments so many passed. */
    char log[STEPS * 24];       /* What was done. */
};

static uint32_t
draw(struct search *x, uint32_t n)
{
    return (uint32_t) (tap_random(&x->random) % n);
}

static void
note(struct search *x, const char *what, unsigned int number, bool scale,
     bool arrives)
{
    size_t len = strlen(x->log);

    snprintf(x->log + len, sizeof x->log - len, "%s%s%u%s%s ",
             arrives ? "" : "(", what, number, scale ? "s" : "",
             arrives ? "" : ")");
}

/* The last one is so near the one before that the SYN-ACK may be of either, if there was
 * data. */
static uint32_t
isn(unsigned int i)
{
    return i == 2 ? isn(1) - 1000 : 1000 + (i << 28);
}

/* The peer sends; what the guest learns of it. */
static void
peer_sends(struct search *x, uint8_t flags)
{
    struct sim_guest *g = &x->s.guest[1];
    struct tcp_spec spec;
    struct packet *p;

    g->snd_nxt = x->peer.iss + !(flags & ACDC_TCP_SYN);
    g->rcv_nxt = x->peer.rcv_nxt;
    spec = sim_spec(&x->s, 1, flags, 0);
    if (flags & ACDC_TCP_SYN) {
        opt_mss(&spec, MSS);
        if (x->peer.state == SYN_SENT || x->peer.scaled) {
            opt_wscale(&spec, SCALE);
        }
        if (!x->two) {
            opt_capability(&spec, ACDC_OPT_EXID);
        }
    }
    p = sim_send(&x->s, 1, &spec);
    x->known |= p && (flags & ACDC_TCP_SYN);
    packet_free_list(p);
}

/* It answers a wrong acknowledgment. */
static void
peer_resets(struct search *x, uint32_t seq)
{
    struct tcp_spec spec = sim_spec(&x->s, 1, ACDC_TCP_RST, 0);

    spec.seq = seq;
    packet_free_list(sim_send(&x->s, 1, &spec));
}

static void
begin_handshake(struct search *x, bool active)
{
    x->peer.state = active ? SYN_SENT : SYN_RECEIVED;
    x->peer.iss += 0x12345678;
    x->peer.age = 0;
    x->known = false;
}

static void
peer_gets_syn_sent(struct search *x, const struct tcp_spec *spec, bool scale, bool acks)
{
    struct peer *peer = &x->peer;
    bool syn = spec->flags & ACDC_TCP_SYN;

    if ((spec->flags & ACDC_TCP_ACK) && !acks) {
        if (!(spec->flags & ACDC_TCP_RST)) {
            peer_resets(x, spec->ack);
        }
    } else if (spec->flags & ACDC_TCP_RST) {
        peer->state = acks ? LISTEN : peer->state;
    } else if (syn) {
        /* Without an ACK a simultaneous open. */
        peer->state = acks ? ESTABLISHED : SYN_RECEIVED;
        peer->rcv_nxt = spec->seq + 1;
        peer->scaled = scale;
        peer_sends(x, acks ? ACDC_TCP_ACK : ACDC_TCP_SYN | ACDC_TCP_ACK);
    }
}

/* Of a connection, or nearly one. */
static void
peer_gets_more(struct search *x, const struct tcp_spec *spec, bool acks)
{
    struct peer *peer = &x->peer;
    bool half = peer->state == SYN_RECEIVED;

    if (spec->flags & ACDC_TCP_RST) {
        if (spec->seq == peer->rcv_nxt) {
            peer->state = LISTEN;
        } else if (spec->seq - peer->rcv_nxt < 65536) {
            peer_sends(x, ACDC_TCP_ACK);
        }
    } else if (spec->flags & ACDC_TCP_SYN) {
        bool again = half && spec->seq + 1 == peer->rcv_nxt;

        if (again && acks && peer->takes_synack) {
            peer->state = ESTABLISHED;
            return;
        }
        peer_sends(x, again && !(spec->flags & ACDC_TCP_ACK)
                      ? ACDC_TCP_SYN | ACDC_TCP_ACK : ACDC_TCP_ACK);
    } else if (half && !acks) {
        peer_resets(x, spec->ack);
    } else if (acks && spec->seq == peer->rcv_nxt) {
        peer->state = ESTABLISHED;
        peer->rcv_nxt += spec->payload;
        if (spec->payload) {
            peer_sends(x, ACDC_TCP_ACK);
        }
    } else if (spec->payload) {
        peer_sends(x, ACDC_TCP_ACK);
    }
}

/* What the guest sent arrives. */
static void
peer_gets(struct search *x, const struct tcp_spec *spec, bool scale)
{
    struct peer *peer = &x->peer;
    bool acks = (spec->flags & ACDC_TCP_ACK) && spec->ack == peer->iss + 1;

    if (peer->state == SYN_SENT) {
        peer_gets_syn_sent(x, spec, scale, acks);
    } else if (peer->state != LISTEN) {
        peer_gets_more(x, spec, acks);
    } else if (spec->flags & ACDC_TCP_ACK) {
        if (!(spec->flags & ACDC_TCP_RST)) {
            peer_resets(x, spec->ack);
        }
    } else if (spec->flags & ACDC_TCP_SYN) {
        begin_handshake(x, false);
        peer->rcv_nxt = spec->seq + 1;
        peer->scaled = scale;
        peer_sends(x, ACDC_TCP_SYN | ACDC_TCP_ACK);
    }
}

/* One packet of the guest: its flags, its number, how much data, whether with a window
 * scale, and whether it arrives. */
static void
guest_sends(struct search *x, uint8_t flags, uint32_t seq, uint32_t n, bool scale,
            bool arrives)
{
    struct tcp_spec spec;
    struct packet *p, *one;

    x->s.guest[0].snd_nxt = seq;
    x->s.guest[0].rcv_nxt = x->known ? x->peer.iss + 1 : 99;
    spec = sim_spec(&x->s, 0, flags, n);
    spec.bad_csum = !arrives;
    if (flags & ACDC_TCP_SYN) {
        opt_mss(&spec, MSS);
        if (scale) {
            opt_wscale(&spec, SCALE);
        }
    }
    p = sim_egress(&x->s, 0, packet_make(&spec));
    if (arrives) {
        for (one = p; one && x->marks; one = one->next) {
            if (packet_ecn(one) == ACDC_ECN_ECT0) {
                packet_set_ecn(one, ACDC_ECN_CE);
            }
        }
        p = sim_ingress(&x->s, 1, p);
    }
    if (p && arrives) {
        peer_gets(x, &spec, scale);
    }
    packet_free_list(p);
}

static void
wait(struct search *x, unsigned int seconds)
{
    for (; seconds; seconds--) {
        x->s.now += 1000 * SIM_MS;
        acdc_sweep(x->s.acdc[0], x->s.now, 128);
        if (x->two) {
            acdc_sweep(x->s.acdc[1], x->s.now, 128);
        }
        if (x->peer.state != SYN_SENT && x->peer.state != SYN_RECEIVED) {
            continue;
        }
        /* Retransmissions, and the end of patience, of Linux. */
        x->peer.age++;
        if (x->peer.age == 1 || x->peer.age == 3 || x->peer.age == 7
            || x->peer.age == 15 || x->peer.age == 31
            || (x->peer.age == 63 && x->peer.state == SYN_SENT)) {
            peer_sends(x, x->peer.state == SYN_SENT
                          ? ACDC_TCP_SYN : ACDC_TCP_SYN | ACDC_TCP_ACK);
        } else if (x->peer.age > (x->peer.state == SYN_SENT ? 127 : 63)) {
            x->peer.state = LISTEN;
        }
    }
}

static void
step(struct search *x)
{
    static const unsigned int pauses[] = { 1, 2, 12, 30, 75 };
    static const char *const names[] = {
        "SYN", "SYN", "SYN-ACK", "RST", "FIN", "ACK", "data", "wait", "connect", "abort",
    };
    unsigned int what = draw(x, 10), i = draw(x, N_ISNS);
    bool arrives = draw(x, 2), scale = draw(x, 4);
    uint32_t next = x->peer.rcv_nxt ? x->peer.rcv_nxt : isn(i) + 1;

    note(x, names[what], i, scale, arrives || what > 6);
    switch (what) {
    case 0:
    case 1:
        guest_sends(x, ACDC_TCP_SYN, isn(i), 0, scale, arrives);
        break;
    case 2:
        guest_sends(x, ACDC_TCP_SYN | ACDC_TCP_ACK, isn(i), 0, scale, arrives);
        break;
    case 3:
        guest_sends(x, ACDC_TCP_RST | (draw(x, 2) ? ACDC_TCP_ACK : 0),
                    draw(x, 3) ? next : isn(i), 0, false, arrives);
        break;
    case 4:
        guest_sends(x, ACDC_TCP_FIN | ACDC_TCP_ACK, next, 0, false, false);
        break;
    case 5:
    case 6:
        guest_sends(x, ACDC_TCP_ACK, next, what == 6 ? 1000 : 0, false, arrives);
        break;
    case 7:
        wait(x, pauses[draw(x, 5)]);
        break;
    case 8:
        if (x->peer.state == LISTEN) {
            begin_handshake(x, true);
            peer_sends(x, ACDC_TCP_SYN);
        }
        break;
    default:
        if (x->peer.state == ESTABLISHED) {
            peer_sends(x, ACDC_TCP_RST | ACDC_TCP_ACK);
            x->peer.state = LISTEN;
        }
        break;
    }
}

/* How many of 60 segments from what the peer expects on pass, as it takes them. */
static unsigned int
burst(struct search *x)
{
    unsigned int i, n = 0;

    x->s.guest[0].rcv_nxt = x->peer.iss + 1;
    x->s.guest[0].snd_nxt = x->peer.rcv_nxt;
    for (i = 0; i < 60; i++) {
        struct tcp_spec spec = sim_spec(&x->s, 0, ACDC_TCP_ACK, MSS);
        struct packet *p;

        spec.seq += i * MSS;
        p = sim_egress(&x->s, 0, packet_make(&spec));
        n += packet_count(p);
        packet_free_list(p);
    }
    return n;
}

/* 300 KB in TRANSFER segments, each acknowledged.  Returns how many arrived. */
static unsigned int
transfer(struct search *x)
{
    unsigned int i, n = 0;

    for (i = 0; i < TRANSFER; i++) {
        uint32_t before = x->peer.rcv_nxt;

        guest_sends(x, ACDC_TCP_ACK, before, MSS, false, true);
        n += x->peer.rcv_nxt != before;
        x->s.now += SIM_MS;
    }
    return n;
}

/* Whether anything governs what the peer has got last. */
static bool
is_governed(const struct search *x)
{
    struct acdc_flow_info fi;
    uint64_t cursor = 0;

    while (acdc_dump(x->s.acdc[0], &cursor, x->s.now, &fi, 1)) {
        if (fi.snd_una == x->peer.rcv_nxt && fi.algorithm != ACDC_ALG_NONE) {
            return true;
        }
    }
    return false;
}

/* The window that an ACK of the peer tells the guest, bytes. */
static uint32_t
told(struct search *x)
{
    struct packet *p;
    uint32_t window;

    x->s.guest[1].snd_nxt = x->peer.iss + 1;
    x->s.guest[1].rcv_nxt = x->peer.rcv_nxt;
    p = sim_ack(&x->s, 1);
    window = p ? (uint32_t) packet_window(p) << (x->peer.scaled ? SCALE : 0)
               : 0;
    packet_free_list(p);
    return window;
}

/* What the engine has. */
static void
show(const struct search *x)
{
    struct acdc_flow_info fi;
    uint64_t cursor = 0;

    while (acdc_dump(x->s.acdc[0], &cursor, x->s.now, &fi, 1)) {
        printf("#  %s %s window %u una %u nxt %u scales %u %u\n",
               acdc_flow_state_names[fi.state],
               acdc_algorithm_names[fi.algorithm], fi.window, fi.snd_una,
               fi.snd_nxt, fi.wscale_local, fi.wscale_remote);
    }
    printf("#  peer: iss %u, expects %u\n", x->peer.iss, x->peer.rcv_nxt);
}

static void
begin(struct search *x, uint64_t random)
{
    struct acdc_params params = acdc_params_default;
    struct acdc_config config;
    unsigned int i;

    memset(x, 0, sizeof *x);
    x->random = random;
    params.police = true;
    params.pace = random >> 1 & 1;
    params.tail_probe = random >> 2 & 1 ? 1000 : 0;
    params.on_ramp = random >> 3 & 1 ? 50 : 0;
    params.plb = random >> 4 & 1;
    x->two = random >> 5 & 1;
    x->marks = random >> 6 & 1;
    x->peer.takes_synack = random >> 7 & 1;
    sim_init(&x->s, &params, &params);
    for (i = 0; i < 2; i++) {
        acdc_set_host(x->s.acdc[i], ACDC_HOST_HOLDS | ACDC_HOST_KEEPS);
        acdc_config_get(x->s.acdc[i], &config);
        config.idle_timeout = ACDC_IDLE_TIMEOUT_DEFAULT;
        acdc_config_set(x->s.acdc[i], &config);
    }
    if (!x->two) {
        sim_remove_acdc(&x->s, 1);
    }
    x->s.v6 = random & 1;
}

static bool
try(struct search *x, uint64_t random)
{
    unsigned int i, n = 0;
    uint32_t window = 0;
    bool good = true;

    begin(x, random);
    for (i = 0; i < STEPS; i++) {
        step(x);
    }
    /* Who is not heard seems to have two ports. */
    if (x->known && !sim_counter(&x->s, 0, ACDC_C_UNHEARD)
        && (x->peer.state == ESTABLISHED || x->peer.state == SYN_RECEIVED)) {
        x->bursts = true;
        n = x->passed = x->two ? transfer(x) : burst(x);
        window = x->peer.state == ESTABLISHED ? told(x) : 0;
        /* The window alone is no escape: what is beyond the law's is policed. */
        good = x->two ? n < TRANSFER || is_governed(x) : n <= 12;
    }
    if (!good) {
        printf("# %s %u segments, window %u, peer %d: %s\n", x->two ? "two engines," : "", n,
               window, (int) x->peer.state, x->log);
        show(x);
    }
    sim_done(&x->s);
    return good;
}

int
main(void)
{
    const char *sequences = getenv("ACDC_TEST_SEQUENCES");
    unsigned long i, n = sequences ? strtoul(sequences, NULL, 10) : 20000;
    uint64_t seed = tap_seed();
    unsigned long escapes = 0, bursts = 0, passed = 0;
    struct search x;

    for (i = 0; i < n && escapes < 5; i++) {
        escapes += !try(&x, (seed + i) * 2654435761u);
        bursts += x.bursts;
        passed += x.passed;
    }
    is_u64(escapes, 0, "escapes in %lu sequences", i);
    ok(bursts > i / 20 && passed > 2 * bursts,
       "%lu of them made a connection, whose guest sent %lu segments", bursts, passed);
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
