/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* Two guests, two virtual switches with AC/DC, and the network in between:
 *
 *     guest 0 - engine 0 - network - engine 1 - guest 1
 *
 * Time passes only when a test says so.  The guests' TCP is whatever the test
 * sends; struct sim_guest keeps their sequence numbers. */

#ifndef SIM_H
#define SIM_H 1

#include "host.h"

#define SIM_TENANT "blue"
enum { SIM_MTU = 1500, SIM_PORT_NO = 7 };
#define SIM_MS UINT64_C(1000000)        /* Nanoseconds. */

struct sim_guest {
    uint8_t addr[16];           /* IPv4: the first four bytes. */
    uint16_t port;
    uint32_t snd_nxt, rcv_nxt;
    uint16_t window;            /* Raw, in its ACKs. */
    uint16_t syn_window;
    uint16_t mss;
    int wscale;                 /* -1: no option. */
    bool timestamps;
    bool no_sack;
    bool ecn;                   /* Asks for and accepts ECN. */
    uint8_t ect;                /* Codepoint of its packets. */
};

struct sim {
    struct acdc *acdc[2];       /* NULL: a virtual switch without AC/DC. */
    struct acdc_port *port[2];
    struct sim_guest guest[2];
    uint64_t now;
    uint64_t clock[2];          /* By which the hosts' wall clocks are ahead of it. */
    bool v6;
    unsigned int vlans;
    bool csum_partial;
    unsigned int headroom;
    uint8_t no_flags;           /* Of the capability: the network clears them, as if an
                                 * end did not know them. */
    /* The packets of the handshake, as sent on the wire and as the other
     * guest got them: SYN, SYN-ACK, ACK. */
    struct packet *wire[3], *seen[3];
};

/* Of each engine that is made from now on.  What walks the table is faster with few. */
extern uint32_t sim_max_flows;

/* Engines with one tenant "blue" with these parameters (NULL: the defaults)
 * and port 7 bound to it. */
void sim_init(struct sim *, const struct acdc_params *,
              const struct acdc_params *);
/* Only one virtual switch, 'side', has AC/DC. */
void sim_remove_acdc(struct sim *, int side);
void sim_done(struct sim *);
void sim_policy(struct sim *, int side, const struct acdc_params *);

/* A packet of the guest with its sequence numbers, without options but
 * timestamps. */
struct tcp_spec sim_spec(const struct sim *, int side, uint8_t flags,
                         uint32_t payload);

/* From the guest through its engine: what goes on the wire. */
struct packet *sim_egress(struct sim *, int side, struct packet *);
/* The same of what 'spec' describes, freed; returns how many packets go. */
uint64_t sim_leave(struct sim *, int side, const struct tcp_spec *spec);
/* From the wire through the engine of 'side': what its guest gets. */
struct packet *sim_ingress(struct sim *, int side, struct packet *);
/* Both. */
struct packet *sim_cross(struct sim *, int from, struct packet *);
/* Both, of what 's' describes. */
struct packet *sim_send(struct sim *, int from, const struct tcp_spec *);

/* Guest 0 connects to guest 1. */
void sim_syn(struct sim *);
void sim_synack(struct sim *);
void sim_connect(struct sim *);

/* Guest 'from' sends 'n' bytes in one packet, marked CE in the network if
 * 'ce'; the other guest receives it; nothing acknowledged. */
void sim_data(struct sim *, int from, uint32_t n, bool ce);
/* Guest 'from' acknowledges all it has.  Returns what the other one got, to
 * be freed; NULL if nothing. */
struct packet *sim_ack(struct sim *, int from);
/* The same, freed; returns the window field the other one got. */
uint16_t sim_ack_window(struct sim *, int from);

void sim_info(const struct sim *, int side, struct acdc_flow_info *);
struct acdc_flow_info sim_info_of(const struct sim *, int side);
unsigned int sim_n_flows(const struct sim *, int side);
/* The first flow that there is; NULL without one. */
struct acdc_flow *sim_flow(const struct sim *, int side);
uint64_t sim_counter(const struct sim *, int side, enum acdc_counter);

/* sim_init() with the same parameters at both ends, guests with timestamps, and
 * sim_connect(). */
void sim_connect_as(struct sim *, const struct acdc_params *);
/* The engine of 'side' loses all its flows. */
void sim_forget(struct sim *, int side);
/* The switch of guest 1 goes away, and guest 0 sends until the connection falls back.
 * Returns the segments sent, 1000 if it does not. */
unsigned int sim_lose_reports(struct sim *);
/* Guest 0 fills the window, guest 1 acknowledges all, one of 'mark_every' segments
 * marked (0: none).  Returns the segments sent. */
unsigned int sim_round_trip(struct sim *, unsigned int mark_every);
/* Guest 'side' sends 'n' bytes, of 0 an ACK: what goes on the wire, first what was
 * injected. */
struct packet *sim_on_wire(struct sim *, int side, uint32_t n);
/* Guest 0 sends 'n' bytes that the network loses. */
void sim_lose_data(struct sim *, uint32_t n);

#endif /* sim.h */
