/* SPDX-License-Identifier: Apache-2.0 */

/* Which tenant an interface is to be bound to: its other_config:acdc-tenant,
 * else the tenant that has one of its external_ids in column bind.
 *
 * Managers of guests write external_ids often, ovn-controller for each port.
 * Upstream does not look at them.  What changes there and nowhere else is
 * seen here, without a reconfiguration of bridges. */

#include <config.h>
#include "acdc-ovsdb-private.h"

#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "coverage.h"
#include "openvswitch/dynamic-string.h"
#include "ovsdb-idl.h"
#include "smap.h"
#include "svec.h"
#include "util.h"
#include "vswitch-idl.h"

COVERAGE_DEFINE(acdc_external_ids);

/* "KEY=VALUE" -> struct svec, the tenants that have it, sorted. */
static struct shash selectors = SHASH_INITIALIZER(&selectors);

bool
acdc_bind_is_valid(const char *selector)
{
    const char *eq = strchr(selector, '=');

    return eq && eq != selector && eq[1];
}

void
acdc_binds_read(void)
{
    const struct shash_node **nodes = shash_sort(&acdc_tenants);
    struct shash_node *node;

    SHASH_FOR_EACH (node, &selectors) {
        svec_destroy(node->data);
    }
    shash_clear_free_data(&selectors);

    for (size_t i = 0; i < shash_count(&acdc_tenants); i++) {
        const struct tenant *t = nodes[i]->data;
        const char *selector;
        size_t j;

        SVEC_FOR_EACH (j, selector, &t->up.binds) {
            struct svec *tenants = shash_find_data(&selectors, selector);

            if (!tenants) {
                tenants = xzalloc(sizeof *tenants);
                shash_add(&selectors, selector, tenants);
            }
            svec_add(tenants, nodes[i]->name);
        }
    }
    free(nodes);
}

/* Adds to 'claims' the tenants one of whose selectors 'iface' has, sorted, and
 * to 'why', unless it is null, which those are. */
static void
find_claims(const struct ovsrec_interface *iface, struct svec *claims,
            struct ds *why)
{
    struct ds key = DS_EMPTY_INITIALIZER;
    const struct smap_node *node;

    SMAP_FOR_EACH (node, &iface->external_ids) {
        const struct svec *tenants;

        ds_clear(&key);
        ds_put_format(&key, "%s=%s", node->key, node->value);
        tenants = shash_find_data(&selectors, ds_cstr(&key));
        if (tenants) {
            svec_append(claims, tenants);
            if (why) {
                ds_put_format(why, "%s%s", why->length ? ", " : "",
                              ds_cstr(&key));
            }
        }
    }
    ds_destroy(&key);
    svec_sort_unique(claims);
}

/* Whether 'iface' of 'port' leads to other hosts, as far as can be told: a
 * member of a bond, or a device that has hardware and is no guest's
 * function of it. */
static bool
is_uplink(const struct ovsrec_port *port, const struct ovsrec_interface *iface)
{
    char path[64 + IFNAMSIZ], name[32] = "";
    FILE *stream;

    if (port->n_interfaces > 1) {
        return true;
    }
    if (!strcmp(iface->type, "dpdk")) {
        const char *devargs = smap_get(&iface->options, "dpdk-devargs");

        return !devargs || !strstr(devargs, "representor=");
    }
    if ((iface->type[0] && strcmp(iface->type, "system")
         && strcmp(iface->type, "afxdp")) || strlen(iface->name) >= IFNAMSIZ) {
        return false;
    }
    snprintf(path, sizeof path, "/sys/class/net/%s/device", iface->name);
    if (access(path, F_OK)) {
        return false;
    }
    /* "pf0vf1" and "pf0sf1" are functions' representors. */
    snprintf(path, sizeof path, "/sys/class/net/%s/phys_port_name",
             iface->name);
    stream = fopen(path, "r");
    if (stream) {
        if (!fgets(name, sizeof name, stream)) {
            name[0] = '\0';
        }
        fclose(stream);
    }
    return !strstr(name, "vf") && !strstr(name, "sf");
}

struct guest *
acdc_bind_wanted(const struct ovsrec_port *port,
                 const struct ovsrec_interface *iface)
{
    const char *tenant = smap_get(&iface->other_config, "acdc-tenant");
    struct ds why = DS_EMPTY_INITIALIZER;
    struct guest *g = xzalloc(sizeof *g);

    if (tenant) {
        g->tenant = xstrdup(tenant);
        return g;
    }
    find_claims(iface, &g->claims, &why);
    if (!g->claims.n) {
        acdc_guest_destroy(g);
        g = NULL;
    } else {
        g->tenant = xstrdup(g->claims.names[0]);
        if (g->claims.n > 1) {
            char *names = svec_join(&g->claims, ", ", "");

            g->error = xasprintf("external_ids (%s) select it for several "
                                 "tenants: %s; packets pass untouched",
                                 ds_cstr(&why), names);
            free(names);
        } else if (is_uplink(port, iface)) {
            g->error = xasprintf("external_ids (%s) select an uplink; packets "
                                 "pass untouched (other_config:acdc-tenant "
                                 "binds it nevertheless)", ds_cstr(&why));
        }
    }
    ds_destroy(&why);
    return g;
}

bool
acdc_guest_concerns(const struct guest *g, const char *tenant)
{
    return !strcmp(g->tenant, tenant) || svec_contains(&g->claims, tenant);
}

struct guest *
acdc_guest_clone(const struct guest *g)
{
    struct guest *new = xzalloc(sizeof *new);

    new->tenant = xstrdup(g->tenant);
    new->error = nullable_xstrdup(g->error);
    svec_clone(&new->claims, &g->claims);
    return new;
}

void
acdc_guest_destroy(struct guest *g)
{
    free(g->tenant);
    free(g->error);
    svec_destroy(&g->claims);
    free(g);
}

/* Changes of external_ids. ------------------------------------------------ */

/* Whether 'row' is as it was but for its external_ids. */
static bool
only_external_ids(const struct ovsrec_interface *row)
{
    if (ovsrec_interface_is_new(row) || ovsrec_interface_is_deleted(row)) {
        return false;
    }
    for (size_t i = 0; i < OVSREC_INTERFACE_N_COLUMNS; i++) {
        const struct ovsdb_idl_column *column = &ovsrec_interface_columns[i];

        if (ovsdb_idl_track_is_updated(&row->header_, column)
            != (column == &ovsrec_interface_col_external_ids)) {
            return false;
        }
    }
    return true;
}

/* Whether 'iface' is claimed by others than before. */
static bool
claims_differ(const struct ovsrec_interface *iface)
{
    const struct guest *g = shash_find_data(&acdc_guests, iface->name);
    struct svec claims = SVEC_EMPTY_INITIALIZER;
    bool differ;

    if (smap_get(&iface->other_config, "acdc-tenant")) {
        return false;
    }
    find_claims(iface, &claims, NULL);
    differ = g ? !svec_equal(&claims, &g->claims) : claims.n > 0;
    svec_destroy(&claims);
    return differ;
}

void
acdc_binds_init(struct ovsdb_idl *idl)
{
    for (size_t i = 0; i < OVSREC_INTERFACE_N_COLUMNS; i++) {
        ovsdb_idl_track_add_column(idl, &ovsrec_interface_columns[i]);
    }
}

bool
acdc_binds_changed(const struct ovsdb_idl *idl, unsigned int *seqno)
{
    unsigned int changes = ovsdb_idl_get_seqno(idl) - *seqno;
    const struct ovsrec_interface *iface;
    unsigned int n = 0;
    bool differ = false;

    OVSREC_INTERFACE_FOR_EACH_TRACKED (iface, idl) {
        if (n++ >= changes || !only_external_ids(iface)) {
            return false;
        }
    }
    /* Each row that changes adds one to the IDL's number, as do other events:
     * there was nothing else. */
    if (!n || n != changes) {
        return false;
    }
    *seqno += n;
    OVSREC_INTERFACE_FOR_EACH_TRACKED (iface, idl) {
        COVERAGE_INC(acdc_external_ids);
        differ = differ || claims_differ(iface);
    }
    return differ;
}
