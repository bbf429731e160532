/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Window scales that guests are told finer than they are, where one end's vSwitch forgets
 * (acdc-wscale.c). */

#include "resume.h"
#include "tap.h"

/* The window that the guest of 'side' believes it is offered. */
static uint32_t
believed(struct sim *s, int side, uint8_t told)
{
    return (uint32_t) sim_ack_window(s, !side) << told;
}

static void
check_scales(const int wscale[2], bool timestamps, int side)
{
    struct shape shape = { .wscale = { wscale[0], wscale[1] }, .segment = 1000,
                           .timestamps = timestamps };
    struct acdc_flow_info before[2], after[2];
    struct seen seen = { 0 };
    uint8_t told[2];
    uint32_t own;
    struct sim s;
    int i;

    begin(&s, &shape);
    for (i = 0; i < 2; i++) {
        before[i] = info(&s, i);
        told[i] = sim_flow(&s, i)->out_wscale;
    }
    for (i = 0; i < 4; i++) {
        int lost = i & 1 ? !side : side;

        sim_forget(&s, lost);
        exchange(&s, 0, 1000, false, &seen);
        exchange(&s, 1, 1000, false, &seen);
        exchange(&s, 0, 1000, false, &seen);
        after[lost] = info(&s, lost);
        ok(after[lost].resumed && after[lost].capable,
           "scales %d %d, timestamps %d: %d is resumed", wscale[0], wscale[1], timestamps,
           lost);
        ok(after[lost].wscale_local == before[lost].wscale_local
           && after[lost].wscale_remote == before[lost].wscale_remote
           && after[lost].rescaled == before[lost].rescaled, "with the same scales");
        is_u64(sim_flow(&s, lost)->out_wscale, told[lost], "also what the guest was told");
        ok(believed(&s, lost, told[lost])
           < info(&s, lost).window + (1u << told[lost]), "it gets the law's window");
        own = (uint32_t) s.guest[!lost].window << wscale[!lost];
        ok(believed(&s, lost, told[lost]) >= (own < info(&s, lost).window
                                              ? own : info(&s, lost).window),
           "all of it, as far as its peer offers that");
    }
    ok(!seen.ours && !seen.bad, "guests see nothing");
    sim_done(&s);
}

static void
test_finer(void)
{
    static const int wscales[][2] = {
        { 7, 13 }, { 13, 7 }, { 14, 14 }, { 11, 0 }, { 0, 12 }, { 11, 10 },
    };
    unsigned int i, timestamps;

    for (i = 0; i < sizeof wscales / sizeof *wscales; i++) {
        for (timestamps = 0; timestamps < 2; timestamps++) {
            check_scales(wscales[i], timestamps, 0);
            check_scales(wscales[i], timestamps, 1);
        }
    }
}

/* An end of the version before does not know what a guest was told, so such a connection
 * is not taken up again, with no window in a wrong scale.  Others are. */
static void
check_before(int from, int coarse, uint8_t wscale)
{
    struct seen seen = { 0 };
    struct sim s;
    int side, i;

    for (side = 0; side < 2; side++) {
        sim_init(&s, NULL, NULL);
        s.guest[0].wscale = s.guest[1].wscale = 7;
        s.guest[coarse].wscale = wscale;
        s.no_flags = ACDC_CAP_SCALES;
        sim_connect(&s);
        ok(info(&s, !coarse).rescaled == (wscale > 10), "scale %u of %d", wscale, coarse);
        exchange(&s, from, 1000, false, &seen);
        sim_forget(&s, side);
        for (i = 0; i < 10; i++) {
            exchange(&s, from, 1000, false, &seen);
        }
        is_u64(info(&s, side).resumed, wscale <= 10, "%d forgets", side);
        sim_done(&s);
    }
    is_u64(seen.ours, 0, "guests see nothing");
}

/* It was of this version, and is of the version before once it has forgotten. */
static void
test_downgrade(void)
{
    struct shape shape = usual;
    struct seen seen = { 0 };
    struct sim s;
    int side, i;

    for (side = 0; side < 2; side++) {
        shape.wscale[side] = 13;
        begin(&s, &shape);
        sim_forget(&s, side);
        s.no_flags = ACDC_CAP_SCALES;
        for (i = 0; i < 10; i++) {
            exchange(&s, 0, 1000, false, &seen);
        }
        ok(!info(&s, side).resumed, "a question of the version before has no answer");
        sim_done(&s);
    }
}

/* What a SYN-ACK says that cannot be. */
static void
test_impossible(void)
{
    static const uint8_t wrong[] = { 0x79, 0x8a, 0xff, 0x0b };
    struct acdc_flow_info fi;
    struct sim s;
    unsigned int i;

    for (i = 0; i < sizeof wrong; i++) {
        uint8_t opt[ACDC_OPT_CAP_LEN] = {
            ACDC_OPT_KIND, ACDC_OPT_CAP_LEN, 0xac, 0xdc, ACDC_OPT_VERSION,
            ACDC_CAP_NOT_ECT | ACDC_CAP_RESUME | ACDC_CAP_SCALES, wrong[i], 0,
        };
        struct tcp_spec spec;
        struct acdc_pkt pkt;
        struct packet *p;

        sim_init(&s, NULL, NULL);
        sim_remove_acdc(&s, 1);
        s.guest[0].wscale = s.guest[1].wscale = 7;
        sim_syn(&s);
        spec = sim_spec(&s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
        opt_mss(&spec, 1460);
        opt_wscale(&spec, i == 3 ? 10 : 7);
        opt_nop(&spec, 1);
        opt_raw(&spec, opt, sizeof opt);
        p = sim_ingress(&s, 0, packet_make(&spec));
        sim_info(&s, 0, &fi);
        ok(packet_parse(p, &pkt) && pkt.wscale == (i == 3 ? 10 : 7) && !fi.rescaled,
           "%02x: the guest gets its peer's scale", wrong[i]);
        ok(!(sim_flow(&s, 0)->flags & ACDC_F_RESUME), "nobody tells of it later");
        packet_free(p);
        sim_done(&s);
    }
}

/* A SYN-ACK that says a finer scale, and which the guest gets with its peer's: it has not
 * ACDC_CAP_RESUME, or there is no memory to write it. */
static void
test_not_told(bool resume)
{
    uint8_t opt[ACDC_OPT_CAP_LEN] = {
        ACDC_OPT_KIND, ACDC_OPT_CAP_LEN, 0xac, 0xdc, ACDC_OPT_VERSION,
        ACDC_CAP_NOT_ECT | ACDC_CAP_SCALES, 0x74, 0,
    };
    struct tcp_spec spec;
    struct acdc_pkt pkt;
    struct packet *p;
    struct sim s;

    opt[5] |= resume ? ACDC_CAP_RESUME : 0;
    sim_init(&s, NULL, NULL);
    sim_remove_acdc(&s, 1);
    sim_syn(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_SYN | ACDC_TCP_ACK, 0);
    opt_mss(&spec, 1460);
    opt_wscale(&spec, 7);
    opt_nop(&spec, 1);
    opt_raw(&spec, opt, sizeof opt);
    host_fail(HOST_WRITABLE, resume, -1);
    p = sim_ingress(&s, 0, packet_make(&spec));
    host_fail(HOST_WRITABLE, 0, 0);
    packet_parse(p, &pkt);
    is_u64(sim_flow(&s, 0)->out_wscale, pkt.wscale, "windows are in the scale that is told");
    packet_free(p);
    sim_done(&s);
}

int
main(void)
{
    int coarse, from;

    test_finer();
    for (coarse = 0; coarse < 2; coarse++) {
        for (from = 0; from < 2; from++) {
            check_before(from, coarse, 13);
            check_before(from, coarse, 9);
        }
    }
    test_downgrade();
    test_impossible();
    test_not_told(false);
    test_not_told(true);
    return tap_end();
}
