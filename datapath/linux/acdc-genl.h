/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR Apache-2.0 */

/* The generic netlink family "ovs_acdc": what ovs-vswitchd and the kernel
 * datapath say to each other.  Each message begins with struct ovs_header,
 * whose dp_ifindex names the datapath.  All integers in host byte order.
 *
 * Snapshots travel as the engine's structures (datapath/acdc.h), as tcp_info
 * does; both sides are built from the same source, and ACDC_GENL_VERSION
 * changes with any of them: ovs-vswitchd uses no other. */

#ifndef ACDC_GENL_H
#define ACDC_GENL_H 1

#define ACDC_GENL_FAMILY "ovs_acdc"
/* Of the messages, and one more for each parameter added since. */
#define ACDC_GENL_VERSION (9 + ACDC_P_LAST - ACDC_P_SMALL_WINDOWS)

enum acdc_genl_cmd {
	ACDC_CMD_UNSPEC,
	ACDC_CMD_CONFIG_SET,	/* MAX_FLOWS, IDLE_TIMEOUT, EXID, CLOCK_SYNCED. */
	ACDC_CMD_CONFIG_GET,	/* Replies the same. */
	ACDC_CMD_TENANT_SET,	/* TENANT, PARAMS, MAX_HALF_OPEN, RULES. */
	ACDC_CMD_TENANT_DEL,	/* TENANT. */
	ACDC_CMD_PORT_SET,	/* PORT_NO, PORT_NAME, TENANT or none. */
	ACDC_CMD_STATS_GET,	/* Replies STATS. */
	ACDC_CMD_TENANT_GET,	/* INDEX; replies TENANT_STATS or ENOENT. */
	ACDC_CMD_PORT_GET,	/* INDEX; replies PORT_INFO or ENOENT. */
	ACDC_CMD_FLOW_GET,	/* CURSOR, MAX; replies CURSOR, FLOWs. */
	ACDC_CMD_FLUSH,		/* TENANT, PORT_NO optional; replies COUNT. */
	__ACDC_CMD_MAX,
};
#define ACDC_CMD_MAX (__ACDC_CMD_MAX - 1)

enum acdc_genl_attr {
	ACDC_A_UNSPEC,
	ACDC_A_MAX_FLOWS,	/* u32 */
	ACDC_A_IDLE_TIMEOUT,	/* u32, seconds */
	ACDC_A_EXID,		/* u16 */
	ACDC_A_TENANT,		/* string */
	ACDC_A_PARAMS,		/* nested, ACDC_P_* */
	ACDC_A_MAX_HALF_OPEN,	/* u32 */
	ACDC_A_RULES,		/* nested, of ACDC_A_RULE */
	ACDC_A_RULE,		/* nested, ACDC_R_* */
	ACDC_A_PORT_NO,		/* u32 */
	ACDC_A_PORT_NAME,	/* string */
	ACDC_A_INDEX,		/* u32 */
	ACDC_A_CURSOR,		/* u64 */
	ACDC_A_MAX,		/* u32 */
	ACDC_A_COUNT,		/* u32 */
	ACDC_A_STATS,		/* struct acdc_stats */
	ACDC_A_TENANT_STATS,	/* struct acdc_tenant_stats */
	ACDC_A_PORT_INFO,	/* struct acdc_port_info */
	ACDC_A_FLOW,		/* struct acdc_flow_info, several */
	ACDC_A_PAD,
	ACDC_A_CLOCK_SYNCED,	/* u8 */
	__ACDC_A_MAX,
};
#define ACDC_A_LAST (__ACDC_A_MAX - 1)

/* struct acdc_params: u32 or u8, as the member. */
enum acdc_genl_params {
#define ACDC_PARAM(NR, SYMBOL, ...) ACDC_P_##SYMBOL = NR,
#include "acdc-params.h"
};
enum {
	ACDC_P_LAST = 0
#define ACDC_PARAM(...) + 1
#include "acdc-params.h"
};

/* struct acdc_rule and its match. */
enum acdc_genl_rule {
	ACDC_R_UNSPEC,
	ACDC_R_PRIORITY,	/* u32 */
	ACDC_R_PARAMS,		/* nested, ACDC_P_* */
	ACDC_R_REMOTE,		/* 16 bytes, IPv4-mapped; absent: any */
	ACDC_R_REMOTE_PLEN,	/* u8, 0...128 */
	ACDC_R_REMOTE_PORT_MIN,	/* u16 */
	ACDC_R_REMOTE_PORT_MAX,	/* u16 */
	ACDC_R_LOCAL_PORT_MIN,	/* u16 */
	ACDC_R_LOCAL_PORT_MAX,	/* u16 */
	__ACDC_R_MAX,
};
#define ACDC_R_LAST (__ACDC_R_MAX - 1)

/* Flows in one reply of ACDC_CMD_FLOW_GET. */
#define ACDC_GENL_MAX_FLOWS 64

#endif /* acdc-genl.h */
