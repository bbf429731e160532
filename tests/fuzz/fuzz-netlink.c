/* SPDX-License-Identifier: Apache-2.0 */

/* lib/netlink-acdc.c against a kernel that answers anything: what is not an
 * answer is an error, and nothing is read or written outside of it.  The
 * requests are well formed and hold what was asked for.  Linked with Open
 * vSwitch's library, but for the socket (ld's --wrap). */

#include <config.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "acdc-dpif-provider.h"
#include "acdc-genl.h"
#include "netlink-acdc.h"
#include "netlink-protocol.h"
#include "netlink.h"
#include "odp-netlink.h"
#include "odp-util.h"
#include "openvswitch/ofpbuf.h"
#include "openvswitch/vlog.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);
int LLVMFuzzerInitialize(int *, char ***);
int __wrap_dpif_netlink_get_ifindex(const struct dpif *);
int __wrap_nl_transact(int, const struct ofpbuf *, struct ofpbuf **);

enum { HEADERS = NLMSG_HDRLEN + GENL_HDRLEN + sizeof(struct ovs_header) };

static const uint8_t *input;
static size_t left;
static struct ofpbuf *asked;            /* The last request. */

static void
check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void
take(void *data, size_t n)
{
    size_t some = n < left ? n : left;

    if (!n) {
        return;                 /* 'data' may be NULL. */
    }
    memset(data, 0, n);
    memcpy(data, input, some);
    input += some;
    left -= some;
}

static uint8_t
byte(void)
{
    uint8_t b;

    take(&b, 1);
    return b;
}

int
__wrap_dpif_netlink_get_ifindex(const struct dpif *dpif OVS_UNUSED)
{
    return 5;
}

/* The answer of the kernel's controller of generic netlink. */
static struct ofpbuf *
describe_family(void)
{
    struct ofpbuf *reply = ofpbuf_new(64);

    ofpbuf_put_zeros(reply, NLMSG_HDRLEN + GENL_HDRLEN);
    nl_msg_put_u16(reply, CTRL_ATTR_FAMILY_ID, 30);
    nl_msg_put_u32(reply, CTRL_ATTR_VERSION, ACDC_GENL_VERSION);
    return reply;
}

int
__wrap_nl_transact(int protocol, const struct ofpbuf *request,
                   struct ofpbuf **replyp)
{
    uint8_t how;
    size_t n;

    if (nl_msg_nlmsghdr(request)->nlmsg_type == GENL_ID_CTRL) {
        *replyp = describe_family();
        return 0;
    }
    how = byte();
    check(protocol == NETLINK_GENERIC);
    check(request->size >= HEADERS);
    ofpbuf_delete(asked);
    asked = ofpbuf_clone(request);
    if (replyp) {
        *replyp = NULL;
    }
    if (how == 0xff) {
        return byte() | 1;
    } else if (how == 0xfe || !replyp) {
        return 0;
    }
    n = how & 1 ? left : (size_t) byte() * (how & 2 ? 1 : 8);
    *replyp = ofpbuf_new(HEADERS);
    if (how == 0xfd) {
        ofpbuf_put_zeros(*replyp, n % HEADERS);
        return 0;
    }
    ofpbuf_put_zeros(*replyp, HEADERS);
    if (how & 4) {
        /* Begins as a right answer to anything. */
        nl_msg_put_u64(*replyp, ACDC_A_CURSOR, n);
        nl_msg_put_u32(*replyp, ACDC_A_COUNT, 1);
        nl_msg_put_u32(*replyp, ACDC_A_MAX_FLOWS, 1);
        nl_msg_put_u32(*replyp, ACDC_A_IDLE_TIMEOUT, 1);
        nl_msg_put_u16(*replyp, ACDC_A_EXID, 1);
        nl_msg_put_u8(*replyp, ACDC_A_CLOCK_SYNCED, 1);
        nl_msg_put_unspec_zero(*replyp, how & 8 ? ACDC_A_FLOW : ACDC_A_STATS,
                               how & 8 ? sizeof(struct acdc_flow_info)
                                       : sizeof(struct acdc_stats));
        nl_msg_put_unspec_zero(*replyp, ACDC_A_TENANT_STATS,
                               sizeof(struct acdc_tenant_stats));
        nl_msg_put_unspec_zero(*replyp, ACDC_A_PORT_INFO,
                               sizeof(struct acdc_port_info));
    }
    take(ofpbuf_put_uninit(*replyp, n), n);
    /* To its size, for AddressSanitizer. */
    ofpbuf_trim(*replyp);
    return 0;
}

/* The attribute 'type' of the last request. */
static const struct nlattr *
find(uint16_t type)
{
    return nl_attr_find(asked, HEADERS, type);
}

static void
take_params(struct acdc_params *p)
{
    take(p, offsetof(struct acdc_params, enabled));
    p->enabled = byte() & 1;
    p->police = byte() & 1;
    p->ecn_syn = byte() & 1;
    p->align_mss = byte() & 1;
    p->spread_cuts = byte() & 1;
    p->small_windows = byte() & 1;
}

static void
set_tenant(const struct acdc_dpif_class *class)
{
    struct acdc_rule rules[3];
    struct acdc_tenant_config tc;
    const struct nlattr *nla;
    unsigned int n;
    size_t rest;

    memset(&tc, 0, sizeof tc);
    take(tc.name, sizeof tc.name - 1);
    take_params(&tc.params);
    take(&tc.max_half_open, sizeof tc.max_half_open);
    tc.n_rules = byte() % 4;
    tc.rules = rules;
    memset(rules, 0, sizeof rules);
    for (n = 0; n < tc.n_rules; n++) {
        struct acdc_match *m = &rules[n].match;

        take(m->remote, sizeof m->remote);
        m->remote_plen = byte();
        m->remote_set = byte() & 1;
        take(&m->remote_port_min, 4 * sizeof m->remote_port_min);
        take(&rules[n].priority, sizeof rules[n].priority);
        take_params(&rules[n].params);
    }
    class->set_tenant(NULL, &tc);
    check(!strcmp(nl_attr_get_string(find(ACDC_A_TENANT)), tc.name));
    check(nl_attr_get_u32(find(ACDC_A_MAX_HALF_OPEN)) == tc.max_half_open);
    nla = nl_attr_find_nested(find(ACDC_A_PARAMS), ACDC_P_BETA);
    check(nl_attr_get_u32(nla) == tc.params.beta);
    n = 0;
    NL_NESTED_FOR_EACH (nla, rest, find(ACDC_A_RULES)) {
        const struct nlattr *a = nl_attr_find_nested(nla, ACDC_R_PRIORITY);

        check(nl_attr_type(nla) == ACDC_A_RULE);
        check(nl_attr_get_u32(a) == rules[n++].priority);
        a = nl_attr_find_nested(nla, ACDC_R_PARAMS);
        check(nl_attr_find_nested(a, ACDC_P_ECN_SYN) != NULL);
    }
    check(n == tc.n_rules);
}

int
LLVMFuzzerInitialize(int *argc OVS_UNUSED, char ***argv OVS_UNUSED)
{
    vlog_set_levels(NULL, VLF_ANY_DESTINATION, VLL_OFF);
    return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct acdc_dpif_class *class = &acdc_netlink_class;

    input = data;
    left = size;
    while (left) {
        struct acdc_flow_info flows[5];
        struct acdc_tenant_stats tenant;
        struct acdc_config config;
        struct acdc_port_info port;
        struct acdc_stats stats;
        uint64_t cursor = 7;
        unsigned int max, n;
        uint32_t count;

        switch (byte() % 10) {
        case 0:
            take(&config, sizeof config);
            config.clock_synced = byte() & 1;
            class->set_config(NULL, &config);
            check(nl_attr_get_u32(find(ACDC_A_MAX_FLOWS)) == config.max_flows);
            check(nl_attr_get_u16(find(ACDC_A_EXID)) == config.exid);
            break;
        case 1: class->get_config(NULL, &config); break;
        case 2: set_tenant(class); break;
        case 3:
            class->del_tenant(NULL, "blue");
            break;
        case 4: class->set_port(NULL, u32_to_odp(7), byte() & 1 ? "p" : NULL,
                                byte() & 1 ? "blue" : NULL); break;
        case 5: class->get_stats(NULL, &stats); break;
        case 6: class->get_tenant(NULL, byte(), &tenant); break;
        case 7: class->get_port(NULL, byte(), &port); break;
        case 8:
            max = byte() % 6;
            if (!class->dump(NULL, &cursor, flows, max, &n)) {
                check(n <= max);
            } else {
                check(!n && cursor == 7);
            }
            break;
        case 9:
            class->flush(NULL, byte() & 1 ? "blue" : NULL,
                         byte() & 1 ? ODPP_NONE : u32_to_odp(7), &count);
            break;
        }
    }
    ofpbuf_delete(asked);
    asked = NULL;
    return 0;
}
