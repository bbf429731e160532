/* SPDX-License-Identifier: Apache-2.0 */

#include <config.h>
#include "acdc-appctl-private.h"

#include <arpa/inet.h>
#include <string.h>

#include "acdc-ovs-params.h"
#include "openvswitch/json.h"
#include "util.h"

bool
acdc_appctl_flow_matches(const struct acdc_flow_info *f,
                         const struct query *q)
{
    return ((!q->tenant || !strcmp(q->tenant, f->tenant))
            && (!q->port || !strcmp(q->port, f->port))
            && acdc_match_remote(&q->match, f->remote));
}

/* Begins a field of a flow, as NAME=VALUE or as a member of a JSON object.  A
 * million flows have forty million fields: no struct json here. */
static void
put_name(struct ds *ds, bool json, const char *name)
{
    char last = ds_last(ds);

    if (json) {
        ds_put_cstr(ds, last == '{' ? "\"" : ",\"");
    } else if (ds->length && last != '\n') {
        ds_put_char(ds, ' ');
    }
    ds_put_cstr(ds, name);
    ds_put_cstr(ds, json ? "\":" : "=");
}

static void
put_string(struct ds *ds, bool json, const char *name, const char *value)
{
    put_name(ds, json, name);
    if (json) {
        json_string_escape(value, ds);
    } else {
        ds_put_cstr(ds, value);
    }
}

static void
put_integer(struct ds *ds, bool json, const char *name, int64_t value)
{
    put_name(ds, json, name);
    ds_put_format(ds, "%"PRId64, value);
}

static void
put_fraction(struct ds *ds, bool json, const char *name, uint32_t value)
{
    put_name(ds, json, name);
    ds_put_format(ds, "%.6g", acdc_fraction(value));
}

static void
put_bool(struct ds *ds, bool json, const char *name, bool value)
{
    put_name(ds, json, name);
    ds_put_cstr(ds, value ? "true" : "false");
}

static void
put_endpoints(struct ds *ds, bool json, const struct acdc_flow_info *f)
{
    char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];
    bool v4 = f->ip_version == 4;
    size_t ofs = v4 ? 12 : 0;   /* IPv4 addresses are mapped. */

    inet_ntop(v4 ? AF_INET : AF_INET6, f->local + ofs, local, sizeof local);
    inet_ntop(v4 ? AF_INET : AF_INET6, f->remote + ofs, remote, sizeof remote);
    if (json) {
        put_string(ds, json, "local", local);
        put_integer(ds, json, "local_port", f->local_port);
        put_string(ds, json, "remote", remote);
        put_integer(ds, json, "remote_port", f->remote_port);
    } else {
        ds_put_format(ds, v4 ? " %s:%"PRIu16 : " [%s]:%"PRIu16,
                      local, f->local_port);
        ds_put_format(ds, v4 ? ">%s:%"PRIu16 : ">[%s]:%"PRIu16,
                      remote, f->remote_port);
    }
}

/* As text only where there are some. */
static void
put_vlans(struct ds *ds, bool json, const struct acdc_flow_info *f)
{
    if (json || f->vlans[0]) {
        put_name(ds, json, "vlans");
        ds_put_cstr(ds, json ? "[" : "");
        if (f->vlans[0]) {
            ds_put_format(ds, "%"PRIu16, f->vlans[0]);
        }
        if (f->vlans[1]) {
            ds_put_format(ds, ",%"PRIu16, f->vlans[1]);
        }
        ds_put_cstr(ds, json ? "]" : "");
    }
}

void
acdc_appctl_put_flow(struct ds *ds, bool json, const char *type,
                     const struct acdc_flow_info *f)
{
    if (json) {
        ds_put_char(ds, '{');
    }
    if (type) {
        put_string(ds, json, "datapath", type);
    }
    put_string(ds, json, "tenant", f->tenant);
    put_string(ds, json, "port", f->port);
    put_endpoints(ds, json, f);
    put_vlans(ds, json, f);
    put_string(ds, json, "state", acdc_flow_state_names[f->state]);
    put_string(ds, json, "alg", acdc_algorithm_names[f->algorithm]);
    put_string(ds, json, "mode", acdc_mode_names[f->mode]);
    put_bool(ds, json, "capable", f->capable);
    put_integer(ds, json, "rule", f->rule);
    put_fraction(ds, json, "beta", f->beta);
    put_fraction(ds, json, "alpha", f->alpha);
    put_integer(ds, json, "wnd", f->window);
    put_integer(ds, json, "ssthresh", f->ssthresh);
    put_integer(ds, json, "offered", f->offered);
    put_integer(ds, json, "in_flight", f->in_flight);
    put_integer(ds, json, "mss", f->mss);
    put_integer(ds, json, "srtt_us", f->srtt_us);
    if (json || f->net_rtt_us) {
        put_integer(ds, json, "net_rtt_us", f->net_rtt_us);
        put_integer(ds, json, "net_rtt_min_us", f->net_rtt_min_us);
        put_integer(ds, json, "delay_us", f->delay_us);
    }
    put_integer(ds, json, "fb_ce", f->fb_ce);
    put_integer(ds, json, "fb_total", f->fb_total);
    put_integer(ds, json, "rx_ce", f->rx_ce);
    put_integer(ds, json, "rx_total", f->rx_total);
    put_integer(ds, json, "snd_una", f->snd_una);
    put_integer(ds, json, "snd_nxt", f->snd_nxt);
    put_integer(ds, json, "wscale_local", f->wscale_local);
    put_integer(ds, json, "wscale_remote", f->wscale_remote);
    put_bool(ds, json, "rescaled", f->rescaled);
    put_bool(ds, json, "resumed", f->resumed);
    put_integer(ds, json, "path", f->path);
    put_bool(ds, json, "sack", f->sack);
    put_bool(ds, json, "guest_ecn", f->guest_ecn);
    put_integer(ds, json, "idle_ms", f->idle_ms);
    ds_put_char(ds, json ? '}' : '\n');
}
