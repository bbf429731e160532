/* SPDX-License-Identifier: Apache-2.0 */

/* What the parts of acdc-appctl.h share: acdc-appctl.c has the commands,
 * acdc-appctl-show.c says what there is to say of tenants,
 * acdc-appctl-flows.c of connections. */

#ifndef ACDC_APPCTL_PRIVATE_H
#define ACDC_APPCTL_PRIVATE_H 1

#include "acdc.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/shash.h"

struct dpif;
struct json;

/* The arguments of a command. */
struct query {
    bool json;
    char *tenant;               /* NULL: any. */
    char *port;                 /* NULL: any. */
    struct acdc_match match;    /* 'remote' only. */
    long long int limit;        /* Of flows to show; 0: DUMP_MAX or error, of a
                                 * page PAGE_FLOWS. */
    char *cursor;               /* NULL: all flows are asked for, not a page. */
};

enum command { CMD_SHOW, CMD_STATS, CMD_DUMP };

/* The reply of a command. */
struct report {
    enum command cmd;
    struct query query;
    struct ds text;             /* Also the JSON of CMD_DUMP. */
    struct json *datapaths;     /* Arrays of CMD_SHOW and CMD_STATS, */
    struct json *tenants;       /* with 'query.json' only. */
    struct shash means;         /* CMD_SHOW: of flows, by tenant's name. */
};

/* Flows. */
bool acdc_appctl_flow_matches(const struct acdc_flow_info *,
                              const struct query *);
/* Appends the flow as a line of text or a JSON object; 'type' NULL: of the only
 * datapath. */
void acdc_appctl_put_flow(struct ds *, bool json, const char *type,
                          const struct acdc_flow_info *);

/* Tenants. */
void acdc_appctl_add_means(struct report *, const struct acdc_flow_info *);
/* Appends what there is to say about the datapath 'type' and its tenants. */
void acdc_appctl_report(struct report *, const char *type, struct dpif *);
/* The same of one that cannot be asked. */
void acdc_appctl_report_error(struct report *, const char *type, int error);
/* To be called last: the caller must free() the result. */
char *acdc_appctl_report_finish(struct report *);

#endif /* acdc-appctl-private.h */
