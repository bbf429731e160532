// SPDX-License-Identifier: GPL-2.0-only

/* The generic netlink family of AC/DC, see acdc-genl.h.  All operations take
 * ovs_mutex, then the datapath's AC/DC mutex. */

#include <linux/module.h>
#include <linux/netlink.h>
#include <linux/openvswitch.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <net/genetlink.h>
#include <net/netlink.h>

#include "../datapath.h"
#include "../vport.h"
#include "acdc-dp.h"
#include "acdc-genl.h"
#include "acdc-linux.h"

/* Policies. */

static struct netlink_range_validation max_flows_range = {
	.min = 1,
	.max = ACDC_FLOWS_MAX,
};

/* Limits above S16_MAX do not fit into a policy itself. */
static struct netlink_range_validation port_no_range = {
	.max = DP_MAX_PORTS - 1,
};

#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, MIN, MAX, ...)		\
	static struct netlink_range_validation NAME##_range = {		\
		.min = MIN, .max = MAX					\
	};
#include "acdc-params.h"

static const struct nla_policy params_policy[ACDC_P_LAST + 1] = {
#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, ...)				\
	[NR] = NLA_POLICY_FULL_RANGE(ACDC_BITS_##KIND(NLA_U32, NLA_U8),	\
				     &NAME##_range),
#include "acdc-params.h"
};

static const struct nla_policy rule_policy[ACDC_R_LAST + 1] = {
	[ACDC_R_PRIORITY] = { .type = NLA_U32 },
	[ACDC_R_PARAMS] = NLA_POLICY_NESTED(params_policy),
	[ACDC_R_REMOTE] = NLA_POLICY_EXACT_LEN(16),
	[ACDC_R_REMOTE_PLEN] = NLA_POLICY_MAX(NLA_U8, 128),
	[ACDC_R_REMOTE_PORT_MIN] = { .type = NLA_U16 },
	[ACDC_R_REMOTE_PORT_MAX] = { .type = NLA_U16 },
	[ACDC_R_LOCAL_PORT_MIN] = { .type = NLA_U16 },
	[ACDC_R_LOCAL_PORT_MAX] = { .type = NLA_U16 },
};

static const struct nla_policy acdc_policy[ACDC_A_LAST + 1] = {
	[ACDC_A_MAX_FLOWS] = NLA_POLICY_FULL_RANGE(NLA_U32, &max_flows_range),
	[ACDC_A_IDLE_TIMEOUT] = NLA_POLICY_MIN(NLA_U32, 1),
	[ACDC_A_EXID] = { .type = NLA_U16 },
	[ACDC_A_CLOCK_SYNCED] = NLA_POLICY_MAX(NLA_U8, 1),
	[ACDC_A_TENANT] = { .type = NLA_NUL_STRING,
			    .len = ACDC_NAME_LEN - 1 },
	[ACDC_A_PARAMS] = NLA_POLICY_NESTED(params_policy),
	[ACDC_A_MAX_HALF_OPEN] = { .type = NLA_U32 },
	[ACDC_A_RULES] = { .type = NLA_NESTED },
	[ACDC_A_PORT_NO] = NLA_POLICY_FULL_RANGE(NLA_U32, &port_no_range),
	[ACDC_A_PORT_NAME] = { .type = NLA_NUL_STRING,
			       .len = ACDC_NAME_LEN - 1 },
	[ACDC_A_INDEX] = { .type = NLA_U32 },
	[ACDC_A_CURSOR] = { .type = NLA_U64 },
	[ACDC_A_MAX] = NLA_POLICY_RANGE(NLA_U32, 1, ACDC_GENL_MAX_FLOWS),
};

/* Requests. */

/* Before each operation: the AC/DC of the request's datapath is locked, and is
 * 'user_ptr[0]'; the datapath is 'user_ptr[1]'.  ovs_mutex is held as well. */
static int acdc_pre_doit(const struct genl_split_ops *ops, struct sk_buff *skb,
			 struct genl_info *info)
{
	struct ovs_header *h = genl_info_userhdr(info);
	struct acdc_dp *adp = NULL;
	struct datapath *dp;

	ovs_lock();
	dp = get_dp(sock_net(skb->sk), h->dp_ifindex);
	if (dp)
		adp = ovs_acdc_dp(dp);
	if (!adp) {
		ovs_unlock();
		return dp ? -ENOMEM : -ENODEV;
	}
	mutex_lock(&adp->mutex);
	info->user_ptr[0] = adp;
	info->user_ptr[1] = dp;
	return 0;
}

static void acdc_post_doit(const struct genl_split_ops *ops,
			   struct sk_buff *skb, struct genl_info *info)
{
	struct acdc_dp *adp = info->user_ptr[0];

	mutex_unlock(&adp->mutex);
	ovs_unlock();
}

static int acdc_missing(struct genl_info *info)
{
	NL_SET_ERR_MSG(info->extack, "required attribute missing");
	return -EINVAL;
}

static int get_params(struct nlattr *nested, struct acdc_params *params,
		      struct netlink_ext_ack *extack)
{
	struct nlattr *a[ACDC_P_LAST + 1];
	int err;
	int i;

	err = nla_parse_nested(a, ACDC_P_LAST, nested, params_policy, extack);
	if (err)
		return err;
	for (i = 1; i <= ACDC_P_LAST; i++) {
		if (!a[i]) {
			NL_SET_ERR_MSG(extack, "incomplete parameters");
			return -EINVAL;
		}
	}
#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, ...)				\
	params->NAME = ACDC_BITS_##KIND(nla_get_u32, nla_get_u8)(a[NR]);
#include "acdc-params.h"
	return 0;
}

static u16 get_u16_or(const struct nlattr *a, u16 otherwise)
{
	return a ? nla_get_u16(a) : otherwise;
}

static int get_rule(struct nlattr *nested, struct acdc_rule *rule,
		    struct netlink_ext_ack *extack)
{
	struct acdc_match *m = &rule->match;
	struct nlattr *a[ACDC_R_LAST + 1];
	int err;

	err = nla_parse_nested(a, ACDC_R_LAST, nested, rule_policy, extack);
	if (err)
		return err;
	if (!a[ACDC_R_PARAMS] || !a[ACDC_R_REMOTE] != !a[ACDC_R_REMOTE_PLEN]) {
		NL_SET_ERR_MSG(extack, "incomplete rule");
		return -EINVAL;
	}
	if (a[ACDC_R_PRIORITY])
		rule->priority = nla_get_u32(a[ACDC_R_PRIORITY]);
	if (a[ACDC_R_REMOTE]) {
		m->remote_set = true;
		memcpy(m->remote, nla_data(a[ACDC_R_REMOTE]), 16);
		m->remote_plen = nla_get_u8(a[ACDC_R_REMOTE_PLEN]);
	}
	m->remote_port_min = get_u16_or(a[ACDC_R_REMOTE_PORT_MIN], 0);
	m->remote_port_max = get_u16_or(a[ACDC_R_REMOTE_PORT_MAX], U16_MAX);
	m->local_port_min = get_u16_or(a[ACDC_R_LOCAL_PORT_MIN], 0);
	m->local_port_max = get_u16_or(a[ACDC_R_LOCAL_PORT_MAX], U16_MAX);
	return get_params(a[ACDC_R_PARAMS], &rule->params, extack);
}

/* Parses ACDC_A_RULES.  On success the caller frees '*rules'. */
static int get_rules(struct nlattr *nested, struct acdc_rule **rules, u32 *n,
		     struct netlink_ext_ack *extack)
{
	struct nlattr *nla;
	int rem;
	int err;

	*rules = NULL;
	*n = 0;
	if (!nested)
		return 0;
	*rules = kvcalloc(ACDC_RULES_MAX, sizeof(**rules), GFP_KERNEL);
	if (!*rules)
		return -ENOMEM;
	nla_for_each_nested(nla, nested, rem) {
		err = -EINVAL;
		if (nla_type(nla) != ACDC_A_RULE || *n >= ACDC_RULES_MAX) {
			NL_SET_ERR_MSG(extack, "not a rule, or too many");
			goto error;
		}
		err = get_rule(nla, &(*rules)[(*n)++], extack);
		if (err)
			goto error;
	}
	return 0;

error:
	kvfree(*rules);
	return err;
}

/* Replies. */

static struct sk_buff *reply_new(struct genl_info *info, size_t size,
				 void **header)
{
	struct sk_buff *reply = genlmsg_new(size + sizeof(struct ovs_header),
					    GFP_KERNEL);
	struct ovs_header *h, *request = genl_info_userhdr(info);

	if (!reply)
		return NULL;
	h = genlmsg_put_reply(reply, info, &ovs_acdc_genl_family, 0,
			      info->genlhdr->cmd);
	if (!h) {
		nlmsg_free(reply);
		return NULL;
	}
	h->dp_ifindex = request->dp_ifindex;
	*header = h;
	return reply;
}

/* Sends 'reply' unless 'err'. */
static int reply_end(struct sk_buff *reply, struct genl_info *info,
		     void *header, int err)
{
	if (err) {
		nlmsg_free(reply);
		return err;
	}
	genlmsg_end(reply, header);
	return genlmsg_reply(reply, info);
}

static int reply_struct(struct genl_info *info, int attr, const void *data,
			size_t size)
{
	struct sk_buff *reply;
	void *header;

	reply = reply_new(info, nla_total_size(size), &header);
	if (!reply)
		return -ENOMEM;
	return reply_end(reply, info, header,
			 nla_put(reply, attr, size, data));
}

/* Operations. */

static int acdc_config_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct acdc_dp *adp = info->user_ptr[0];
	struct nlattr **a = info->attrs;
	struct acdc_config config;

	if (!a[ACDC_A_MAX_FLOWS] || !a[ACDC_A_IDLE_TIMEOUT] ||
	    !a[ACDC_A_EXID] || !a[ACDC_A_CLOCK_SYNCED])
		return acdc_missing(info);
	config.max_flows = nla_get_u32(a[ACDC_A_MAX_FLOWS]);
	config.idle_timeout = nla_get_u32(a[ACDC_A_IDLE_TIMEOUT]);
	config.exid = nla_get_u16(a[ACDC_A_EXID]);
	config.clock_synced = nla_get_u8(a[ACDC_A_CLOCK_SYNCED]);
	return -acdc_config_set(adp->engine, &config);
}

static int acdc_config_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct acdc_dp *adp = info->user_ptr[0];
	struct acdc_config config;
	struct sk_buff *reply;
	void *header;

	acdc_config_get(adp->engine, &config);
	reply = reply_new(info, 4 * nla_total_size(sizeof(u32)), &header);
	if (!reply)
		return -ENOMEM;
	return reply_end(reply, info, header,
			 nla_put_u32(reply, ACDC_A_MAX_FLOWS,
				     config.max_flows)
			 ?: nla_put_u32(reply, ACDC_A_IDLE_TIMEOUT,
					config.idle_timeout)
			 ?: nla_put_u16(reply, ACDC_A_EXID, config.exid)
			 ?: nla_put_u8(reply, ACDC_A_CLOCK_SYNCED,
				       config.clock_synced));
}

static int acdc_tenant_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct acdc_dp *adp = info->user_ptr[0];
	struct acdc_tenant_config tc = { };
	struct nlattr **a = info->attrs;
	struct acdc_rule *rules;
	int err;

	if (!a[ACDC_A_TENANT] || !a[ACDC_A_PARAMS])
		return acdc_missing(info);
	nla_strscpy(tc.name, a[ACDC_A_TENANT], sizeof(tc.name));
	err = get_params(a[ACDC_A_PARAMS], &tc.params, info->extack);
	if (err)
		return err;
	if (a[ACDC_A_MAX_HALF_OPEN])
		tc.max_half_open = nla_get_u32(a[ACDC_A_MAX_HALF_OPEN]);
	err = get_rules(a[ACDC_A_RULES], &rules, &tc.n_rules, info->extack);
	if (err)
		return err;
	tc.rules = rules;
	err = -acdc_tenant_set(adp->engine, &tc);
	if (!err)
		ovs_acdc_sweep(adp);
	kvfree(rules);
	return err;
}

/* The engine frees the handle: first nobody may pick it up any more. */
static void forget_handle(struct vport *vport)
{
	RCU_INIT_POINTER(vport->acdc, NULL);
	ovs_acdc_set_headroom(vport);
}

/* The vports of a tenant must not keep a handle that the engine frees. */
static void unbind_vports(struct acdc_dp *adp, struct datapath *dp,
			  const char *tenant)
{
	struct acdc_port_info pi;
	unsigned int i = 0;

	while (!acdc_port_info_nth(adp->engine, i, &pi)) {
		struct vport *vport = ovs_vport_ovsl(dp, pi.port_no);

		if (strcmp(pi.tenant, tenant)) {
			i++;
			continue;
		}
		if (vport)
			forget_handle(vport);
		acdc_port_unbind(adp->engine, pi.port_no);
	}
}

static int acdc_tenant_del_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct acdc_dp *adp = info->user_ptr[0];
	char name[ACDC_NAME_LEN];

	if (!info->attrs[ACDC_A_TENANT])
		return acdc_missing(info);
	nla_strscpy(name, info->attrs[ACDC_A_TENANT], sizeof(name));
	unbind_vports(adp, info->user_ptr[1], name);
	return -acdc_tenant_del(adp->engine, name);
}

static int port_bind(struct acdc_dp *adp, struct vport *vport,
		     const char *name, const char *tenant)
{
	struct acdc_port *port, *old;

	if (!acdc_tenant_exists(adp->engine, tenant))
		return -ENOENT;
	old = ovsl_dereference(vport->acdc);
	if (old && !acdc_port_is(old, name, tenant)) {
		forget_handle(vport);
		acdc_port_unbind(adp->engine, vport->port_no);
	}
	port = acdc_port_bind(adp->engine, vport->port_no, name, tenant,
			      vport->dev->mtu);
	if (!port)
		return -ENOMEM;
	rcu_assign_pointer(vport->acdc, port);
	ovs_acdc_set_headroom(vport);
	return 0;
}

static int acdc_port_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct acdc_dp *adp = info->user_ptr[0];
	struct nlattr **a = info->attrs;
	char name[ACDC_NAME_LEN] = "";
	char tenant[ACDC_NAME_LEN];
	struct vport *vport;

	if (!a[ACDC_A_PORT_NO])
		return acdc_missing(info);
	vport = ovs_vport_ovsl(info->user_ptr[1],
			       nla_get_u32(a[ACDC_A_PORT_NO]));
	if (!vport)
		return -ENODEV;
	if (a[ACDC_A_PORT_NAME])
		nla_strscpy(name, a[ACDC_A_PORT_NAME], sizeof(name));
	if (a[ACDC_A_TENANT]) {
		nla_strscpy(tenant, a[ACDC_A_TENANT], sizeof(tenant));
		return port_bind(adp, vport, name, tenant);
	}
	if (rcu_access_pointer(vport->acdc)) {
		forget_handle(vport);
		acdc_port_unbind(adp->engine, vport->port_no);
	}
	return 0;
}

static int acdc_stats_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct acdc_dp *adp = info->user_ptr[0];
	struct acdc_stats stats;

	acdc_stats_get(adp->engine, &stats);
	return reply_struct(info, ACDC_A_STATS, &stats, sizeof(stats));
}

static int acdc_tenant_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *index = info->attrs[ACDC_A_INDEX];
	struct acdc_dp *adp = info->user_ptr[0];
	struct acdc_tenant_stats *stats;
	int err;

	if (!index)
		return acdc_missing(info);
	stats = kmalloc(sizeof(*stats), GFP_KERNEL);
	if (!stats)
		return -ENOMEM;
	err = -acdc_tenant_stats_nth(adp->engine, nla_get_u32(index), stats);
	if (!err)
		err = reply_struct(info, ACDC_A_TENANT_STATS, stats,
				   sizeof(*stats));
	kfree(stats);
	return err;
}

static int acdc_port_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *index = info->attrs[ACDC_A_INDEX];
	struct acdc_dp *adp = info->user_ptr[0];
	struct acdc_port_info pi;
	int err;

	if (!index)
		return acdc_missing(info);
	err = -acdc_port_info_nth(adp->engine, nla_get_u32(index), &pi);
	return err ?: reply_struct(info, ACDC_A_PORT_INFO, &pi, sizeof(pi));
}

static int acdc_flow_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct acdc_dp *adp = info->user_ptr[0];
	struct nlattr **a = info->attrs;
	u32 max = a[ACDC_A_MAX] ? nla_get_u32(a[ACDC_A_MAX])
				: ACDC_GENL_MAX_FLOWS;
	u64 cursor = a[ACDC_A_CURSOR] ? nla_get_u64(a[ACDC_A_CURSOR]) : 0;
	struct acdc_flow_info *flows;
	struct sk_buff *reply;
	unsigned int i, n;
	void *header;
	int err;

	flows = kvmalloc_array(max, sizeof(*flows), GFP_KERNEL);
	if (!flows)
		return -ENOMEM;
	rcu_read_lock();
	n = acdc_dump(adp->engine, &cursor, ktime_get_ns(), flows, max);
	rcu_read_unlock();

	reply = reply_new(info, nla_total_size_64bit(sizeof(cursor))
				+ n * nla_total_size(sizeof(*flows)),
			  &header);
	if (!reply) {
		err = -ENOMEM;
		goto out;
	}
	err = nla_put_u64_64bit(reply, ACDC_A_CURSOR, cursor, ACDC_A_PAD);
	for (i = 0; i < n && !err; i++)
		err = nla_put(reply, ACDC_A_FLOW, sizeof(*flows), &flows[i]);
	err = reply_end(reply, info, header, err);
out:
	kvfree(flows);
	return err;
}

static int acdc_flush_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct acdc_dp *adp = info->user_ptr[0];
	struct nlattr **a = info->attrs;
	char tenant[ACDC_NAME_LEN];
	u32 port_no, n;

	if (a[ACDC_A_TENANT])
		nla_strscpy(tenant, a[ACDC_A_TENANT], sizeof(tenant));
	if (a[ACDC_A_PORT_NO])
		port_no = nla_get_u32(a[ACDC_A_PORT_NO]);
	n = acdc_flush(adp->engine, a[ACDC_A_TENANT] ? tenant : NULL,
		       a[ACDC_A_PORT_NO] ? &port_no : NULL);
	return reply_struct(info, ACDC_A_COUNT, &n, sizeof(n));
}

/* Other tenants' connections are nobody's business, and the first request makes
 * the datapath's engine: nothing without CAP_NET_ADMIN. */
#define ACDC_OP(CMD, DOIT)						\
	{ .cmd = CMD, .flags = GENL_UNS_ADMIN_PERM, .doit = DOIT }

static const struct genl_ops acdc_ops[] = {
	ACDC_OP(ACDC_CMD_CONFIG_SET, acdc_config_set_doit),
	ACDC_OP(ACDC_CMD_CONFIG_GET, acdc_config_get_doit),
	ACDC_OP(ACDC_CMD_TENANT_SET, acdc_tenant_set_doit),
	ACDC_OP(ACDC_CMD_TENANT_DEL, acdc_tenant_del_doit),
	ACDC_OP(ACDC_CMD_PORT_SET, acdc_port_set_doit),
	ACDC_OP(ACDC_CMD_STATS_GET, acdc_stats_get_doit),
	ACDC_OP(ACDC_CMD_TENANT_GET, acdc_tenant_get_doit),
	ACDC_OP(ACDC_CMD_PORT_GET, acdc_port_get_doit),
	ACDC_OP(ACDC_CMD_FLOW_GET, acdc_flow_get_doit),
	ACDC_OP(ACDC_CMD_FLUSH, acdc_flush_doit),
};

struct genl_family ovs_acdc_genl_family __ro_after_init = {
	.hdrsize = sizeof(struct ovs_header),
	.name = ACDC_GENL_FAMILY,
	.version = ACDC_GENL_VERSION,
	.maxattr = ACDC_A_LAST,
	.policy = acdc_policy,
	.netnsok = true,
	.parallel_ops = true,
	.pre_doit = acdc_pre_doit,
	.post_doit = acdc_post_doit,
	.ops = acdc_ops,
	.n_ops = ARRAY_SIZE(acdc_ops),
	.resv_start_op = ACDC_CMD_CONFIG_SET,
	.module = THIS_MODULE,
};
