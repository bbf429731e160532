/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* What AC/DC puts on the wire between two virtual switches, and the few
 * fields of RFC 791, 8200, 9293 and 3168 it reads or edits.  Every wire
 * constant of the project is in this file and nowhere else.
 *
 * Multi-byte fields are big-endian on the wire.  Offsets are in bytes. */

#ifndef ACDC_WIRE_H
#define ACDC_WIRE_H 1

/* The AC/DC options: an experimental option kind (RFC 4727) that carries an
 * experiment identifier, ExID (RFC 6994).
 *
 *   capability, on SYN and SYN-ACK:
 *     +------+--------+-------------+---------+-------+---------------+
 *     | 253  |   8    | ExID 0xACDC | version | flags | told  |   0   |
 *     +------+--------+-------------+---------+-------+---------------+
 *   Told: 0 but on a SYN-ACK with ACDC_CAP_SCALES, see there.
 *
 *   feedback, PACK (on an ACK or data segment of the guest) and FACK (on a
 *   packet of its own):
 *     +------+--------+-------------+---------------+-----------------+
 *     | 253  |   12   | ExID 0xACDC | ECN_bytes (4) | total_bytes (4) |
 *     +------+--------+-------------+---------------+-----------------+
 *   Both counts are payload bytes received since the handshake, modulo 2^32.
 *
 *   A report, PACK or FACK likewise, to who has marked a data segment:
 *     +------+--------+-------------+---------------+-----------------+
 *     | 253  |   20   | ExID 0xACDC | ECN_bytes (4) | total_bytes (4) |
 *     +------+--------+-------------+---------------+-----------------+
 *     | mark |     ago (3)          |     clock (4)                   |
 *     +------+----------------------+---------------------------------+
 *   Mark: which segment.  Ago: microseconds since it came.  Clock: of the reporting
 *   end when it came, microseconds modulo 2^32.
 *
 *   A question, from a vSwitch that does not know the connection, is the capability
 *   with ACDC_CAP_RESUME and a number in the last two bytes, on a segment without SYN.  The
 *   other end answers with the state, of which all is seen from the one that asked:
 *     +------+--------+-------------+---------------+-----------------+
 *     | 253  |   28   | ExID 0xACDC | flags | scales|       MSS       |
 *     +------+--------+-------------+---------------+-----------------+
 *     |  the question's number      |             beyond              |
 *     +-----------------------------+---------------------------------+
 *     | ECN_bytes, total_bytes: the last that it reported               |
 *     | ECN_bytes, total_bytes: feedback about what its guest sent      |
 *     +---------------------------------------------------------------+
 *   Scales: of its own guest's windows in the upper half, of the peer's in the lower.
 *   MSS: payload of a full segment.  Beyond: bytes that came beyond the packet's
 *   acknowledgment number; 0 if that is 65535 or more.  With ACDC_STATE_TOLD it is another
 *   byte of scales, those that the guests were told, and a zero.
 */
enum acdc_wire_option {
    ACDC_OPT_KIND = 253,
    ACDC_OPT_EXID = 0xacdc,         /* Default; acdc_config.exid overrides. */
    ACDC_OPT_EXID_OFS = 2,
    ACDC_OPT_BODY_OFS = 4,
    ACDC_OPT_CAP_LEN = 8,
    ACDC_OPT_FB_LEN = 12,
    ACDC_OPT_REPORT_LEN = 20,
    ACDC_OPT_STATE_LEN = 28,
    ACDC_OPT_VERSION = 1,
};

/* The capability's flags: what its sender does if both ends announce it. */
enum acdc_wire_capability {
    ACDC_CAP_NOT_ECT = 0x01,        /* See enum acdc_wire_reserved. */
    ACDC_CAP_RESUME = 0x02,         /* On a SYN: takes up connections.  On a SYN-ACK: and
                                     * of this one both guests are told the window scale
                                     * that the other one sent.  On other segments: a
                                     * question. */
    ACDC_CAP_TIMING = 0x04,         /* Marks data segments by ACDC_RES_FACK, and reports
                                     * when such a one came. */
    ACDC_CAP_SCALES = 0x08,         /* On a SYN and a question: knows this flag and
                                     * ACDC_STATE_TOLD.  On a SYN-ACK with ACDC_CAP_RESUME:
                                     * 'told' has in the upper half what its guest was
                                     * told of the other's window scale, in the lower
                                     * what the other is to be told of its guest's. */
};

/* Flags of a state. */
enum acdc_wire_state {
    ACDC_STATE_SCALES = 0x01,       /* Both guests have the window scale option. */
    ACDC_STATE_SACK = 0x02,         /* Both permit SACK. */
    ACDC_STATE_ECN_SYN = 0x04,      /* ECN-setup SYN, ... */
    ACDC_STATE_GUEST_ECN = 0x08,    /* ... and SYN-ACK. */
    ACDC_STATE_TIMING = 0x10,       /* Both have ACDC_CAP_TIMING. */
    ACDC_STATE_TOLD = 0x20,         /* Some guest was told a finer window scale. */
};

/* Kind and length of the options, the ExID to be added: their first words. */
#define ACDC_CAPABILITY_WORD \
    ((unsigned int) ACDC_OPT_KIND << 24 | ACDC_OPT_CAP_LEN << 16)
#define ACDC_FEEDBACK_WORD \
    ((unsigned int) ACDC_OPT_KIND << 24 | ACDC_OPT_FB_LEN << 16)
#define ACDC_REPORT_WORD \
    ((unsigned int) ACDC_OPT_KIND << 24 | ACDC_OPT_REPORT_LEN << 16)
#define ACDC_STATE_WORD \
    ((unsigned int) ACDC_OPT_KIND << 24 | ACDC_OPT_STATE_LEN << 16)

/* The low nibble of byte 12 of the TCP header: three reserved bits, then AE
 * (RFC 9768), which is the guest's and stays as it is.
 *
 * The two ECN bits hold the ECN codepoint that the guest itself sent, so that
 * the receiving side can put it back; ECT(0) where it sent CE.  Where both ends have
 * ACDC_CAP_NOT_ECT it is 3 for Not-ECT, and 0 says "the ECN field is the guest's own,
 * leave it": a packet that the engine did not mark, or did not even see.  Without it
 * 0 is Not-ECT, and 3 says "leave it". */
enum acdc_wire_reserved {
    ACDC_RES_FACK = 0x08,           /* Of a segment with data: it is timed. */
    ACDC_RES_ECN_MASK = 0x06,
    ACDC_RES_ECN_SHIFT = 1,
    ACDC_RES_MASK = 0x0e,
};

/* ECN codepoints (RFC 3168). */
enum acdc_ecn {
    ACDC_ECN_NOT_ECT = 0,
    ACDC_ECN_ECT1 = 1,
    ACDC_ECN_ECT0 = 2,
    ACDC_ECN_CE = 3,
    ACDC_ECN_MASK = 3,
};

enum acdc_wire_tcp_flags {
    ACDC_TCP_FIN = 0x01,
    ACDC_TCP_SYN = 0x02,
    ACDC_TCP_RST = 0x04,
    ACDC_TCP_PSH = 0x08,
    ACDC_TCP_ACK = 0x10,
    ACDC_TCP_URG = 0x20,
    ACDC_TCP_ECE = 0x40,
    ACDC_TCP_CWR = 0x80,
};

/* TCP options that the engine reads, or that tell it to keep its hands off. */
enum acdc_wire_tcp_option {
    ACDC_TCPOPT_EOL = 0,
    ACDC_TCPOPT_NOP = 1,
    ACDC_TCPOPT_MSS = 2,            /* RFC 9293 */
    ACDC_TCPOPT_WSCALE = 3,         /* RFC 7323 */
    ACDC_TCPOPT_SACK_OK = 4,        /* RFC 2018 */
    ACDC_TCPOPT_SACK = 5,
    ACDC_TCPOPT_TIMESTAMP = 8,      /* RFC 7323 */
    ACDC_TCPOPT_MD5 = 19,           /* RFC 2385 */
    ACDC_TCPOPT_AO = 29,            /* RFC 5925 */
    ACDC_TCPOPT_TIMESTAMP_LEN = 10,
    ACDC_TIMESTAMP_ALIGNED = 0x0101080a,    /* NOP, NOP, kind, length. */
};

enum acdc_wire_sizes {
    ACDC_ETH_HLEN = 14,
    ACDC_VLAN_HLEN = 4,
    ACDC_MAX_VLANS = 8,             /* Tags: more are refused. */
    ACDC_VID_MASK = 0xfff,
    ACDC_IP4_HLEN = 20,
    ACDC_IP4_FRAGMENT = 0x3fff,     /* More fragments, and the offset ... */
    ACDC_IP4_OFFSET = 0x1fff,       /* ... in 8 bytes. */
    ACDC_IP6_OFFSET = 0xfff8,       /* In bytes. */
    ACDC_IP6_HLEN = 40,
    ACDC_IP6_LABEL_MASK = 0xfffff,      /* Flow label, of the first word. */
    ACDC_TCP_HLEN = 20,
    ACDC_TCP_HLEN_MAX = 60,
    ACDC_WSCALE_MAX = 14,           /* RFC 7323 section 2.3 */
    ACDC_MSS_DEFAULT4 = 536,        /* RFC 9293 section 3.7.1 */
    ACDC_MSS_DEFAULT6 = 1220,
    ACDC_MSS_MIN = 64,              /* Below this an MSS option is a lie. */
};

enum acdc_ethertype {
    ACDC_ETHERTYPE_IP4 = 0x0800,
    ACDC_ETHERTYPE_IP6 = 0x86dd,
    ACDC_ETHERTYPE_VLAN = 0x8100,
    ACDC_ETHERTYPE_QINQ = 0x88a8,
};

enum acdc_ip_proto {
    ACDC_IPPROTO_HOPOPTS = 0,
    ACDC_IPPROTO_ICMP = 1,
    ACDC_IPPROTO_TCP = 6,
    ACDC_IPPROTO_UDP = 17,
    ACDC_IPPROTO_ROUTING = 43,
    ACDC_IPPROTO_FRAGMENT = 44,
    ACDC_IPPROTO_ESP = 50,
    ACDC_IPPROTO_AH = 51,
    ACDC_IPPROTO_ICMP6 = 58,
    ACDC_IPPROTO_DSTOPTS = 60,
};

#endif /* acdc-wire.h */
