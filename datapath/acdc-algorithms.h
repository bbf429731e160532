/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* The algorithms, for ACDC_ALGORITHM(SYMBOL, NAME, PROPERTIES), which who includes
 * this defines.  Each is ACDC_ALG_SYMBOL in enum acdc_algorithm, 'NAME' for users,
 * and 'struct acdc_cc acdc_cc_NAME' in acdc-cc-NAME.c.  PROPERTIES are of
 * acdc-law.h (ACDC_CC_*).  A new one goes to the end, as numbers of algorithms go
 * to the kernel. */

ACDC_ALGORITHM(RENO, reno, ACDC_CC_FALLBACK | ACDC_CC_ABC)
ACDC_ALGORITHM(CUBIC, cubic, ACDC_CC_FALLBACK | ACDC_CC_UNOFFERED)
ACDC_ALGORITHM(DCTCP, dctcp, ACDC_CC_MARKS | ACDC_CC_ABC)
ACDC_ALGORITHM(SWIFT, swift, ACDC_CC_FALLBACK | ACDC_CC_MIN_RTT | ACDC_CC_DELAY)
