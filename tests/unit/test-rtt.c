/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Round-trip times of guest 1, which always fills the window it is told, whatever the law's
 * window is in units of the scale, and while cuts hold. */

#include "escape.h"
#include "sim.h"
#include "tap.h"

enum { SEGMENT = 1448, RTT_US = 1000 };

struct run {
    struct sim s;
    struct queue under_way;
    uint32_t una, told;
    bool marks;
    unsigned int n;             /* Segments that arrived. */
};

/* Takes 'list', which leaves now by the side 'from'. */
static void
leave(struct run *r, unsigned int from, struct packet *list)
{
    while (list) {
        struct packet *p = list;

        list = p->next;
        p->next = NULL;
        queue_add(&r->under_way, (struct waiting) {
            p, r->s.now + RTT_US / 2 * SIM_MS / 1000, from, UNDER_WAY });
    }
}

static void
fill_window(struct run *r)
{
    uint32_t room;

    while ((room = r->una + r->told - r->s.guest[1].snd_nxt, room && room <= r->told)) {
        leave(r, 1, sim_on_wire(&r->s, 1, room < SEGMENT ? room : SEGMENT));
        r->s.now += 1200;
    }
}

static void
arrive(struct run *r, struct waiting w)
{
    struct packet *p;
    struct acdc_pkt pkt;

    if (w.fate && r->marks && r->n++ % 300 == 299) {
        packet_set_ecn(w.p, ACDC_ECN_CE);
    }
    p = sim_ingress(&r->s, !w.fate, w.p);
    if (p && packet_parse(p, &pkt) && w.fate) {
        r->s.guest[0].rcv_nxt = pkt.seq + pkt.payload;
        leave(r, 0, sim_on_wire(&r->s, 0, 0));
    } else if (p) {
        r->una = pkt.ack;
        r->told = (uint32_t) acdc_pkt_window(&pkt) << sim_flow(&r->s, 1)->out_wscale;
        fill_window(r);
    }
    packet_free_list(p);
}

static void
test_rtt(int wscale, unsigned int segments, bool marks)
{
    struct acdc_params params = acdc_params_default;
    uint32_t srtt, least = UINT32_MAX, most = 0;
    struct run r = { .marks = marks };
    struct waiting w;
    uint64_t end;

    params.max_window = segments * SEGMENT;
    sim_init(&r.s, NULL, &params);
    r.s.guest[0].timestamps = r.s.guest[1].timestamps = true;
    /* It is made no finer than for the MSS of the SYN. */
    r.s.guest[0].mss = wscale > 10 ? 8960 : 1460;
    r.s.guest[0].wscale = wscale;
    sim_connect(&r.s);
    r.una = r.s.guest[1].snd_nxt;
    r.told = SEGMENT;
    end = r.s.now + 100 * SIM_MS;
    fill_window(&r);
    while (r.s.now < end && queue_take(&r.under_way, UINT64_MAX, &w)) {
        r.s.now = w.due > r.s.now ? w.due : r.s.now;
        arrive(&r, w);
        srtt = sim_info_of(&r.s, 1).srtt_us;
        least = srtt < least ? srtt : least;
        most = srtt > most ? srtt : most;
    }
    is_u64(sim_flow(&r.s, 1)->out_wscale, (unsigned) wscale, "the guest is told the scale");
    ok(least > RTT_US * 98 / 100 && most < RTT_US * 102 / 100,
       "scale %d, %u segments, marks %d: %u to %u us", wscale, segments, marks, least, most);
    queue_clear(&r.under_way);
    sim_done(&r.s);
}

int
main(void)
{
    static const int wscales[] = { 7, 10, 13 };
    unsigned int i, marks;

    for (i = 0; i < 3; i++) {
        for (marks = 0; marks < 2; marks++) {
            test_rtt(wscales[i], 2, marks);
            test_rtt(wscales[i], 20, marks);
            test_rtt(wscales[i], 100, marks);
        }
    }
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
