/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */

/* acdc_match_parse() on any string: no crash; a message exactly where it says
 * no; a match that can be used where it says yes. */

#include <stdlib.h>
#include <string.h>

#include "acdc-match.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct acdc_match m;
    char error[100];
    bool good;

    if (!text) {
        abort();
    }
    memcpy(text, data, size);
    text[size] = '\0';
    error[0] = '\0';
    good = acdc_match_parse(text, &m, error, sizeof error);
    if (good != !error[0] || !memchr(error, '\0', sizeof error)) {
        abort();
    }
    if (good && (m.remote_port_min > m.remote_port_max
                 || m.local_port_min > m.local_port_max
                 || m.remote_plen > 128)) {
        abort();
    }
    free(text);
    return 0;
}
