/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Flow table, life cycle, tenants, ports, rules, statistics. */

#include <errno.h>

#include "sim.h"
#include "acdc-match.h"
#include "tap.h"

static struct acdc_stats
stats(const struct acdc *a)
{
    struct acdc_stats st;

    acdc_stats_get(a, &st);
    return st;
}

static struct acdc_tenant_stats
tenant_stats(const struct acdc *a, const char *name)
{
    struct acdc_tenant_stats ts;

    memset(&ts, 0, sizeof ts);
    acdc_tenant_stats_get(a, name, &ts);
    return ts;
}

/* Connection 'i' of guest 0, as far as 'state', with a port of its own. */
static void
open_flow(struct sim *s, uint16_t i, enum acdc_flow_state state)
{
    uint32_t iss[2] = { s->guest[0].snd_nxt, s->guest[1].snd_nxt };
    struct tcp_spec spec;

    s->guest[0].port = i;
    if (state == ACDC_FLOW_SYN_SENT) {
        sim_syn(s);
    } else {
        sim_connect(s);
    }
    if (state == ACDC_FLOW_CLOSED || state == ACDC_FLOW_CLOSING) {
        spec = sim_spec(s, 0, ACDC_TCP_ACK | ACDC_TCP_FIN, 0);
        packet_free_list(sim_send(s, 0, &spec));
        s->guest[1].rcv_nxt++;
    }
    if (state == ACDC_FLOW_CLOSED) {
        spec = sim_spec(s, 1, ACDC_TCP_ACK | ACDC_TCP_FIN, 0);
        packet_free_list(sim_send(s, 1, &spec));
        s->guest[0].snd_nxt++;
        s->guest[0].rcv_nxt++;
        packet_free_list(sim_ack(s, 0));
    }
    s->guest[0].snd_nxt = iss[0];
    s->guest[1].snd_nxt = iss[1];
}

static void
limit(struct sim *s, uint32_t max_flows)
{
    struct acdc_config c;

    acdc_config_get(s->acdc[0], &c);
    c.max_flows = max_flows;
    acdc_config_set(s->acdc[0], &c);
    sim_remove_acdc(s, 1);
}

/* All flows of engine 0; how many. */
static unsigned int
dump(const struct sim *s, struct acdc_flow_info *flows, unsigned int max,
     unsigned int at_a_time)
{
    uint64_t cursor = 0;
    unsigned int n = 0, got;

    while ((got = acdc_dump(s->acdc[0], &cursor, s->now, flows + n,
                            at_a_time < max - n ? at_a_time : max - n))) {
        n += got;
    }
    return n;
}

static bool
has_port(const struct sim *s, uint16_t port)
{
    static struct acdc_flow_info flows[3000];
    unsigned int n = dump(s, flows, 3000, 3000);

    while (n--) {
        if (flows[n].local_port == port) {
            return true;
        }
    }
    return false;
}

static void
test_life(void)
{
    static const enum acdc_flow_state states[] = {
        ACDC_FLOW_SYN_SENT, ACDC_FLOW_ESTABLISHED, ACDC_FLOW_CLOSING,
        ACDC_FLOW_CLOSED,
    };
    unsigned int i;

    for (i = 0; i < sizeof states / sizeof states[0]; i++) {
        /* The configuration in sim_init() says 100 s of idle time. */
        uint32_t life = states[i] == ACDC_FLOW_SYN_SENT ? ACDC_HALF_OPEN_MS
                        : states[i] == ACDC_FLOW_CLOSED ? ACDC_LINGER_MS
                        : 100 * 1000;
        const char *name = acdc_flow_state_names[states[i]];
        struct acdc_flow_info fi;
        struct acdc_stats st;
        struct sim s;

        sim_init(&s, NULL, NULL);
        open_flow(&s, 1000, states[i]);
        sim_info(&s, 0, &fi);
        is_u64(fi.state, states[i], "%s", name);
        st = stats(s.acdc[0]);
        is_u64(st.n_half_open, states[i] == ACDC_FLOW_SYN_SENT, "half open");
        is_u64(st.n_closed, states[i] == ACDC_FLOW_CLOSED, "closed");
        s.now += (life - 1) * SIM_MS;
        ok(acdc_sweep(s.acdc[0], s.now, 1 << 20), "swept");
        is_u64(sim_n_flows(&s, 0), 1, "%s: lives for %u ms", name, life);
        s.now += 2 * ACDC_SEEN_UNIT * SIM_MS;
        acdc_sweep(s.acdc[0], s.now, 1 << 20);
        is_u64(sim_n_flows(&s, 0), 0, "and then goes");
        st = stats(s.acdc[0]);
        ok(!st.n_half_open && !st.n_closed, "with its counts");
        is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_EXPIRED),
               states[i] != ACDC_FLOW_CLOSED, "expired");
        is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_CLOSED),
               states[i] == ACDC_FLOW_CLOSED, "closed");
        sim_done(&s);
    }
}

/* After its FIN was acknowledged a guest keeps the half that it still hears of alive,
 * with the last byte again as some do (RFC 9293 section 3.8.4).  Before that data in the
 * place of a FIN says that there was none. */
static void
test_keep_alive_after_fin(void)
{
    struct acdc_flow_info fi;
    struct tcp_spec spec;
    struct sim s;
    uint32_t i;

    for (i = 0; i < 6; i++) {
        bool acked = i >= 3;
        uint32_t n = i % 3;

        sim_init(&s, NULL, NULL);
        sim_connect(&s);
        spec = sim_spec(&s, 0, ACDC_TCP_ACK | ACDC_TCP_FIN, 0);
        packet_free_list(sim_send(&s, 0, &spec));
        if (acked) {
            s.guest[1].rcv_nxt++;
            packet_free_list(sim_ack(&s, 1));
        }
        spec.flags = ACDC_TCP_ACK;
        spec.payload = n;
        packet_free_list(sim_egress(&s, 0, packet_make(&spec)));
        sim_info(&s, 0, &fi);
        is_u64(fi.state, n < 1u + acked ? ACDC_FLOW_CLOSING
                                        : ACDC_FLOW_ESTABLISHED,
               "data of %u bytes in the place of a FIN%s", n,
               acked ? " that was acknowledged" : "");
        sim_done(&s);
    }
}

static void
test_mid_stream(void)
{
    struct tcp_spec spec;
    struct packet *p, *same;
    struct sim s;

    sim_init(&s, NULL, NULL);
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 500);
    spec.ecn = ACDC_ECN_ECT0;
    same = packet_make(&spec);
    p = sim_egress(&s, 0, packet_clone(same));
    ok(packet_same(p, same), "mid-stream data passes untouched");
    packet_free(p);
    p = sim_ingress(&s, 1, packet_clone(same));
    ok(packet_same(p, same), "both ways");
    packet_free(p);
    packet_free(same);
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_MIDSTREAM), 1, "counted");
    is_u64(sim_n_flows(&s, 0), 0, "no flow is made");
    sim_done(&s);
}

static void
test_eviction(void)
{
    struct sim s;
    uint16_t i;

    sim_init(&s, NULL, NULL);
    limit(&s, 6);
    open_flow(&s, 1, ACDC_FLOW_ESTABLISHED);
    open_flow(&s, 2, ACDC_FLOW_ESTABLISHED);
    open_flow(&s, 3, ACDC_FLOW_SYN_SENT);
    open_flow(&s, 4, ACDC_FLOW_SYN_SENT);
    open_flow(&s, 5, ACDC_FLOW_CLOSED);
    open_flow(&s, 6, ACDC_FLOW_CLOSED);
    for (i = 7; i < 9; i++) {
        open_flow(&s, i, ACDC_FLOW_ESTABLISHED);
        ok(has_port(&s, i), "flow %u finds room", i);
    }
    ok(!has_port(&s, 5) && !has_port(&s, 6), "closed ones went first");
    for (; i < 11; i++) {
        open_flow(&s, i, ACDC_FLOW_ESTABLISHED);
        ok(has_port(&s, i), "flow %u finds room", i);
    }
    ok(!has_port(&s, 3) && !has_port(&s, 4), "then half-open ones");
    open_flow(&s, i, ACDC_FLOW_ESTABLISHED);
    ok(!has_port(&s, i), "active ones stay");
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_TABLE_FULL), 1,
           "the new one is not tracked, and counted");
    ok(!packet_is_ours(s.wire[0]) && !packet_is_ours(s.wire[2])
       && packet_window(s.seen[2]) == 0xffff, "and passes untouched");
    s.now += (ACDC_IDLE_EVICT_MS + 2 * ACDC_SEEN_UNIT) * SIM_MS;
    open_flow(&s, ++i, ACDC_FLOW_ESTABLISHED);
    ok(has_port(&s, i), "idle ones go at last");
    is_u64(sim_counter(&s, 0, ACDC_C_FLOWS_EVICTED), 5, "evictions counted");
    is_u64(sim_n_flows(&s, 0), 6, "never more than the limit");
    sim_done(&s);
}

static void
test_limits(void)
{
    struct acdc_tenant_config tc = { .name = SIM_TENANT,
                                     .params = acdc_params_default,
                                     .max_half_open = 10 };
    static struct acdc_flow_info flows[3000];
    bool seen[2001] = { false }, once = true;
    struct acdc_stats st;
    struct sim s;
    uint16_t i;
    unsigned int n;

    sim_init(&s, NULL, NULL);
    limit(&s, 1000);
    acdc_tenant_set(s.acdc[0], &tc);
    for (i = 1; i <= 20; i++) {
        open_flow(&s, i, ACDC_FLOW_SYN_SENT);
    }
    is_u64(sim_n_flows(&s, 0), 10, "half-open quota");
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_HALF_OPEN), 10, "counted");
    s.now += (ACDC_HALF_OPEN_SHORT_MS - 1) * SIM_MS;
    acdc_sweep(s.acdc[0], s.now, UINT32_MAX);
    is_u64(sim_n_flows(&s, 0), 10, "for the time of a retransmission");
    s.now += 2 * ACDC_SEEN_UNIT * SIM_MS;
    acdc_sweep(s.acdc[0], s.now, UINT32_MAX);
    is_u64(sim_n_flows(&s, 0), 5, "then half of them");
    for (; i <= 25; i++) {
        open_flow(&s, i, ACDC_FLOW_SYN_SENT);
    }
    is_u64(sim_n_flows(&s, 0), 10, "others have their place");
    is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_HALF_OPEN), 10, "all of them");
    is_u64(acdc_flush(s.acdc[0], NULL, NULL), 10, "flushed");
    is_u64(stats(s.acdc[0]).n_half_open, 0, "none is half open");
    tc.max_half_open = 0;
    acdc_tenant_set(s.acdc[0], &tc);

    /* Another table: raise the limit with flows in it. */
    limit(&s, 70);
    for (i = 1; i <= 70; i++) {
        s.v6 = i % 2;
        open_flow(&s, i, ACDC_FLOW_ESTABLISHED);
    }
    st = stats(s.acdc[0]);
    is_u64(st.n_flows, 70, "table full");
    limit(&s, 2000);
    is_u64(dump(&s, flows, 3000, 3000), 70, "none is lost in a larger table");
    ok(has_port(&s, 1) && has_port(&s, 70), "all are found");
    for (; i <= 2000; i++) {
        s.v6 = i % 2;
        open_flow(&s, i, ACDC_FLOW_ESTABLISHED);
    }
    st = stats(s.acdc[0]);
    is_u64(st.n_flows, 2000, "2000 flows");
    ok(st.table_bytes >= 1000ull * (st.bytes_per_flow4 + st.bytes_per_flow6),
       "memory");
    /* Where there is no arena, links are longer, and what few flows need is there. */
    ok(st.bytes_per_flow4 <= 128 + (sizeof(acdc_link) > 4 ? 8 + 64 : 0),
       "a flow takes %u bytes, IPv6 %u",
       st.bytes_per_flow4, st.bytes_per_flow6);
    for (n = 1; n < 40; n += 6) {
        unsigned int got = dump(&s, flows, 3000, n);

        memset(seen, 0, sizeof seen);
        for (unsigned int k = 0; k < got; k++) {
            once &= !seen[flows[k].local_port];
            seen[flows[k].local_port] = true;
        }
        once &= got == 2000;
    }
    ok(once, "a dump in small pieces shows each once");
    limit(&s, 5);
    is_u64(stats(s.acdc[0]).n_flows, 2000, "a lower limit evicts no one");
    open_flow(&s, 3000, ACDC_FLOW_ESTABLISHED);
    is_u64(stats(s.acdc[0]).n_flows, 2000, "and lets no one in");
    /* 100 of 4096 buckets at a time. */
    s.now += 200 * 1000 * SIM_MS;
    for (n = 1; !acdc_sweep(s.acdc[0], s.now, 100); n++) {
        continue;
    }
    ok(n > 10, "the sweeper keeps to its budget");
    is_u64(sim_n_flows(&s, 0), 0, "and goes through all");
    sim_done(&s);
}

static void
test_no_memory(void)
{
    struct acdc_tenant_config tc = { .name = "red",
                                     .params = acdc_params_default };
    struct acdc_config c = { .max_flows = 5000, .idle_timeout = 1,
                             .exid = 0xacdc };
    struct packet *p, *same;
    struct tcp_spec spec;
    struct sim s;
    int i;

    for (i = 1; i < 4; i++) {
        sim_init(&s, NULL, NULL);
        host_fail(HOST_ALLOC, i, -1);
        is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), ENOMEM,
               "tenant without memory (%d)", i);
        host_fail(HOST_ALLOC, 0, 0);
        is_u64(tenant_stats(s.acdc[0], "red").name[0], 0, "nothing made");
        is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), 0, "with memory");
        host_fail(HOST_ALLOC, 1, -1);
        ok(!acdc_port_bind(s.acdc[0], SIM_PORT_NO, "x", "red", 1500),
           "port without memory");
        is_u64((unsigned) acdc_config_set(s.acdc[0], &c), ENOMEM,
               "larger table without memory");
        ok(!acdc_create(NULL), "engine without memory");
        spec = sim_spec(&s, 0, ACDC_TCP_SYN, 0);
        same = packet_make(&spec);
        p = sim_egress(&s, 0, packet_clone(same));
        ok(packet_same(p, same), "a SYN passes untouched");
        host_fail(HOST_ALLOC, 0, 0);
        is_u64(sim_counter(&s, 0, ACDC_C_UNTOUCHED_MEMORY), 1, "counted");
        acdc_config_get(s.acdc[0], &c);
        is_u64(c.max_flows, 1000, "the limit is what it was");
        packet_free(p);
        packet_free(same);
        sim_connect(&s);
        /* Without memory for an edit the flow goes on. */
        for (int call = HOST_PUSH; call < HOST_N_CALLS; call++) {
            host_fail((enum host_call) call, 1, -1);
            sim_data(&s, 0, 1000, true);
            p = sim_ack(&s, 1);
            ok(packet_count(p) >= 1 && packet_csum_ok(p),
               "without memory (%d) an ACK gets through", call);
            packet_free_list(p);
            host_fail((enum host_call) call, 0, 0);
        }
        sim_done(&s);
        c.max_flows = 5000;
    }
}

static void
test_tenants(void)
{
    struct acdc_tenant_config tc = { .name = "red",
                                     .params = acdc_params_default };
    struct acdc_tenant_stats ts;
    struct acdc_port_info pi;
    struct acdc_port *red;
    uint32_t other = 99;
    struct sim s;

    sim_init(&s, NULL, NULL);
    ok(!acdc_port_bind(s.acdc[0], 8, "p8", "red", 1500), "no such tenant");
    is_u64((unsigned) acdc_tenant_del(s.acdc[0], "red"), ENOENT, "nor here");
    tc.params.beta = ACDC_FIX_ONE + 1;
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), EINVAL, "beta > 1");
    tc.params = acdc_params_default;
    tc.params.gain = 0;
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), EINVAL, "gain 0");
    tc.params = acdc_params_default;
    tc.params.fallback = ACDC_ALG_DCTCP;
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), EINVAL,
           "dctcp cannot be the fallback");
    tc.params = acdc_params_default;
    tc.params.initial_window = 0;
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), EINVAL,
           "initial window 0");
    tc.params = acdc_params_default;
    tc.name[0] = 0;
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), EINVAL, "no name");
    memset(tc.name, 'x', sizeof tc.name);
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), EINVAL, "endless name");
    memset(tc.name, 0, sizeof tc.name);
    memcpy(tc.name, "red", 4);
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), 0, "a good one");
    is_u64((unsigned) acdc_tenant_stats_nth(s.acdc[0], 1, &ts), 0, "two");
    is_u64((unsigned) acdc_tenant_stats_nth(s.acdc[0], 2, &ts), ENOENT,
           "not three");
    red = acdc_port_bind(s.acdc[0], 8, "p8", "red", 9000);
    ok(red != NULL, "bound");
    ok(red == acdc_port_bind(s.acdc[0], 8, "p8", "red", 1400),
       "again: the same handle");
    is_u64((unsigned) acdc_port_info_nth(s.acdc[0], 0, &pi), 0, "port info");
    ok(pi.mtu == 1400 && pi.port_no == 8 && !strcmp(pi.name, "p8")
       && !strcmp(pi.tenant, "red"), "of the new one");
    is_u64((unsigned) acdc_port_info_nth(s.acdc[0], 2, &pi), ENOENT, "two");

    /* The same addresses and ports on two guest ports. */
    sim_connect(&s);
    {
        struct acdc_port *blue = s.port[0];

        s.port[0] = red;
        acdc_flush(s.acdc[1], NULL, NULL);
        s.guest[0].snd_nxt += 5000;
        sim_connect(&s);
        s.port[0] = blue;
    }
    is_u64(sim_n_flows(&s, 0), 2, "tenants may overlap");
    is_u64(tenant_stats(s.acdc[0], "red").n_flows, 1, "one is red");
    is_u64(acdc_flush(s.acdc[0], "blue", &other), 0, "no such port");
    is_u64(acdc_flush(s.acdc[0], "blue", NULL), 1, "one is blue");
    is_u64(tenant_stats(s.acdc[0], "red").n_capable, 1, "red's is there");

    /* Moving a port, unbinding it. */
    s.port[0] = acdc_port_bind(s.acdc[0], SIM_PORT_NO, "vnet7", "red", 1500);
    is_u64(tenant_stats(s.acdc[0], "red").n_ports, 2, "a port moves");
    is_u64(tenant_stats(s.acdc[0], "blue").n_ports, 0, "from blue");
    sim_connect(&s);
    is_u64(tenant_stats(s.acdc[0], "red").n_flows, 2, "two flows in red");
    is_u64((unsigned) acdc_port_unbind(s.acdc[0], 8), 0, "unbound");
    is_u64((unsigned) acdc_port_unbind(s.acdc[0], 8), ENOENT, "only once");
    is_u64(tenant_stats(s.acdc[0], "red").n_flows, 1, "its flow is gone");
    {
        /* A thread that still has the handle. */
        struct tcp_spec spec = sim_spec(&s, 0, ACDC_TCP_SYN, 0);
        struct packet *p = host_process(red, ACDC_EGRESS, packet_make(&spec),
                                        s.now);

        ok(!packet_is_ours(p), "an unbound port passes untouched");
        packet_free(p);
    }
    host_quiesce();
    is_u64((unsigned) acdc_tenant_del(s.acdc[0], "red"), 0, "deleted");
    is_u64(sim_n_flows(&s, 0), 0, "with its flows");
    is_u64((unsigned) acdc_port_unbind(s.acdc[0], SIM_PORT_NO), ENOENT,
           "and ports");
    s.port[0] = NULL;
    sim_done(&s);
}

/* Flows know their port by its place in a directory. */
static void
test_port_directory(void)
{
    enum { N = 100 };
    struct acdc_port_dir *dir, *full;
    struct acdc_port *port[N];
    bool distinct = true;
    struct acdc *a;
    uint32_t i, k;

    a = acdc_create(NULL);
    acdc_tenant_set(a, &(struct acdc_tenant_config) {
        .name = "red", .params = acdc_params_default });
    for (i = 0; i < N; i++) {
        port[i] = acdc_port_bind(a, i, "p", "red", 1500);
        for (k = 0; k < i; k++) {
            distinct &= port[k]->idx != port[i]->idx;
        }
        distinct &= a->port_dir->ports[port[i]->idx] == port[i];
    }
    ok(distinct, "%u ports", N);
    k = port[7]->idx;
    acdc_port_unbind(a, 7);
    ok(acdc_port_bind(a, N, "p", "red", 1500)->idx != k
       && a->port_dir->ports[k] == port[7],
       "one that is unbound is found while some thread may have its flows");
    host_quiesce();
    is_u64(acdc_port_bind(a, N + 1, "p", "red", 1500)->idx, k,
           "and then others have its place");
    dir = a->port_dir;
    full = calloc(1, sizeof *full + ACDC_PORTS_MAX * sizeof full->ports[0]);
    full->size = ACDC_PORTS_MAX;
    for (i = 0; i < ACDC_PORTS_MAX; i++) {
        full->ports[i] = port[0];
    }
    a->port_dir = full;
    ok(!acdc_port_bind(a, N + 2, "p", "red", 1500), "there are enough ports");
    full->ports[ACDC_PORTS_MAX - 1] = NULL;
    port[0] = acdc_port_bind(a, N + 2, "p", "red", 1500);
    is_u64(port[0]->idx, ACDC_PORTS_MAX - 1, "the last place");
    acdc_port_unbind(a, N + 2);
    host_quiesce();
    ok(!full->ports[ACDC_PORTS_MAX - 1], "it is free");
    a->port_dir = dir;
    free(full);
    acdc_destroy(a);
    host_quiesce();
}

static void
test_rules(void)
{
    static const char *const matches[] = {
        "remote_port=5001", "remote=10.0.0.0/8",
        ("remote=10.0.0.2,remote_port=5000-5002"), "local_port=77",
        "remote=a00:2::/32",
    };
    static const uint32_t priorities[] = { 5, 20, 10, 30, 7 };
    static const struct {
        bool v6;
        uint16_t local, remote;
        uint8_t last;           /* Byte of the remote IPv4 address. */
        int want;               /* Index of 'matches', -1: the tenant's. */
    } cases[] = {
        { false, 1, 5001, 2, 1 }, { false, 77, 5001, 2, 3 },
        { true, 77, 1, 2, 3 }, { true, 1, 5001, 2, 4 }, { true, 1, 2, 2, 4 },
        { false, 1, 2, 2, 1 },
    };
    struct acdc_rule rules[5];
    struct acdc_tenant_config tc = { .name = SIM_TENANT,
                                     .params = acdc_params_default,
                                     .n_rules = 5, .rules = rules };
    struct acdc_flow_info fi;
    char error[200];
    struct sim s;
    unsigned int i;

    sim_init(&s, NULL, NULL);
    sim_remove_acdc(&s, 1);
    memset(rules, 0, sizeof rules);
    for (i = 0; i < 5; i++) {
        ok(acdc_match_parse(matches[i], &rules[i].match, error,
                            sizeof error), "%s", matches[i]);
        rules[i].priority = priorities[i];
        rules[i].params = acdc_params_default;
        rules[i].params.beta = 1000 + i;
    }
    tc.params.beta = 999;
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), 0, "five rules");
    is_u64(tenant_stats(s.acdc[0], SIM_TENANT).n_rules, 5, "reported");
    memset(rules, 0xff, sizeof rules);          /* They were copied. */
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        acdc_flush(s.acdc[0], NULL, NULL);
        s.v6 = cases[i].v6;
        s.guest[1].port = cases[i].remote;
        s.guest[1].addr[3] = cases[i].last;
        s.guest[0].port = cases[i].local;
        sim_syn(&s);
        sim_info(&s, 0, &fi);
        is_u64(fi.beta, (uint32_t) (1000 + cases[i].want), "case %u", i);
    }
    /* Rules change: live flows follow. */
    tc.n_rules = 0;
    acdc_tenant_set(s.acdc[0], &tc);
    sim_info(&s, 0, &fi);
    ok(fi.beta == 999 && fi.rule == -1, "no rules: the tenant's");
    tc.n_rules = ACDC_RULES_MAX + 1;
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), EINVAL,
           "too many rules");
    tc.n_rules = 1;
    is_u64((unsigned) acdc_tenant_set(s.acdc[0], &tc), EINVAL, "a bad rule");
    sim_done(&s);
}

/* Percentiles of known round-trip times, and the fraction of marked bytes. */
static void
test_statistics(void)
{
    static const uint32_t rtts[] = { 1, 7, 8, 15, 16, 100, 1000, 12345,
                                     1000000, 60000000 };
    struct acdc_tenant_stats ts;
    struct acdc_slot_stats *slot;
    struct sim s;
    unsigned int i, k;

    for (i = 0; i < sizeof rtts / sizeof rtts[0]; i++) {
        sim_init(&s, NULL, NULL);
        for (k = 0; k < 4; k++) {
            struct acdc_ctx ctx = { .slot = &s.acdc[0]->tenants->slots[k] };
            unsigned int j;

            /* Two of a hundred are far away. */
            for (j = 0; j < 25; j++) {
                acdc_rtt_record(&ctx, k < 2 && j == 10 ? 50000000 : rtts[i]);
            }
            acdc_rtt_flush(&ctx);
        }
        ts = tenant_stats(s.acdc[0], SIM_TENANT);
        ok(ts.rtt_p50_us >= rtts[i] - rtts[i] / 8
           && ts.rtt_p50_us <= rtts[i] + rtts[i] / 8,
           "median of %u us: %u us", rtts[i], ts.rtt_p50_us);
        ok(ts.rtt_p99_us >= 43000000 && ts.rtt_p99_us <= 67000000,
           "99th percentile: %u us", ts.rtt_p99_us);
        sim_done(&s);
    }
    sim_init(&s, NULL, NULL);
    is_u64(tenant_stats(s.acdc[0], SIM_TENANT).rtt_p50_us, 0, "no sample");
    slot = &s.acdc[0]->tenants->slots[0];
    acdc_a64_add(&slot->counters[ACDC_C_INGRESS_BYTES], 4ull << 50);
    acdc_a64_add(&slot->counters[ACDC_C_CE_BYTES], 1ull << 50);
    is_u64(tenant_stats(s.acdc[0], SIM_TENANT).ce_fraction, ACDC_FIX_ONE / 4,
           "a quarter of 4 PB is marked");
    sim_done(&s);
}

/* A packet that others have too, in another VLAN than its connection, and in which nothing
 * is to be changed: not even from one checksum of zero to the other. */
static void
test_shared_in_other_vlan(void)
{
    struct packet *p, *other;
    struct tcp_spec spec;
    uint8_t *buf;
    struct sim s;

    sim_init(&s, NULL, NULL);
    sim_connect(&s);
    s.vlans = 1;
    s.guest[1].window = 1;
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    p = packet_make(&spec);
    memset(packet_data(p) + p->len - 4, 0xff, 2);
    other = packet_clone(p);
    p->shared = true;
    buf = p->buf;
    p = sim_ingress(&s, 0, p);
    ok(!memcmp(buf + spec.headroom, packet_data(other), other->len), "not written");
    ok(p && packet_same(p, other), "and it passes");
    packet_free(p);
    packet_free(other);
    free(buf);
    sim_done(&s);
}

int
main(void)
{
    test_life();
    test_keep_alive_after_fin();
    test_mid_stream();
    test_shared_in_other_vlan();
    test_eviction();
    test_limits();
    test_no_memory();
    test_tenants();
    test_port_directory();
    test_rules();
    test_statistics();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
