/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The parameters of a policy: the one list from which come struct acdc_params,
 * its defaults and limits, the attributes of netlink, the columns of the
 * database with their documentation, and what acdc/show says.
 *
 *     ACDC_PARAM(NR, SYMBOL, NAME, KIND, MIN, MAX, DEFAULT, WHERE, ZERO, OTHER)
 *
 * NR         Number of the netlink attribute ACDC_P_SYMBOL.  The next free one
 *            for a new parameter; never another one for an old parameter.
 * NAME       Member of struct acdc_params, member in JSON.
 * KIND       See below.  Sets the member's type, and how it is written.
 * MIN, MAX   Limits of the member.
 * WHERE      COLUMN: a column NAME in the tables ACDC and ACDC_Rule.
 *            KEY("name"): a key of their column other_config.
 * ZERO       What acdc/show says where the value is 0 or false,
 * OTHER      and where it is another.  %s is the value.  NULL: nothing.
 *
 * The comment before each is its documentation in the database's manual, in
 * the markup of vswitch.xml.  The order is that of the manual and of
 * acdc/show.
 *
 * The list has no include guard: it is included several times. */

#ifndef ACDC_PARAMS_H
#define ACDC_PARAMS_H 1

/* Kinds: ALGORITHM is an enum acdc_algorithm, FALLBACK one for which
 * acdc_is_fallback() is true, MODE an enum acdc_mode, FRACTION a number from 0
 * to 1 in fixed point, INTEGER an unsigned integer.
 *
 * ACDC_TYPE_<kind> is the type of the member. */
#define ACDC_TYPE_ALGORITHM uint8_t
#define ACDC_TYPE_FALLBACK  uint8_t
#define ACDC_TYPE_MODE      uint8_t
#define ACDC_TYPE_BOOL      bool
#define ACDC_TYPE_FRACTION  uint32_t
#define ACDC_TYPE_INTEGER   uint32_t

/* ACDC_BITS_<kind>(IF_32, IF_8) is its argument for the type's size, which is
 * also that of the netlink attribute. */
#define ACDC_BITS_ALGORITHM(IF_32, IF_8) IF_8
#define ACDC_BITS_FALLBACK(IF_32, IF_8)  IF_8
#define ACDC_BITS_MODE(IF_32, IF_8)      IF_8
#define ACDC_BITS_BOOL(IF_32, IF_8)      IF_8
#define ACDC_BITS_FRACTION(IF_32, IF_8)  IF_32
#define ACDC_BITS_INTEGER(IF_32, IF_8)   IF_32

#endif /* ACDC_PARAMS_H */

/* The congestion control, if the switches of both ends have AC/DC.
 * <code>none</code> only counts.  The default is <code>dctcp</code>. */
ACDC_PARAM(6, ALGORITHM, algorithm, ALGORITHM, 0, ACDC_N_ALGS - 1,
           ACDC_ALG_DCTCP, COLUMN, NULL, NULL)

/* The tenant's share of a bottleneck: on marks, the window shrinks by the
 * fraction alpha - alpha * beta / 2, where alpha is the smoothed fraction of
 * marked bytes.  1 (the default) is DCTCP, 0 backs off hardest. */
ACDC_PARAM(1, BETA, beta, FRACTION, 0, ACDC_FIX_ONE,
           ACDC_FIX_ONE, COLUMN, "beta %s", "beta %s")

/* The weight g of a new sample in alpha, greater than 0.  The default is 1/16
 * (RFC 8257). */
ACDC_PARAM(2, GAIN, gain, FRACTION, 1, ACDC_FIX_ONE,
           ACDC_FIX_ONE / 16, COLUMN, "gain %s", "gain %s")

/* The congestion control if the other end does not have AC/DC: packets are not
 * marked by us.  The default is <code>none</code>.  Where the guest may have made it
 * seem so, an algorithm that goes by losses takes the place of <code>none</code>, unless
 * <ref column="algorithm"/> is <code>none</code>, too: AC/DC's option was left out of the
 * guest's SYN or SYN-ACK (counters <code>offer_no_room</code>, <code>offer_plain</code>,
 * <code>offer_spared</code>), the other end had AC/DC and does not report any more
 * (<code>feedback_lost</code>), or its address showed AC/DC in the last ten minutes. */
ACDC_PARAM(7, FALLBACK, fallback, FALLBACK, 0, ACDC_N_ALGS - 1,
           ACDC_ALG_NONE, COLUMN, "fallback %s", "fallback %s")

/* <code>enforce</code> (the default), or <code>observe</code> to compute and
 * report but touch no packet. */
ACDC_PARAM(8, MODE, mode, MODE, 0, ACDC_N_MODES - 1,
           ACDC_MODE_ENFORCE, COLUMN, NULL, NULL)

/* Whether to do anything with the connections; if <code>false</code>, their
 * packets pass untouched, but for what a guest forges of AC/DC's own.  The
 * default is <code>true</code>. */
ACDC_PARAM(9, ENABLED, enabled, BOOL, 0, 1,
           true, COLUMN, NULL, NULL)

/* Whether to drop data beyond the window and ACKs of data that did not arrive,
 * from guests that cheat.  The default is <code>false</code>. */
ACDC_PARAM(10, POLICE, police, BOOL, 0, 1,
           false, COLUMN, "not policed", "policed")

/* Segments that a new connection may send.  The default is 10 (RFC 6928). */
ACDC_PARAM(3, INITIAL_WINDOW, initial_window, INTEGER, 1, 65535,
           10, COLUMN, NULL, "initial window %s segments")

/* The smallest window, in bytes, never below one segment.  0, the default,
 * means two segments, see <ref column="other_config" key="small-windows"/>. */
ACDC_PARAM(4, MIN_WINDOW, min_window, INTEGER, 0, 1073725440,
           0, COLUMN, NULL, "min window %s bytes")

/* The largest window, in bytes, which caps the throughput.  0, the default,
 * means no cap. */
ACDC_PARAM(5, MAX_WINDOW, max_window, INTEGER, 0, 1073725440,
           0, COLUMN, NULL, "max window %s bytes")

/* Whether SYN and SYN-ACK are sent as ECN-capable, so that a marking switch
 * does not drop them.  The default is <code>true</code>. */
ACDC_PARAM(11, ECN_SYN, ecn_syn, BOOL, 0, 1,
           true, KEY("ecn-syn"), "SYN not ECT", NULL)

/* Whether the guest is told a slightly smaller MSS, so that windows, which are
 * told in units of (mostly) 128 bytes, can be whole segments.  With many
 * senders to one receiver that makes the queue shorter.  The default is
 * <code>false</code>. */
ACDC_PARAM(12, ALIGN_MSS, align_mss, BOOL, 0, 1,
           false, KEY("align-mss"), NULL, "MSS aligned")

/* Whether <code>dctcp</code> cuts the window more rarely, at random, and by
 * more, up to four times and half the window, with the same mean.  Connections
 * with different round-trip times then get more equal shares.  The default is
 * <code>false</code>. */
ACDC_PARAM(13, SPREAD_CUTS, spread_cuts, BOOL, 0, 1,
           false, KEY("spread-cuts"), NULL, "cuts spread")

/* Whether a window may fall to one segment instead of two if <ref
 * column="min_window"/> is not set.  A single segment would wait for the other
 * guest's delayed ACK, so small windows' data is sent with CWR, to which Linux
 * answers at once; connections whose other end does not stay at two.  With
 * many senders to one receiver that makes the queue shorter.  The default is
 * <code>false</code>. */
ACDC_PARAM(14, SMALL_WINDOWS, small_windows, BOOL, 0, 1,
           false, KEY("small-windows"), NULL, "small windows")

/* Whether data of the guest leaves evenly over the round-trip time instead of in
 * trains.  Connections then get equal shares and the queue is shorter.  Each packet
 * gets a time to leave.  Until then the userspace datapath holds it.  With the kernel
 * datapath an <code>fq</code> queueing discipline at the hypervisor's uplink does; where
 * there is none, nothing does.  The default is <code>false</code>. */
ACDC_PARAM(15, PACE, pace, BOOL, 0, 1,
           false, COLUMN, NULL, "paced")

/* Microseconds after which the last segment of what a connection has in flight is
 * sent once more if nothing acknowledges it: the guest then learns of a loss
 * without waiting for its own timer, of 200 ms or more.  Use the least
 * retransmission timeout that the fabric allows: the sum of the links' latencies and
 * of the times in which the switches send a full buffer.  If two round-trip times are
 * longer, it waits for these.  A segment that is alone in flight waits 50 ms more, for
 * the other guest's delayed ACK, until that guest is known not to delay.  Only where
 * both ends have AC/DC.  0, the default, means never. */
ACDC_PARAM(16, TAIL_PROBE, tail_probe, INTEGER, 0, 1000000,
           0, COLUMN, NULL, "tail probe after %s us")

/* Whether connections leave a congested or broken path (protective load balancing,
 * as Linux's <code>net.ipv4.tcp_plb_enabled</code>): after 12 rounds of which at least
 * half of the bytes were marked, after 3 with nothing in flight, and after a timeout.
 * What the network's switches choose a path by changes for that: the outer source port
 * of VXLAN and Geneve, and the flow label of IPv6.  It does nothing for IPv4 without a
 * tunnel.  The default is <code>false</code>. */
ACDC_PARAM(17, PLB, plb, BOOL, 0, 1,
           false, COLUMN, NULL, "PLB")

/* On-Ramp (NSDI 2021): the one-way delay, in microseconds, beyond which a connection's
 * data pauses at this hypervisor instead of in the network's queues, whatever its
 * congestion control is.  Where the hypervisors' clocks are not known to be
 * synchronized (<code>other_config:acdc-clock</code> in <ref table="Open_vSwitch"/>)
 * it is what is beyond the least delay.  Both ends' switches must have AC/DC, and the
 * tenant of the end that connects must have this column set, too.  0, the default,
 * means off. */
ACDC_PARAM(18, ON_RAMP, on_ramp, INTEGER, 0, 1000000,
           0, COLUMN, NULL, "On-Ramp above %s us")

#undef ACDC_PARAM
