/* SPDX-License-Identifier: Apache-2.0 */

/* AC/DC's part of the Open vSwitch database: reads the tables ACDC and
 * ACDC_Rule and the acdc-* keys of Open_vSwitch and Interface, brings every
 * datapath in use to the state they describe, and writes back statistics and
 * status.  vswitch.xml says what each column means.
 *
 * OVSDB is the only place where configuration lives.  Whenever the database
 * or a port changes, what the datapath has is listed and compared with what
 * the database wants, and only differences are sent, so a restart of the
 * daemon or of a datapath heals by itself.
 *
 * Everything here is for the main thread of ovs-vswitchd. */

#ifndef ACDC_OVSDB_H
#define ACDC_OVSDB_H 1

#include "acdc.h"
#include "svec.h"

struct dpif;
struct ovsdb_idl;
struct smap;

/* Once, before anything of 'idl' is omitted or it runs. */
void acdc_ovsdb_init(struct ovsdb_idl *);

/* Whether 'idl' has changed since '*seqno', so that bridges and ports must be
 * reconfigured.  For external_ids of interfaces they need not be: '*seqno' is
 * brought up to date then. */
bool acdc_ovsdb_must_reconfigure(const struct ovsdb_idl *idl,
                                 unsigned int *seqno);

/* Whenever bridges and ports have been reconfigured from 'idl'.  The caller
 * reports the configuration as done afterwards, so that ovs-vsctl returns when
 * it is in force. */
void acdc_ovsdb_reconfigure(const struct ovsdb_idl *idl);

/* In the main loop: follows ports that come and go, writes to 'idl'. */
void acdc_ovsdb_run(struct ovsdb_idl *idl);
void acdc_ovsdb_wait(void);

/* Adds to 'status', to be written into Interface:status, what AC/DC has to
 * say about interface 'name'. */
void acdc_ovsdb_iface_status(const char *name, struct smap *status);

/* What datapaths keep of interface 'name': names are as long as they like.  The
 * caller must free() it. */
char *acdc_ovsdb_short_name(const char *name);

/* A tenant as configured.  'config.rules' is sorted by decreasing priority,
 * as acdc_flow_info.rule counts them. */
struct acdc_ovsdb_tenant {
    struct acdc_tenant_config config;
    char **matches;             /* Of each rule, as the database has it. */
    struct svec binds;          /* Selectors, sorted. */
    char *error;                /* Why the latest configuration is not (fully)
                                 * in force, or NULL. */
    char *warning;              /* What of it is not understood and has no
                                 * effect, or NULL. */
};
const struct acdc_ovsdb_tenant *acdc_ovsdb_get_tenant(const char *name);

/* Adds to 'problems', sorted, a line for each thing that the database asks for
 * and that cannot be had, but for what acdc_ovsdb_get_tenant() says: ports
 * that are not bound, tenants that no datapath has, settings in other tables that
 * are not understood.  With 'tenant' only those of that tenant. */
void acdc_ovsdb_get_problems(const char *tenant, struct svec *problems);

/* Initializes 'types' with the types of the datapaths in use ("netdev",
 * "system"), sorted. */
void acdc_ovsdb_get_datapaths(struct svec *types);

/* Opens the datapath that the bridges of 'type' share.  The caller must close
 * it with dpif_close() before the main loop goes on, since an open datapath
 * outlives the removal of its last bridge.  Returns 0 or a positive errno
 * value. */
int acdc_ovsdb_open(const char *type, struct dpif **);

#endif /* acdc-ovsdb.h */
