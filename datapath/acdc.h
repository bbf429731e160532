/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* AC/DC: congestion control of tenants' TCP in the virtual switch, after
 * He et al., "AC/DC TCP", SIGCOMM 2016.
 *
 * This header is the contract between the engine and a datapath.
 *
 * A datapath makes one engine (acdc_create), tells it the tenants
 * (acdc_tenant_set), binds ports to them (acdc_port_bind), and calls
 * acdc_process() with every batch of packets that it received from a bound
 * port (ACDC_EGRESS, before flow lookup) or is about to send to one
 * (ACDC_INGRESS, after all actions).  It calls acdc_sweep() now and then.
 *
 * Threads.  acdc_process() runs on any number of threads at once, also on
 * both directions of one flow, inside what the host considers an RCU read
 * section (a PMD thread between quiescent states, softirq under
 * rcu_read_lock).  The functions that configure (tenant, port, config,
 * flush, sweep, destroy) must be called by one thread at a time; they may run
 * while others process packets.  Dumps and statistics may run on any thread,
 * inside an RCU read section.
 *
 * Memory.  The engine allocates a flow on a SYN, nothing else per packet.
 * Nothing grows past acdc_config.max_flows.
 *
 * Units.  Windows and sequence distances in bytes, 'now' in nanoseconds of
 * any monotonic clock, fractions in fixed point with ACDC_FIX_SHIFT bits.
 * Host byte order except where "be" is in the name. */

#ifndef ACDC_H
#define ACDC_H 1

#include "acdc-platform.h"
#include "acdc-wire.h"

/* Fractions: alpha, beta, gain, CE fraction. */
#define ACDC_FIX_SHIFT 20
#define ACDC_FIX_ONE (1u << ACDC_FIX_SHIFT)

#define ACDC_NAME_LEN 64        /* With the terminating null byte. */
#define ACDC_RULES_MAX 256      /* A tenant's. */

struct acdc;
struct acdc_port;

/* Configuration. ---------------------------------------------------------- */

/* Of the whole engine. */
struct acdc_config {
    uint32_t max_flows;         /* 1...ACDC_FLOWS_MAX. */
    uint32_t idle_timeout;      /* Seconds, of established flows. */
    uint16_t exid;              /* ExID of the options on the wire. */
    bool clock_synced;          /* acdc_host_clock() is that of other hosts. */
};
#define ACDC_FLOWS_MAX (1u << 24)
#define ACDC_MAX_FLOWS_DEFAULT (1u << 20)
/* Above the 2 hours of keep-alive that RFC 9293 section 3.8.4 asks for. */
#define ACDC_IDLE_TIMEOUT_DEFAULT 7500

enum acdc_algorithm {
    ACDC_ALG_NONE,              /* Track and report only. */
#define ACDC_ALGORITHM(SYMBOL, NAME, PROPERTIES) ACDC_ALG_##SYMBOL,
#include "acdc-algorithms.h"
#undef ACDC_ALGORITHM
    ACDC_N_ALGS
};

enum acdc_mode {
    ACDC_MODE_ENFORCE,
    ACDC_MODE_OBSERVE,          /* Compute and report; touch no packet. */
    ACDC_N_MODES
};

/* What governs a flow: acdc-params.h says what each member means.  The larger
 * ones come first, so that there is no padding between them. */
struct acdc_params {
#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, ...) \
    ACDC_BITS_##KIND(ACDC_TYPE_##KIND NAME;, )
#include "acdc-params.h"
#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, ...) \
    ACDC_BITS_##KIND(, ACDC_TYPE_##KIND NAME;)
#include "acdc-params.h"
};

extern const struct acdc_params acdc_params_default;

/* Which flows of a tenant a rule is for.  Seen from the guest: local is the
 * guest's side.  IPv4 addresses are IPv4-mapped (::ffff:a.b.c.d). */
struct acdc_match {
    uint8_t remote[16];         /* be */
    uint8_t remote_plen;        /* Prefix length, 0...128; 0: any. */
    bool remote_set;
    uint16_t remote_port_min, remote_port_max;  /* 0...65535: any. */
    uint16_t local_port_min, local_port_max;
};

/* Whether 'addr', likewise, is in the prefix. */
bool acdc_match_remote(const struct acdc_match *, const uint8_t addr[16]);

struct acdc_rule {
    struct acdc_match match;
    uint32_t priority;          /* Larger first. */
    struct acdc_params params;
};

struct acdc_tenant_config {
    char name[ACDC_NAME_LEN];
    struct acdc_params params;
    uint32_t max_half_open;     /* Flows between SYN and the end of the
                                 * handshake; 0: ACDC_HALF_OPEN_DEFAULT. */
    uint32_t n_rules;
    const struct acdc_rule *rules;      /* In any order; copied. */
};
#define ACDC_HALF_OPEN_DEFAULT 16384

/* Returns an engine, or NULL without memory.  'cfg' NULL: defaults. */
struct acdc *acdc_create(const struct acdc_config *cfg);
/* What a host does beside what each must. */
enum {
    ACDC_HOST_HOLDS = 1 << 0,   /* Heeds ACDC_HOLD. */
    ACDC_HOST_KEEPS = 1 << 1,   /* Heeds acdc_pkt.keep_len. */
    ACDC_HOST_REASSEMBLES = 1 << 2,     /* May put a guest's fragments together behind
                                         * the engine, and send them on as one packet. */
};
/* Says so, before there is a port. */
void acdc_set_host(struct acdc *, unsigned int does);
/* Frees everything.  No thread may be inside acdc_process(). */
void acdc_destroy(struct acdc *);
/* Takes effect at once; a lower max_flows evicts no active flow.  Returns 0
 * or ENOMEM (then nothing changed). */
int acdc_config_set(struct acdc *, const struct acdc_config *);
void acdc_config_get(const struct acdc *, struct acdc_config *);

/* Creates or changes the tenant 'tc->name'.  Flows of the tenant follow with
 * their next packet.  Returns 0, EINVAL or ENOMEM (then nothing changed). */
int acdc_tenant_set(struct acdc *, const struct acdc_tenant_config *tc);
/* Removes it, its flows and the bindings of its ports, whose handles the host
 * must no longer use.  0 or ENOENT. */
int acdc_tenant_del(struct acdc *, const char *name);
bool acdc_tenant_exists(const struct acdc *, const char *name);

/* Binds datapath port 'port_no', for people 'port_name', to the tenant.  A
 * port bound before moves, its flows go.  'mtu' in bytes, of the IP packet;
 * calling again with the same tenant and name changes only the MTU.  Another
 * name is another port.  A port that moves (acdc_port_is() says no) loses its
 * handle: packets that come meanwhile must not find that, so the host forgets
 * it and calls acdc_port_unbind() first.
 * Returns the handle to pass to acdc_process(), valid (after the host's RCU
 * rules) until acdc_port_unbind(); NULL when there is no such tenant, no memory,
 * or there are 16383 ports. */
struct acdc_port *acdc_port_bind(struct acdc *, uint32_t port_no,
                                 const char *port_name, const char *tenant,
                                 uint32_t mtu);
/* Whether that is what it is bound as; 'port_name' NULL: whatever it is called. */
bool acdc_port_is(const struct acdc_port *, const char *port_name,
                  const char *tenant);
/* Bytes, of the IP packet.  Any thread. */
void acdc_port_set_mtu(struct acdc_port *, uint32_t mtu);
/* 0 or ENOENT. */
int acdc_port_unbind(struct acdc *, uint32_t port_no);

/* Packets. ---------------------------------------------------------------- */

enum acdc_dir {
    ACDC_EGRESS,
    ACDC_INGRESS,
    ACDC_TAIL,                  /* What was kept, see acdc_pkt.keep_len. */
};

enum acdc_verdict {
    ACDC_PASS,                  /* Go on with the packet, edited or not. */
    ACDC_DROP,                  /* Free it: a FACK, or policed. */
    ACDC_HOLD,                  /* As ACDC_PASS, and it is to leave the host at
                                 * 'release'. */
};

/* acdc_pkt.writable.  Of an unknown one the host is asked before the first
 * write, see acdc_host_writable(). */
enum { ACDC_W_UNKNOWN, ACDC_W_YES, ACDC_W_NO };

/* What flows and packets are told apart by, besides ports: addresses of IPv4, of
 * IPv6 and VLANs, if any, of IPv4 and VLANs. */
enum { ACDC_KIND_4, ACDC_KIND_6, ACDC_KIND_4_VLAN, ACDC_N_KINDS = 4 };

#ifndef ACDC_PKT_ENGINE
#define ACDC_PKT_ENGINE
#endif

/* A packet as the host shows it to the engine. */
struct acdc_pkt {
    /* Set by the host. */
    uint8_t *data;              /* First byte.  Updated when it moves. */
    uint32_t len;               /* Bytes from 'data' to the end, updated. */
    uint32_t hlen;              /* Of these, linear from 'data', updated: at most
                                 * 'len'. */
    uint16_t l3_ofs;            /* Where IP begins if 'ethertype' is set. */
    uint16_t ethertype;         /* Of the IP header, host order, or 0: 'data'
                                 * is an Ethernet header and the engine
                                 * parses it, VLAN tags too. */
    uint16_t tag_type;          /* TPID of a VLAN tag that the host keeps apart
                                 * from 'data', the first one then, or 0, ... */
    uint16_t tag_tci;           /* ... and its TCI, host order. */
    uint16_t gso;               /* To be segmented by TSO/GSO later: payload of a
                                 * segment, or UINT16_MAX where that is not known.
                                 * 0: it is one. */
    bool csum_partial;          /* The TCP checksum field holds the sum of the
                                 * pseudo header only, the rest is left to
                                 * offload. */
    uint8_t writable;           /* ACDC_W_*: whether headers are private,
                                 * updated. */
    uint16_t keep_len, keep_time;       /* Set by the engine, see below. */
    void *host;                 /* The host's packet. */
    void *aux;                  /* For acdc_host_*(). */

    /* Set by the engine for the host. */
    uint64_t release;           /* Only with ACDC_HOLD: nanoseconds, as 'now' of
                                 * acdc_process(). */
    uint32_t piece_ns;          /* With 'piece': the time between two. */
    uint16_t piece;             /* Likewise, if not 0: a packet with 'gso' leaves in
                                 * pieces of so many bytes of payload, the first at
                                 * 'release', where the host can cut it. */
    uint8_t verdict;            /* enum acdc_verdict. */
    bool edited;                /* acdc_host_writable() was asked and said yes:
                                 * some byte was changed. */
    uint8_t ip_version;         /* 4, 6, or 0: not understood, see 'reason'. */
    uint8_t kind;               /* ACDC_KIND_*; the engine's. */
    uint8_t tcp_hlen;           /* Bytes, with options. */
    uint8_t reason;             /* The counter that says why not understood. */
    uint16_t l4_ofs;            /* Where TCP begins, or as far as was read. */

    /* Tail probes.  If 'keep_len' is not 0 the host makes a copy of the packet as it
     * leaves, with the last 'keep_len' bytes of its payload, by acdc_tail_cut(), and
     * shows that with ACDC_TAIL to acdc_process(), as a packet of that port,
     * 'keep_time' times ACDC_KEEP_US microseconds after the packet leaves.  The
     * verdict is ACDC_PASS to send it, as what acdc_host_inject() makes, ACDC_DROP,
     * or ACDC_HOLD: the copy stays, and is asked for again at 'release'.  A host
     * that cannot keep it calls acdc_tail_lost(). */

    /* The engine's own: only acdc-packet.h says what. */
    union {
        uint64_t opaque[8];
        ACDC_PKT_ENGINE
    };
};

/* Initializes what the host does not care to set.  The rest is set by
 * acdc_pkt_parse(), acdc_table_set_key() and acdc_table_find(): of a memset() of
 * this size gcc makes "rep stos", which takes long to start. */
static inline void
acdc_pkt_init(struct acdc_pkt *p, uint8_t *data, uint32_t len, uint32_t hlen)
{
    p->data = data;
    p->len = len;
    p->hlen = hlen;
    p->l3_ofs = p->ethertype = p->tag_type = p->tag_tci = 0;
    p->gso = 0;
    p->csum_partial = false;
    p->host = p->aux = NULL;
    p->verdict = ACDC_PASS;
    p->edited = false;
    p->ip_version = p->reason = p->tcp_hlen = p->kind = 0;
    p->l4_ofs = 0;
    p->keep_len = p->piece = 0;
    p->writable = ACDC_W_UNKNOWN;
}

/* Processes 'n' packets of 'port', each initialized anew by acdc_pkt_init(); those
 * of one connection in order.  Sets 'verdict' of each. */
#define ACDC_BATCH_MAX 32      /* With ACDC_ONE_A_CALL: 1. */
void acdc_process(struct acdc_port *port, enum acdc_dir dir,
                  struct acdc_pkt *pkts, unsigned int n, uint64_t now);

/* Edits the headers of a copy of 'p', at 'data', of whose payload only 'len' bytes are
 * there, from 'from' on.  If that is not all the checksum is partial. */
void acdc_pkt_cut(const struct acdc_pkt *p, uint8_t *data, uint32_t from, uint32_t len);
/* Bytes of payload. */
uint32_t acdc_pkt_payload(const struct acdc_pkt *p);

enum { ACDC_KEEP_US = 16 };             /* Unit of acdc_pkt.keep_time. */
/* Edits the headers of a copy of 'p', at 'data', of whose payload only the last
 * 'p->keep_len' bytes are there. */
void acdc_tail_cut(const struct acdc_pkt *p, uint8_t *data);
/* Bytes of the payload that are not. */
uint32_t acdc_tail_skip(const struct acdc_pkt *p);
/* The host has no room for what it is to keep, or loses it before its time. */
void acdc_tail_lost(struct acdc_port *);
/* How much the host may have to keep for all ports, and for one. */
enum { ACDC_TAILS_MAX = 16384, ACDC_TAILS_PORT = 1024 };

/* What the host provides for acdc_process(); for memory and time see
 * acdc-platform.h. */

/* Makes the first 'n' bytes linear, no more than 'p->len': the parser asks for
 * headers.  Updates 'p->data' and 'p->hlen'.  False if there is no memory, or the
 * host knows no packets with such headers. */
bool acdc_host_linear(struct acdc_pkt *p, unsigned int n);

/* Whether what the packet says of its checksum ('csum_partial') and segmentation
 * ('gso') fits what was found in it.  Otherwise the packet would be changed
 * behind the engine's back.  The host may compute the checksum instead, and clears
 * 'csum_partial'. */
#ifdef __KERNEL__
bool acdc_host_offloads_fit(struct acdc_pkt *p);
#else
/* Open vSwitch heeds nothing of the guest's but that it wants these, and finds the
 * TCP header by itself. */
static inline bool acdc_host_offloads_fit(struct acdc_pkt *p)
{
    (void) p;
    return true;
}
#endif

/* Makes room for 'n' bytes in front of the packet, or takes the first 'n'
 * bytes away.  Both update 'p->data', 'p->len' and 'p->hlen' and return the
 * new first byte (all header bytes the engine was shown stay linear and
 * writable), or NULL when there is no memory, with the packet unchanged.  The
 * engine moves the headers itself. */
uint8_t *acdc_host_push(struct acdc_pkt *p, unsigned int n);
uint8_t *acdc_host_pull(struct acdc_pkt *p, unsigned int n);

/* Cuts the last 'n' bytes off.  All of the packet is linear and writable, and
 * stays where it is.  Updates 'p->len' and 'p->hlen'. */
void acdc_host_trim(struct acdc_pkt *p, unsigned int n);

/* Called once before the first write to a packet of which it is not known
 * ('p->writable' is ACDC_W_UNKNOWN): makes the first 'p->hlen' bytes private to
 * this packet (an skb may be cloned) and updates 'p->data'.  False when there
 * is no memory. */
bool acdc_host_writable(struct acdc_pkt *p);

/* The packet, and what is injected before it, goes another way through the network than
 * it would by itself, the same for the same 'hash': the outer source port of a tunnel
 * comes from that. */
void acdc_host_set_path(struct acdc_pkt *p, uint32_t hash);

/* A new packet of 'len' bytes (zeroed is not required) that goes the same way
 * as 'like', before it.  Returns its first byte to fill, or NULL. */
uint8_t *acdc_host_inject(struct acdc_pkt *like, unsigned int len);

/* The wall clock at 'now', nanoseconds: what two hosts whose clocks are synchronized
 * agree on.  Called a few times a round trip of connections that are timed. */
uint64_t acdc_host_clock(uint64_t now);

/* Removes ended, idle and half-open flows whose time has come, examining at
 * most 'budget' hash buckets, rounded up to a multiple of 8, from where the last call
 * stopped.  Returns true when it has been through the whole table since it last returned
 * true.  RCU read section. */
bool acdc_sweep(struct acdc *, uint64_t now, uint32_t budget);

/* Removes all flows, or those of the tenant, or of the port: 'tenant' NULL
 * and 'port_no' NULL mean any.  Returns how many. */
uint32_t acdc_flush(struct acdc *, const char *tenant,
                    const uint32_t *port_no);

/* Statistics. ------------------------------------------------------------- */

enum acdc_counter {
#define ACDC_COUNTER(SYMBOL, NAME, DESCRIPTION) ACDC_C_##SYMBOL,
#include "acdc-counters.h"
#undef ACDC_COUNTER
    ACDC_N_COUNTERS
};
extern const char *const acdc_counter_names[ACDC_N_COUNTERS];
extern const char *const acdc_counter_help[ACDC_N_COUNTERS];

extern const char *const acdc_algorithm_names[ACDC_N_ALGS];
/* Whether 'algorithm', any number, is one for acdc_params.fallback. */
bool acdc_is_fallback(unsigned int algorithm);
extern const char *const acdc_mode_names[ACDC_N_MODES];

struct acdc_stats {
    uint32_t n_flows;           /* Now in the table. */
    uint32_t n_half_open;
    uint32_t n_closed;          /* In their linger, or reset by the guest. */
    uint32_t max_flows;
    uint32_t bytes_per_flow4, bytes_per_flow6;  /* Memory of one flow. */
    uint64_t table_bytes;       /* Memory of table and flows. */
};
void acdc_stats_get(const struct acdc *, struct acdc_stats *);

struct acdc_tenant_stats {
    char name[ACDC_NAME_LEN];
    struct acdc_params params;
    uint32_t n_rules;
    uint32_t n_ports;
    uint32_t n_flows, n_half_open;
    uint32_t n_capable;         /* Flows whose both ends have AC/DC. */
    uint32_t n_fallback;
    uint32_t rtt_p50_us, rtt_p99_us;    /* Since the tenant was made; 0: no
                                         * sample. */
    uint32_t ce_fraction;       /* ce_bytes / ingress_bytes, fixed point. */
    uint64_t counters[ACDC_N_COUNTERS];
};
/* By name; 0 or ENOENT. */
int acdc_tenant_stats_get(const struct acdc *, const char *name,
                          struct acdc_tenant_stats *);
/* The 'idx'th tenant, in no particular order, ENOENT past the last.  For a
 * full list the host must keep tenants from being added or removed. */
int acdc_tenant_stats_nth(const struct acdc *, unsigned int idx,
                          struct acdc_tenant_stats *);

struct acdc_port_info {
    uint32_t port_no;
    uint32_t mtu;
    uint32_t n_flows;
    char name[ACDC_NAME_LEN];
    char tenant[ACDC_NAME_LEN];
};
/* As acdc_tenant_stats_nth(). */
int acdc_port_info_nth(const struct acdc *, unsigned int idx,
                       struct acdc_port_info *);

enum acdc_flow_state {
    ACDC_FLOW_SYN_SENT,         /* Guest sent SYN. */
    ACDC_FLOW_SYN_RECEIVED,     /* SYN to the guest. */
    ACDC_FLOW_ESTABLISHED,
    ACDC_FLOW_CLOSING,          /* One FIN. */
    ACDC_FLOW_CLOSED,           /* Both, in its linger; or RST of the peer, which
                                 * the guest may not believe: see
                                 * acdc_flow_is_live(). */
    ACDC_FLOW_RESET,            /* RST or another beginning of the guest, which
                                 * the peer has not confirmed: as alive as
                                 * without. */
    /* Not followed, see acdc-resume.c: */
    ACDC_FLOW_ASKING,           /* The other end's vSwitch may know it. */
    ACDC_FLOW_UNKNOWN,          /* It was asked in vain. */
    ACDC_N_FLOW_STATES
};
extern const char *const acdc_flow_state_names[ACDC_N_FLOW_STATES];

/* A flow as users see it: a snapshot of the connection from one port. */
struct acdc_flow_info {
    char tenant[ACDC_NAME_LEN];
    char port[ACDC_NAME_LEN];
    uint32_t port_no;
    uint8_t ip_version;
    uint8_t state;              /* enum acdc_flow_state. */
    uint8_t algorithm;          /* In force: the fallback's without peer. */
    uint8_t mode;
    bool capable;               /* Both ends have AC/DC. */
    bool guest_ecn;             /* The guests negotiated ECN themselves. */
    bool sack;
    bool rescaled;
    bool resumed;               /* Taken up again, see acdc-resume.c. */
    uint8_t path;               /* See acdc-plb.h; 0: that of its packets as they are. */
    int32_t rule;               /* Index as given to acdc_tenant_set() sorted
                                 * by priority, or -1. */
    uint8_t wscale_local, wscale_remote;
    uint8_t local[16], remote[16];      /* be, IPv4-mapped. */
    uint16_t local_port, remote_port;
    uint16_t vlans[2];          /* The first two VIDs that are not 0, the outer
                                 * one first; 0: no more. */
    uint16_t mss;
    uint32_t beta;
    uint32_t alpha;
    uint32_t window;            /* The law's. */
    uint32_t ssthresh;
    uint32_t offered;           /* Last window offered to the guest, bytes. */
    uint32_t in_flight;
    uint32_t srtt_us;
    uint32_t net_rtt_us, net_rtt_min_us;        /* See acdc-timing.h; 0: not timed. */
    uint32_t delay_us;          /* One-way, or what is beyond the least. */
    uint32_t snd_una, snd_nxt;
    uint32_t rx_total, rx_ce;   /* What the feedback we send says. */
    uint32_t fb_total, fb_ce;   /* What the feedback we got says. */
    uint32_t idle_ms;
};

/* Dump.  '*cursor' starts at 0.  Copies up to 'max' flows, whole hash buckets
 * at a time where they fit, and returns how many; 0 at the end.  Takes each
 * flow's lock for the copy only.  Flows that come and go meanwhile may be
 * missed; none is shown twice unless the table was resized. */
unsigned int acdc_dump(const struct acdc *, uint64_t *cursor, uint64_t now,
                       struct acdc_flow_info *flows, unsigned int max);

#endif /* acdc.h */
