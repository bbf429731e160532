/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "netlink-acdc.h"

#include <errno.h>

#include "acdc-dpif-provider.h"
#include "acdc-genl.h"
#include "netlink.h"
#include "netlink-protocol.h"
#include "netlink-socket.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/vlog.h"
#include "ovs-thread.h"

VLOG_DEFINE_THIS_MODULE(netlink_acdc);

#if UINTPTR_MAX > UINT32_MAX
/* What crosses netlink whole.  If one of these no longer holds, the protocol
 * changed: set the new size, and a new ACDC_GENL_VERSION.  A new parameter is
 * in the version already. */
BUILD_ASSERT_DECL(sizeof(struct acdc_stats) == 32);
BUILD_ASSERT_DECL(sizeof(struct acdc_tenant_stats)
                  == ROUND_UP(ACDC_NAME_LEN + sizeof(struct acdc_params) + 36,
                              8) + 608);
BUILD_ASSERT_DECL(sizeof(struct acdc_port_info) == 140);
BUILD_ASSERT_DECL(sizeof(struct acdc_flow_info) == 260);
#endif

/* Looks the family up.  OVS's nl_lookup_genl_family() does not tell its
 * version. */
static int
acdc_lookup_family(int *family, uint32_t *version)
{
    static const struct nl_policy policy[] = {
        [CTRL_ATTR_FAMILY_ID] = { .type = NL_A_U16 },
        [CTRL_ATTR_VERSION] = { .type = NL_A_U32 },
    };
    struct nlattr *attrs[ARRAY_SIZE(policy)];
    struct ofpbuf request, *reply;
    int error;

    ofpbuf_init(&request, 64);
    nl_msg_put_genlmsghdr(&request, 0, GENL_ID_CTRL, NLM_F_REQUEST,
                          CTRL_CMD_GETFAMILY, 1);
    nl_msg_put_string(&request, CTRL_ATTR_FAMILY_NAME, ACDC_GENL_FAMILY);
    error = nl_transact(NETLINK_GENERIC, &request, &reply);
    ofpbuf_uninit(&request);
    if (error) {
        return error;
    }
    if (nl_policy_parse(reply, NLMSG_HDRLEN + GENL_HDRLEN, policy, attrs,
                        ARRAY_SIZE(policy))) {
        *family = nl_attr_get_u16(attrs[CTRL_ATTR_FAMILY_ID]);
        *version = nl_attr_get_u32(attrs[CTRL_ATTR_VERSION]);
    } else {
        error = EPROTO;
    }
    ofpbuf_delete(reply);
    return error;
}

/* The family's number, or -1 where the kernel has none, or one that speaks
 * otherwise. */
static int
acdc_family(void)
{
    static struct ovsthread_once once = OVSTHREAD_ONCE_INITIALIZER;
    static int family = -1;

    if (ovsthread_once_start(&once)) {
        uint32_t version;
        int error = acdc_lookup_family(&family, &version);

        if (error) {
            VLOG_INFO("the kernel datapath has no AC/DC: generic netlink "
                      "family \"%s\" not found (%s)", ACDC_GENL_FAMILY,
                      ovs_strerror(error));
        } else if (version != ACDC_GENL_VERSION) {
            family = -1;
            VLOG_WARN("the kernel datapath's AC/DC is of another release than "
                      "ovs-vswitchd (version %"PRIu32" of its protocol, not "
                      "%d) and not used: install the module of this one "
                      "(acdc-dkms install --reload)", version,
                      ACDC_GENL_VERSION);
        }
        ovsthread_once_done(&once);
    }
    return family;
}

/* Begins a request in '*request', for acdc_transact(). */
static void
acdc_request(const struct dpif *dpif, uint8_t cmd, struct ofpbuf *request)
{
    struct ovs_header *header;

    ofpbuf_init(request, 512);
    nl_msg_put_genlmsghdr(request, 0, MAX(acdc_family(), 0),
                          NLM_F_REQUEST | NLM_F_ECHO, cmd,
                          ACDC_GENL_VERSION);
    header = ofpbuf_put_uninit(request, sizeof *header);
    header->dp_ifindex = dpif_netlink_get_ifindex(dpif);
}

/* Sends 'request' and frees it.  With 'reply', stores there the answer, whose
 * attributes go to 'attrs' by 'policy'; the caller frees it. */
static int
acdc_transact(struct ofpbuf *request, struct ofpbuf **reply,
              const struct nl_policy *policy, struct nlattr *attrs[])
{
    int error = (acdc_family() < 0 ? EOPNOTSUPP
                 : nl_transact(NETLINK_GENERIC, request, reply));

    ofpbuf_uninit(request);
    if (error || !reply) {
        return error;
    }
    if (!*reply) {
        return EPROTO;
    }
    if (!nl_policy_parse(*reply, NLMSG_HDRLEN + GENL_HDRLEN
                         + sizeof(struct ovs_header), policy, attrs,
                         __ACDC_A_MAX)) {
        ofpbuf_delete(*reply);
        *reply = NULL;
        return EPROTO;
    }
    return 0;
}

/* Sends 'request', which has no answer, and frees it. */
static int
acdc_set(struct ofpbuf *request)
{
    return acdc_transact(request, NULL, NULL, NULL);
}

/* Sends 'request', which is answered by 'size' bytes in attribute 'attr', and
 * frees it. */
static int
acdc_get(struct ofpbuf *request, uint16_t attr, void *data, size_t size)
{
    struct nl_policy policy[__ACDC_A_MAX] = { { .type = NL_A_NO_ATTR } };
    struct nlattr *attrs[__ACDC_A_MAX];
    struct ofpbuf *reply;
    int error;

    policy[attr].type = NL_A_UNSPEC;
    policy[attr].min_len = policy[attr].max_len = size;
    error = acdc_transact(request, &reply, policy, attrs);
    if (!error) {
        memcpy(data, nl_attr_get(attrs[attr]), size);
        ofpbuf_delete(reply);
    }
    return error;
}

/* The same with the 'idx'th of something. */
static int
acdc_get_nth(struct dpif *dpif, uint8_t cmd, unsigned int idx, uint16_t attr,
             void *data, size_t size)
{
    struct ofpbuf request;

    acdc_request(dpif, cmd, &request);
    nl_msg_put_u32(&request, ACDC_A_INDEX, idx);
    return acdc_get(&request, attr, data, size);
}

static int
acdc_netlink_set_config(struct dpif *dpif, const struct acdc_config *config)
{
    struct ofpbuf request;

    acdc_request(dpif, ACDC_CMD_CONFIG_SET, &request);
    nl_msg_put_u32(&request, ACDC_A_MAX_FLOWS, config->max_flows);
    nl_msg_put_u32(&request, ACDC_A_IDLE_TIMEOUT, config->idle_timeout);
    nl_msg_put_u16(&request, ACDC_A_EXID, config->exid);
    nl_msg_put_u8(&request, ACDC_A_CLOCK_SYNCED, config->clock_synced);
    return acdc_set(&request);
}

static int
acdc_netlink_get_config(struct dpif *dpif, struct acdc_config *config)
{
    static const struct nl_policy policy[__ACDC_A_MAX] = {
        [ACDC_A_MAX_FLOWS] = { .type = NL_A_U32 },
        [ACDC_A_IDLE_TIMEOUT] = { .type = NL_A_U32 },
        [ACDC_A_EXID] = { .type = NL_A_U16 },
        [ACDC_A_CLOCK_SYNCED] = { .type = NL_A_U8 },
    };
    struct nlattr *attrs[__ACDC_A_MAX];
    struct ofpbuf request, *reply;
    int error;

    acdc_request(dpif, ACDC_CMD_CONFIG_GET, &request);
    error = acdc_transact(&request, &reply, policy, attrs);
    if (!error) {
        config->max_flows = nl_attr_get_u32(attrs[ACDC_A_MAX_FLOWS]);
        config->idle_timeout = nl_attr_get_u32(attrs[ACDC_A_IDLE_TIMEOUT]);
        config->exid = nl_attr_get_u16(attrs[ACDC_A_EXID]);
        config->clock_synced = nl_attr_get_u8(attrs[ACDC_A_CLOCK_SYNCED]);
        ofpbuf_delete(reply);
    }
    return error;
}

static void
put_params(struct ofpbuf *b, uint16_t type, const struct acdc_params *p)
{
    size_t ofs = nl_msg_start_nested(b, type | NLA_F_NESTED);

#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, ...) \
    ACDC_BITS_##KIND(nl_msg_put_u32, nl_msg_put_u8)(b, NR, p->NAME);
#include "acdc-params.h"
    nl_msg_end_nested(b, ofs);
}

static void
put_rule(struct ofpbuf *b, const struct acdc_rule *rule)
{
    const struct acdc_match *m = &rule->match;
    size_t ofs = nl_msg_start_nested(b, ACDC_A_RULE | NLA_F_NESTED);

    nl_msg_put_u32(b, ACDC_R_PRIORITY, rule->priority);
    if (m->remote_set) {
        nl_msg_put_unspec(b, ACDC_R_REMOTE, m->remote, sizeof m->remote);
        nl_msg_put_u8(b, ACDC_R_REMOTE_PLEN, m->remote_plen);
    }
    nl_msg_put_u16(b, ACDC_R_REMOTE_PORT_MIN, m->remote_port_min);
    nl_msg_put_u16(b, ACDC_R_REMOTE_PORT_MAX, m->remote_port_max);
    nl_msg_put_u16(b, ACDC_R_LOCAL_PORT_MIN, m->local_port_min);
    nl_msg_put_u16(b, ACDC_R_LOCAL_PORT_MAX, m->local_port_max);
    put_params(b, ACDC_R_PARAMS, &rule->params);
    nl_msg_end_nested(b, ofs);
}

static int
acdc_netlink_set_tenant(struct dpif *dpif, const struct acdc_tenant_config *tc)
{
    struct ofpbuf request;
    size_t ofs;

    acdc_request(dpif, ACDC_CMD_TENANT_SET, &request);
    nl_msg_put_string(&request, ACDC_A_TENANT, tc->name);
    put_params(&request, ACDC_A_PARAMS, &tc->params);
    nl_msg_put_u32(&request, ACDC_A_MAX_HALF_OPEN, tc->max_half_open);
    ofs = nl_msg_start_nested(&request, ACDC_A_RULES | NLA_F_NESTED);
    for (uint32_t i = 0; i < tc->n_rules; i++) {
        put_rule(&request, &tc->rules[i]);
    }
    nl_msg_end_nested(&request, ofs);
    return acdc_set(&request);
}

static int
acdc_netlink_del_tenant(struct dpif *dpif, const char *name)
{
    struct ofpbuf request;

    acdc_request(dpif, ACDC_CMD_TENANT_DEL, &request);
    nl_msg_put_string(&request, ACDC_A_TENANT, name);
    return acdc_set(&request);
}

static int
acdc_netlink_set_port(struct dpif *dpif, odp_port_t port_no, const char *name,
                      const char *tenant)
{
    struct ofpbuf request;

    acdc_request(dpif, ACDC_CMD_PORT_SET, &request);
    nl_msg_put_u32(&request, ACDC_A_PORT_NO, odp_to_u32(port_no));
    if (name) {
        nl_msg_put_string(&request, ACDC_A_PORT_NAME, name);
    }
    if (tenant) {
        nl_msg_put_string(&request, ACDC_A_TENANT, tenant);
    }
    return acdc_set(&request);
}

static int
acdc_netlink_get_stats(struct dpif *dpif, struct acdc_stats *stats)
{
    struct ofpbuf request;

    acdc_request(dpif, ACDC_CMD_STATS_GET, &request);
    return acdc_get(&request, ACDC_A_STATS, stats, sizeof *stats);
}

static int
acdc_netlink_get_tenant(struct dpif *dpif, unsigned int idx,
                        struct acdc_tenant_stats *stats)
{
    return acdc_get_nth(dpif, ACDC_CMD_TENANT_GET, idx, ACDC_A_TENANT_STATS,
                        stats, sizeof *stats);
}

static int
acdc_netlink_get_port(struct dpif *dpif, unsigned int idx,
                      struct acdc_port_info *info)
{
    return acdc_get_nth(dpif, ACDC_CMD_PORT_GET, idx, ACDC_A_PORT_INFO,
                        info, sizeof *info);
}

static int
acdc_netlink_dump(struct dpif *dpif, uint64_t *cursor,
                  struct acdc_flow_info *flows, unsigned int max,
                  unsigned int *n)
{
    static const struct nl_policy policy[__ACDC_A_MAX] = {
        [ACDC_A_CURSOR] = { .type = NL_A_U64 },
    };
    struct nlattr *attrs[__ACDC_A_MAX];
    struct ofpbuf request, *reply;
    const struct nlattr *nla;
    size_t left;
    int error;

    *n = 0;
    if (!max) {
        return 0;
    }
    acdc_request(dpif, ACDC_CMD_FLOW_GET, &request);
    nl_msg_put_u64(&request, ACDC_A_CURSOR, *cursor);
    nl_msg_put_u32(&request, ACDC_A_MAX, MIN(max, ACDC_GENL_MAX_FLOWS));
    error = acdc_transact(&request, &reply, policy, attrs);
    if (error) {
        return error;
    }
    *cursor = nl_attr_get_u64(attrs[ACDC_A_CURSOR]);
    NL_ATTR_FOR_EACH (nla, left,
                      ofpbuf_at(reply, NLMSG_HDRLEN + GENL_HDRLEN
                                + sizeof(struct ovs_header), 0),
                      reply->size - NLMSG_HDRLEN - GENL_HDRLEN
                      - sizeof(struct ovs_header)) {
        if (nl_attr_type(nla) == ACDC_A_FLOW && *n < max
            && nl_attr_get_size(nla) == sizeof *flows) {
            memcpy(&flows[(*n)++], nl_attr_get(nla), sizeof *flows);
        }
    }
    ofpbuf_delete(reply);
    return 0;
}

static int
acdc_netlink_flush(struct dpif *dpif, const char *tenant, odp_port_t port,
                   uint32_t *n)
{
    struct ofpbuf request;

    acdc_request(dpif, ACDC_CMD_FLUSH, &request);
    if (tenant) {
        nl_msg_put_string(&request, ACDC_A_TENANT, tenant);
    }
    if (port != ODPP_NONE) {
        nl_msg_put_u32(&request, ACDC_A_PORT_NO, odp_to_u32(port));
    }
    return acdc_get(&request, ACDC_A_COUNT, n, sizeof *n);
}

const struct acdc_dpif_class acdc_netlink_class = {
    acdc_netlink_set_config,
    acdc_netlink_get_config,
    acdc_netlink_set_tenant,
    acdc_netlink_del_tenant,
    acdc_netlink_set_port,
    acdc_netlink_get_stats,
    acdc_netlink_get_tenant,
    acdc_netlink_get_port,
    acdc_netlink_dump,
    acdc_netlink_flush,
};
