/* SPDX-License-Identifier: Apache-2.0 */

/* The parameters of a policy (datapath/acdc-params.h) in Open vSwitch: read
 * from a row of the database, compared, shown. */

#ifndef ACDC_OVS_PARAMS_H
#define ACDC_OVS_PARAMS_H 1

#include "acdc.h"

struct ds;
struct json;
struct ovsrec_acdc;
struct ovsrec_acdc_rule;
struct smap;

bool acdc_params_equal(const struct acdc_params *, const struct acdc_params *);

/* Override '*params' by what is set in the row.  Append to 'errors' what is
 * wrong, each with "; " at its end. */
void acdc_params_parse_tenant(const struct ovsrec_acdc *,
                              struct acdc_params *, struct ds *errors);
void acdc_params_parse_rule(const struct ovsrec_acdc_rule *,
                            struct acdc_params *, struct ds *errors);

/* Appends to 'warnings' the keys of 'other_config', of a row of our own
 * tables, that are neither a parameter nor 'another' (may be NULL). */
void acdc_params_check_keys(const struct smap *other_config,
                            const char *another, struct ds *warnings);

/* Of the engine's fixed point. */
double acdc_fraction(uint64_t fixed);

/* Appends a line of text. */
void acdc_params_format(const struct acdc_params *, struct ds *);
/* The caller must destroy the result. */
struct json *acdc_params_to_json(const struct acdc_params *);

#endif /* acdc-ovs-params.h */
