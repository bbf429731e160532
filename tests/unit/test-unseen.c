/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Connections of which a port sees one direction for a while, through two engines. */

#include "sim.h"
#include "tap.h"

/* Guest 0 is not heard of by its port. */
static void
become_deaf(struct sim *s)
{
    int i;

    for (i = 0; i < 3; i++) {
        s->now += 600 * SIM_MS;
        sim_data(s, 0, 1448, false);
    }
    is_u64(sim_counter(s, 0, ACDC_C_UNHEARD), 1, "nothing comes back");
}

/* A guest that was not heard of for a while may still send what it was offered before. */
static void
test_offer_before_silence(void)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct sim s;

    params.police = true;
    sim_connect_as(&s, &params);
    become_deaf(&s);
    spec = sim_spec(&s, 1, ACDC_TCP_ACK, 0);
    spec.window = 1;
    packet_free_list(sim_send(&s, 1, &spec));
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    spec.seq += 4 * 1448;
    is_u64(sim_leave(&s, 0, &spec), 1, "then little is offered, but what was offered before passes");
    spec.seq += 1 << 20;
    is_u64(sim_leave(&s, 0, &spec), 0, "and nothing else");
    sim_done(&s);
}

/* Totals cannot be compared any more. */
static void
test_gigabytes_unheard(void)
{
    const uint32_t many = 5u << 29;
    struct acdc_flow *f;
    struct sim s;

    sim_connect_as(&s, &acdc_params_default);
    sim_round_trip(&s, 0);
    become_deaf(&s);
    f = sim_flow(&s, 0);
    acdc_flow_set_tx_total(f, acdc_flow_tx_total(f) + many);
    sim_flow(&s, 1)->rx_total += many;
    packet_free_list(sim_ack(&s, 1));
    ok(sim_info_of(&s, 0).capable, "after 2.5 GB a report is believed again");
    sim_round_trip(&s, 1);
    is_u64(sim_counter(&s, 0, ACDC_C_FEEDBACK_STALE), 0, "none is stale");
    is_u64(sim_counter(&s, 0, ACDC_C_CUTS_ECN), 1, "and marks count");
    sim_done(&s);
}

/* Nor can edges. */
static void
test_policed_after_gigabytes(void)
{
    struct acdc_params params = acdc_params_default;
    struct tcp_spec spec;
    struct sim s;
    int i;

    params.police = true;
    sim_connect_as(&s, &params);
    become_deaf(&s);
    for (i = 0; i < 250; i++) {
        s.guest[0].snd_nxt += 10000000;
        sim_data(&s, 0, 1448, false);
    }
    packet_free_list(sim_ack(&s, 1));
    spec = sim_spec(&s, 0, ACDC_TCP_ACK, 1448);
    is_u64(sim_leave(&s, 0, &spec), 1, "after 2.5 GB it may go on");
    spec.seq += 10000000;
    is_u64(sim_leave(&s, 0, &spec), 0, "as far as its window allows");
    sim_done(&s);
}

/* Where the other end reported no more before that, CUBIC governed: it would hear of no ACK. */
static void
test_unheard_after_fallback(void)
{
    struct sim s;

    sim_connect_as(&s, &acdc_params_default);
    sim_lose_reports(&s);
    is_u64(sim_info_of(&s, 0).algorithm, ACDC_ALG_CUBIC, "no reports: CUBIC");
    become_deaf(&s);
    is_u64(sim_info_of(&s, 0).algorithm, ACDC_ALG_NONE, "no ACKs either: the fallback");
    packet_free_list(sim_ack(&s, 1));
    ok(sim_info_of(&s, 0).algorithm != ACDC_ALG_NONE, "an ACK: governed again");
    sim_done(&s);
}

int
main(void)
{
    test_unheard_after_fallback();
    test_offer_before_silence();
    test_policed_after_gigabytes();
    test_gigabytes_unheard();
    is_u64((uint64_t) host_allocated(), 0, "nothing leaks");
    return tap_end();
}
