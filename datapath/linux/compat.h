/* SPDX-License-Identifier: GPL-2.0-only */

/* What differs between the versions of Linux: here, and in no other file, 6.1
 * gets what 6.12 has. */

#ifndef ACDC_COMPAT_H
#define ACDC_COMPAT_H 1

#include <linux/skbuff.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#include <net/gso.h>

#define acdc_assign_str(FIELD) __assign_str(FIELD)

static inline bool acdc_has_delivery_time(const struct sk_buff *skb)
{
	return skb->tstamp_type == SKB_CLOCK_MONOTONIC;
}
#else
#include <asm/unaligned.h>
#include <net/genetlink.h>

#define acdc_assign_str(FIELD) __assign_str(FIELD, FIELD)
#define SKB_CLOCK_MONOTONIC true

static inline bool acdc_has_delivery_time(const struct sk_buff *skb)
{
	return skb->mono_delivery_time;
}

static inline void *genl_info_userhdr(const struct genl_info *info)
{
	return info->userhdr;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
/* The type that genl_family.pre_doit() is told the operation by. */
#define genl_split_ops genl_ops
#endif

#endif /* compat.h */
