/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The handshake through two engines: capability, ECT mark, options, window
 * scale, retransmissions, simultaneous open, port reuse. */

#include "sim.h"
#include "tap.h"

static bool
all_ok(const struct packet *p)
{
    for (; p; p = p->next) {
        if (!packet_csum_ok(p) || !packet_payload_ok(p)) {
            return false;
        }
    }
    return true;
}

/* SYN, SYN-ACK and ACK of two capable ends. */
static void
test_capable(bool v6, unsigned int vlans, bool partial, unsigned int headroom)
{
    struct acdc_flow_info fi;
    struct acdc_pkt pkt;
    struct sim s;
    int i;

    sim_init(&s, NULL, NULL);
    s.v6 = v6;
    s.vlans = vlans;
    s.csum_partial = partial;
    s.headroom = headroom;
    sim_connect(&s);
    printf("# v%d, %u VLANs, partial checksum %d, headroom %u\n", v6 ? 6 : 4,
           vlans, partial, headroom);
    for (i = 0; i < 2; i++) {
        const char *name = i ? "SYN-ACK" : "SYN";

        packet_parse(s.wire[i], &pkt);
        ok(pkt.opt_flags & ACDC_O_CAPABILITY, "%s carries the capability",
           name);
        is_u64(acdc_pkt_ecn(&pkt), ACDC_ECN_ECT0, "%s is ECT(0)", name);
        ok(!packet_is_ours(s.seen[i]), "guest sees nothing of ours in %s",
           name);
        is_u64(packet_ecn(s.seen[i]), 0, "guest sees its own ECN in %s", name);
        ok(all_ok(s.wire[i]) && all_ok(s.seen[i]), "checksums of %s", name);
    }
    packet_parse(s.wire[2], &pkt);
    ok(pkt.opt_flags & ACDC_O_FEEDBACK, "first ACK is a PACK");
    ok(!packet_is_ours(s.seen[2]) && all_ok(s.seen[2]),
       "which the guest does not see");
    for (i = 0; i < 2; i++) {
        sim_info(&s, i, &fi);
        ok(fi.capable && fi.state == ACDC_FLOW_ESTABLISHED,
           "flow at %d is capable and established", i);
        is_u64(fi.window, 14600, "initial window");
        is_u64(fi.alpha, ACDC_FIX_ONE, "alpha is 1");
        is_u64(fi.algorithm, ACDC_ALG_DCTCP, "dctcp");
        is_u64(fi.ip_version, v6 ? 6 : 4, "IP version");
    }
    sim_done(&s);
}

static void
test_no_peer(void)
{
    int with;

    for (with = 0; with < 2; with++) {
        struct acdc_flow_info fi;
        struct sim s;

        sim_init(&s, NULL, NULL);
        sim_remove_acdc(&s, !with);
        s.guest[0].ecn = s.guest[1].ecn = true;
        s.guest[0].ect = ACDC_ECN_ECT0;
        sim_connect(&s);
        printf("# AC/DC at side %d only\n", with);
        ok(!with == packet_is_ours(s.wire[0]), "capability in SYN");
        ok(!packet_is_ours(s.wire[1]), "none in SYN-ACK");
        ok(!packet_is_ours(s.wire[2]), "no feedback");
        sim_info(&s, with, &fi);
        ok(!fi.capable && fi.algorithm == ACDC_ALG_NONE, "fallback none");
        ok(fi.guest_ecn, "guests' ECN noticed");
        is_u64(sim_counter(&s, with, ACDC_C_FLOWS_FALLBACK), 1, "counted");
        is_u64(packet_window(s.seen[2]), 0xffff, "window untouched");
        is_u64(packet_ecn(s.wire[2]), ACDC_ECN_ECT0, "guest's ECN untouched");
        sim_done(&s);
    }
}

int
main(void)
{
    int i;

    for (i = 0; i < 12; i++) {
        test_capable(i & 1, (unsigned int) i / 2 % 3, i >= 6,
                     i % 5 ? 0 : 128);
    }
    test_no_peer();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
