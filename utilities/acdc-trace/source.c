/* SPDX-License-Identifier: Apache-2.0 */

#include "source.h"

#include <sys/stat.h>

enum {
    LIVE_SNAPLEN = 256,         /* Headers inside of a tunnel's, and options. */
    LIVE_TIMEOUT_MS = 100,
    LIVE_BUFFER = 16 << 20,
};

static void
complain(const struct source *s, const char *what)
{
    fprintf(stderr, "acdc-trace: %s: %s\n", s->name, what);
}

static bool
open_live(struct source *s)
{
    char error[PCAP_ERRBUF_SIZE] = "";
    int status;

    s->pcap = pcap_create(s->name, error);
    if (!s->pcap) {
        complain(s, error);
        return false;
    }
    pcap_set_snaplen(s->pcap, LIVE_SNAPLEN);
    pcap_set_promisc(s->pcap, 1);
    pcap_set_timeout(s->pcap, LIVE_TIMEOUT_MS);
    pcap_set_buffer_size(s->pcap, LIVE_BUFFER);
    pcap_set_tstamp_precision(s->pcap, PCAP_TSTAMP_PRECISION_NANO);
    status = pcap_activate(s->pcap);
    if (status < 0) {
        const char *why = pcap_geterr(s->pcap);

        complain(s, *why ? why : pcap_statustostr(status));
        return false;
    }
    return true;
}

static bool
open_file(struct source *s)
{
    char error[PCAP_ERRBUF_SIZE] = "";
    bool is_stdin = !strcmp(s->name, "-");
    size_t len = strlen(s->name);

    s->pcap = pcap_open_offline_with_tstamp_precision(
        s->name, PCAP_TSTAMP_PRECISION_NANO, error);
    if (is_stdin) {
        s->name = "standard input";
    }
    if (!s->pcap) {
        /* Some of libpcap's messages begin with the name. */
        complain(s, strncmp(error, s->name, len) || error[len] != ':'
                    ? error : error + len + 2);
        return false;
    }
    return true;
}

bool
source_open(struct source *s, bool live, const char *filter)
{
    struct bpf_program program;

    if (!(live ? open_live(s) : open_file(s))) {
        source_close(s);
        return false;
    }
    s->unit = pcap_get_tstamp_precision(s->pcap) == PCAP_TSTAMP_PRECISION_NANO
              ? 1 : 1000;
    s->linktype = pcap_datalink(s->pcap);
    if (!frame_knows(s->linktype)) {
        const char *name = pcap_datalink_val_to_name(s->linktype);

        fprintf(stderr, "acdc-trace: %s: link type %s (%d) is not known\n",
                s->name, name ? name : "?", s->linktype);
        source_close(s);
        return false;
    }
    if (!filter) {
        return true;
    }
    if (pcap_compile(s->pcap, &program, filter, 1, PCAP_NETMASK_UNKNOWN)
        || pcap_setfilter(s->pcap, &program)) {
        fprintf(stderr, "acdc-trace: filter '%s': %s\n", filter,
                pcap_geterr(s->pcap));
        source_close(s);
        return false;
    }
    pcap_freecode(&program);
    return true;
}

bool
source_next(struct source *s)
{
    int status = pcap_next_ex(s->pcap, &s->header, &s->data);

    if (status == 1) {
        uint64_t before = s->time;

        s->time = (uint64_t) s->header->ts.tv_sec * NS_PER_S
                  + (uint64_t) s->header->ts.tv_usec * s->unit + s->set_back;
        if (s->time + NS_PER_S < before) {
            s->set_back += before - s->time;
            s->time = before;
        }
        return true;
    }
    s->header = NULL;
    if (status == PCAP_ERROR) {
        complain(s, pcap_geterr(s->pcap));
        s->failed = true;
    }
    s->over = status != 0;
    return false;
}

double
source_progress(const struct source *s)
{
    FILE *file = pcap_file(s->pcap);
    struct stat st;
    long at;

    if (!file || fstat(fileno(file), &st) || !S_ISREG(st.st_mode)
        || !st.st_size) {
        return -1;
    }
    at = ftell(file);
    return at < 0 ? -1 : (double) at / (double) st.st_size;
}

void
source_close(struct source *s)
{
    if (s->pcap) {
        pcap_close(s->pcap);
        s->pcap = NULL;
    }
}
