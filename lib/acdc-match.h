/* SPDX-License-Identifier: Apache-2.0 */

/* The language of ACDC_Rule's match column. */

#ifndef ACDC_MATCH_H
#define ACDC_MATCH_H 1

#include "acdc.h"

/* Parses "remote=10.0.0.0/8,remote_port=5432,local_port=8000-8010" (all parts
 * optional, each once, order free) into '*m'.  Returns true, or false with a
 * message in 'error' ('error_size' bytes) that names the bad part and what is
 * allowed.  Pure function. */
bool acdc_match_parse(const char *s, struct acdc_match *m,
                      char *error, size_t error_size);

#endif /* acdc-match.h */
