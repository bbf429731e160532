/* SPDX-License-Identifier: GPL-2.0-only */

/* The engine's tracepoints in the kernel: ACDC_TRACE() of acdc-platform.h. */

#undef TRACE_SYSTEM
#define TRACE_SYSTEM acdc

#if !defined(ACDC_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define ACDC_TRACE_H 1

#include <linux/tracepoint.h>

/* 'addrs' and 'ports' are those of struct acdc_flow: local and remote, be.  Of
 * IPv6 there is a hash in place of the addresses. */
DECLARE_EVENT_CLASS(acdc_flow,
	TP_PROTO(const char *tenant, const void *flow, u64 addrs, u32 ports,
		 u32 a, u32 b),
	TP_ARGS(tenant, flow, addrs, ports, a, b),
	TP_STRUCT__entry(
		__string(tenant, tenant)
		__field(const void *, flow)
		__array(u8, local, 4)
		__array(u8, remote, 4)
		__field(u16, local_port)
		__field(u16, remote_port)
		__field(u32, a)
		__field(u32, b)
	),
	TP_fast_assign(
		acdc_assign_str(tenant);
		__entry->flow = flow;
		memcpy(__entry->local, &addrs, 4);
		memcpy(__entry->remote, (const u8 *) &addrs + 4, 4);
		__entry->local_port = get_unaligned_be16(&ports);
		__entry->remote_port =
			get_unaligned_be16((const u8 *) &ports + 2);
		__entry->a = a;
		__entry->b = b;
	),
	TP_printk("tenant=%s flow=%p %pI4:%u>%pI4:%u a=%u b=%u",
		  __get_str(tenant), __entry->flow,
		  __entry->local, __entry->local_port,
		  __entry->remote, __entry->remote_port,
		  __entry->a, __entry->b)
);

#define ACDC_EVENT(NAME) \
	DEFINE_EVENT(acdc_flow, acdc_##NAME, \
		TP_PROTO(const char *tenant, const void *flow, u64 addrs, \
			 u32 ports, u32 a, u32 b), \
		TP_ARGS(tenant, flow, addrs, ports, a, b))

ACDC_EVENT(flow_state);
ACDC_EVENT(cut);
ACDC_EVENT(loss);
ACDC_EVENT(timeout);
ACDC_EVENT(fallback);

#endif /* acdc-trace.h */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE acdc-trace
#include <trace/define_trace.h>
