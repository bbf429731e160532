/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The engine's counters, one list for the enum, the names that users see and
 * the netlink attributes.  ACDC_COUNTER(SYMBOL, "name", "what it counts").
 * All count since the tenant was made; one set a tenant.
 *
 * No include guard: included several times. */

/* Packets and bytes. */
ACDC_COUNTER(EGRESS_PACKETS,    "egress_packets",    "TCP packets of tracked flows, from the guest")
ACDC_COUNTER(INGRESS_PACKETS,   "ingress_packets",   "TCP packets of tracked flows, to the guest")
ACDC_COUNTER(EGRESS_BYTES,      "egress_bytes",      "payload bytes from the guest")
ACDC_COUNTER(INGRESS_BYTES,     "ingress_bytes",     "payload bytes to the guest")
ACDC_COUNTER(CE_PACKETS,        "ce_packets",        "packets that arrived marked CE")
ACDC_COUNTER(CE_BYTES,          "ce_bytes",          "payload bytes that arrived marked CE")
ACDC_COUNTER(ECN_REWRITTEN,     "ecn_rewritten",     "packets of the other end's vSwitch whose ECN field the path cleared or rewrote")
ACDC_COUNTER(MARKED_ECT,        "marked_ect",        "packets that left marked ECT(0)")

/* Flows. */
ACDC_COUNTER(FLOWS_CREATED,     "flows_created",     "connections tracked from their SYN")
ACDC_COUNTER(FLOWS_CAPABLE,     "flows_capable",     "handshakes in which both ends showed the capability")
ACDC_COUNTER(FLOWS_FALLBACK,    "flows_fallback",    "handshakes whose other end did not show it")
ACDC_COUNTER(FLOWS_RESUMED,     "flows_resumed",     "connections taken up again, of which the other end's vSwitch told the state")
ACDC_COUNTER(FLOWS_CLOSED,      "flows_closed",      "connections ended by FIN or RST")
ACDC_COUNTER(FLOWS_EXPIRED,     "flows_expired",     "connections removed by the sweeper while idle or half open")
ACDC_COUNTER(FLOWS_EVICTED,     "flows_evicted",     "connections removed because the table was full")
ACDC_COUNTER(OFFER_NO_ROOM,     "offer_no_room",     "SYNs and SYN-ACKs of the guest that leave no room for the capability")
ACDC_COUNTER(OFFER_PLAIN,       "offer_plain",       "SYNs and SYN-ACKs sent again without the capability, as something may drop it")
ACDC_COUNTER(OFFER_SPARED,      "offer_spared",      "SYNs sent without the capability, as the path to their destination drops it")
ACDC_COUNTER(RESCALED,          "rescaled",          "handshakes whose window scale was made finer")

/* Feedback. */
ACDC_COUNTER(PACK_SENT,         "pack_sent",         "PACKs added")
ACDC_COUNTER(PACK_RECEIVED,     "pack_received",     "PACKs read and removed")
ACDC_COUNTER(FACK_SENT,         "fack_sent",         "FACKs sent")
ACDC_COUNTER(FACK_RECEIVED,     "fack_received",     "FACKs read")
ACDC_COUNTER(WINDOW_UPDATES,    "window_updates",    "FACKs turned into a window update for the guest")
ACDC_COUNTER(FEEDBACK_STALE,    "feedback_stale",    "feedback older than what was seen, ignored")
ACDC_COUNTER(FEEDBACK_BAD,      "feedback_bad",      "impossible feedback, ignored")
ACDC_COUNTER(FEEDBACK_LOST,     "feedback_lost",     "flows that fell back since the other end no longer sends feedback")
ACDC_COUNTER(UNHEARD,           "unheard",           "flows that fell back since the guest sends by this port and gets nothing by it")
ACDC_COUNTER(TOO_BIG,           "too_big",           "ICMP messages to the guest that a packet of it was larger than the path's MTU, heeded")
ACDC_COUNTER(FORGED,            "forged",            "packets of the guest from which AC/DC options or reserved bits were removed")

/* The law. */
ACDC_COUNTER(CUTS_ECN,          "cuts_ecn",          "window cuts because of marks")
ACDC_COUNTER(CUTS_LOSS,         "cuts_loss",         "window cuts because of loss")
ACDC_COUNTER(TIMEOUTS,          "timeouts",          "windows reset by a retransmission timeout of the guest")
ACDC_COUNTER(IDLE_RESTARTS,     "idle_restarts",     "windows reset after idle")
ACDC_COUNTER(RETRANSMITS,       "retransmits",       "data packets of the guest sent again")
ACDC_COUNTER(RTT_SAMPLES,       "rtt_samples",       "round-trip times measured")
ACDC_COUNTER(ACK_INVALID,       "ack_invalid",       "ACKs of data not sent, ignored by the law")

/* Pacing. */
ACDC_COUNTER(PACED,             "paced",             "data packets of the guest given a later time to leave")
ACDC_COUNTER(PACED_UNHELD,      "paced_unheld",      "round-trip times that show that nothing held a packet until its time to leave")

/* Paths. */
ACDC_COUNTER(REPATHS,           "repaths",           "times a connection moved to another path, after congestion or a timeout")
ACDC_COUNTER(PLB_SUSPENDED,     "plb_suspended",     "timeouts after which congestion does not move a connection for one to two minutes")

/* Tail probes. */
ACDC_COUNTER(TAIL_PROBES,       "tail_probes",       "last segments sent again as nothing acknowledged them")
ACDC_COUNTER(TAIL_SPURIOUS,     "tail_spurious",     "of these, segments that the other end had already")
ACDC_COUNTER(TAIL_NO_ROOM,      "tail_no_room",      "last segments not kept for that, as too many were or there was no memory")

/* Timing. */
ACDC_COUNTER(TIMED,             "timed",             "data packets marked for the other end to report when they came")
ACDC_COUNTER(REPORTS,           "reports",           "reports of such packets, from which the network's delay was taken")
ACDC_COUNTER(REPORTS_IGNORED,   "reports_ignored",   "reports of other packets than the last marked one, of impossible times, or of one that nothing held")
ACDC_COUNTER(REPORTS_CLOCK,     "reports_clock",     "of the reports taken, those that say that a clock was set, or is not synchronized although acdc-clock says so")

/* On-Ramp. */
ACDC_COUNTER(ON_RAMP_PAUSES,    "on_ramp_pauses",    "pauses of a connection's data, as its one-way delay was beyond on_ramp")
ACDC_COUNTER(ON_RAMP_US,        "on_ramp_us",        "microseconds of these")
ACDC_COUNTER(ON_RAMP_CUT,       "on_ramp_cut",       "pauses that would have been longer than 10 ms")

/* Enforcement. */
ACDC_COUNTER(WINDOW_REWRITTEN,  "window_rewritten",  "receive windows made smaller on the way to the guest")
ACDC_COUNTER(SOLICITED,         "solicited",         "data packets given CWR so that the far guest acknowledges them at once")
ACDC_COUNTER(FLOWS_PROMPT,      "flows_prompt",      "connections whose far guest was seen not to delay ACKs of such data")
ACDC_COUNTER(FLOWS_DELAYED,     "flows_delayed",     "of these, connections in which it delayed one later, or something was lost")
ACDC_COUNTER(ACK_RENUMBERED,    "ack_renumbered",    "ACKs of a guest with a shrunk window, given the number of what it had sent")
ACDC_COUNTER(UPDATES_ABSORBED,  "updates_absorbed",  "window updates that would have become duplicate ACKs, dropped")
ACDC_COUNTER(POLICED_PACKETS,   "policed_packets",   "packets dropped beyond the offered window")
ACDC_COUNTER(POLICED_BYTES,     "policed_bytes",     "payload bytes dropped beyond the offered window")
ACDC_COUNTER(ACK_OPTIMISTIC,    "ack_optimistic",    "packets of the guest that acknowledge data that did not arrive, dropped when policing")
ACDC_COUNTER(ACK_EXCUSED,       "ack_excused",       "packets that acknowledge what may have come in IP fragments or behind malformed options, and pass")
ACDC_COUNTER(SYNACK_REFUSED,    "synack_refused",    "SYN-ACKs that do not answer the guest's last SYN, dropped when policing")
ACDC_COUNTER(REFUSED,           "refused",           "packets dropped that could be read differently behind the switch")

/* Untouched packets, by reason. */
ACDC_COUNTER(UNTOUCHED_NOT_TCP, "untouched_not_tcp", "not TCP over IPv4 or IPv6")
ACDC_COUNTER(UNTOUCHED_FRAGMENT, "untouched_fragment", "IP fragments")
ACDC_COUNTER(UNTOUCHED_IPSEC,   "untouched_ipsec",   "ESP or AH")
ACDC_COUNTER(UNTOUCHED_LENGTH,  "untouched_length",  "a length field that does not fit the packet")
ACDC_COUNTER(UNTOUCHED_OPTIONS, "untouched_options", "malformed TCP options")
ACDC_COUNTER(UNTOUCHED_FLAGS,   "untouched_flags",   "impossible TCP flags")
ACDC_COUNTER(UNTOUCHED_SIGNED,  "untouched_signed",  "TCP-MD5 or TCP-AO")
ACDC_COUNTER(UNTOUCHED_MIDSTREAM, "untouched_midstream", "no SYN of the connection was seen")
ACDC_COUNTER(UNTOUCHED_DISABLED, "untouched_disabled", "tenant disabled")
ACDC_COUNTER(UNTOUCHED_TABLE_FULL, "untouched_table_full", "SYNs not tracked, flow table full")
ACDC_COUNTER(UNTOUCHED_HALF_OPEN, "untouched_half_open", "SYNs not tracked, half-open quota used up")
ACDC_COUNTER(UNTOUCHED_FOREIGN, "untouched_foreign", "SYNs not tracked to addresses that the guest has not used, half of the half-open quota used up")
ACDC_COUNTER(UNTOUCHED_MEMORY,  "untouched_memory",  "packets not edited or SYNs not tracked, no memory")
