/* SPDX-License-Identifier: Apache-2.0 */

/* What the parts of acdc-ovsdb.h share: acdc-ovsdb-parse.c reads rows,
 * acdc-ovsdb.c brings datapaths to what they say, acdc-ovsdb-status.c writes
 * statistics and status. */

#ifndef ACDC_OVSDB_PRIVATE_H
#define ACDC_OVSDB_PRIVATE_H 1

#include "acdc-ovsdb.h"
#include "openvswitch/shash.h"

struct ovsrec_acdc;
struct ovsrec_interface;
struct ovsrec_open_vswitch;
struct ovsrec_port;
struct sset;

/* Counters whose moves are logged, see acdc-ovsdb-status.c. */
#define ACDC_OVSDB_N_EVENTS 7

struct tenant {
    struct acdc_ovsdb_tenant up;
    unsigned int generation;    /* Of 'up.config'; never 0. */
    bool usable;                /* 'up.config' may be sent to a datapath. */
    bool in_db;                 /* Seen in the database in this pass. */
    char *dp_error;             /* From the datapaths, or NULL. */

    /* Sums over the datapaths, at the latest update of statistics. */
    struct acdc_tenant_stats stats;
    bool has_stats;             /* There was one. */
    uint64_t seen[ACDC_OVSDB_N_EVENTS]; /* Of 'stats', last looked at. */
};

/* An interface that other_config:acdc-tenant or a selector gives a tenant. */
struct guest {
    char *tenant;
    struct svec claims;         /* The tenants that select it, sorted; none if
                                 * other_config names one. */
    char *error;                /* Why it is not bound, or NULL. */
};
struct guest *acdc_guest_clone(const struct guest *);
void acdc_guest_destroy(struct guest *);
/* Whether 'tenant' is one of those that 'g' is or could be bound to. */
bool acdc_guest_concerns(const struct guest *g, const char *tenant);

/* By name. */
extern struct shash acdc_tenants; /* Of struct tenant. */
extern struct shash acdc_guests;  /* Of struct guest. */

/* Rows.  What is wrong with settings in tables other than our own, which have
 * no place for it, is added to 'warnings'. */
void acdc_ovsdb_parse_config(const struct ovsrec_open_vswitch *,
                             struct acdc_config *, struct sset *warnings);
/* Looks for keys that begin with "acdc-" and have no effect.  'name' is the
 * row's, or "". */
void acdc_ovsdb_check_keys(const char *table, const char *name,
                           const struct smap *other_config,
                           struct sset *warnings);

/* The caller must uninitialize 't'. */
void acdc_ovsdb_parse_tenant(const struct ovsrec_acdc *,
                             struct acdc_ovsdb_tenant *t);
void acdc_ovsdb_tenant_uninit(struct acdc_ovsdb_tenant *);
bool acdc_ovsdb_tenant_equal(const struct acdc_ovsdb_tenant *,
                             const struct acdc_ovsdb_tenant *);

/* Selectors: column bind.  Whether one is "KEY=VALUE". */
bool acdc_bind_is_valid(const char *selector);
void acdc_binds_init(struct ovsdb_idl *);
/* Reads them from 'acdc_tenants'. */
void acdc_binds_read(void);
/* What is wanted for 'iface' of 'port': a guest that has an error if it must not
 * be bound, or NULL. */
struct guest *acdc_bind_wanted(const struct ovsrec_port *port,
                               const struct ovsrec_interface *iface);
/* If nothing but external_ids of interfaces changed since '*seqno' (which
 * ovsdb_idl_get_seqno() returned), brings that up to date, and returns whether
 * that changes who is bound to which tenant. */
bool acdc_binds_changed(const struct ovsdb_idl *, unsigned int *seqno);

/* Status.  Something of it changed: has it written soon. */
void acdc_ovsdb_status_changed(void);
/* The same for Interface:status of interface 'name'. */
void acdc_ovsdb_iface_changed(const char *name);
/* Whether it is time to look at all again; sets the next time. */
bool acdc_ovsdb_status_due(const struct ovsdb_idl *,
                           const struct ovsrec_open_vswitch *);
void acdc_ovsdb_status_run(struct ovsdb_idl *);
void acdc_ovsdb_status_wait(void);

#endif /* acdc-ovsdb-private.h */
