/* SPDX-License-Identifier: Apache-2.0 */

#include "source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LIVE_SNAPLEN = 256,         /* Headers inside of a tunnel's, and options. */
    LIVE_TIMEOUT_MS = 100,
    LIVE_BUFFER = 16 << 20,
};

/* So long a clock that was set back may rest before its second packet. */
#define PAUSE (60 * NS_PER_S)

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

int
source_open(struct source *s, bool live, const char *filter)
{
    struct bpf_program program;

    if (!(live ? open_live(s) : open_file(s))) {
        source_close(s);
        return 1;
    }
    s->unit = pcap_get_tstamp_precision(s->pcap) == PCAP_TSTAMP_PRECISION_NANO
              ? 1 : 1000;
    s->linktype = pcap_datalink(s->pcap);
    if (!frame_knows(s->linktype)) {
        const char *name = pcap_datalink_val_to_name(s->linktype);

        fprintf(stderr, "acdc-trace: %s: link type %s (%d) is not known\n",
                s->name, name ? name : "?", s->linktype);
        source_close(s);
        return 1;
    }
    if (s->linktype == DLT_LINUX_SLL || s->linktype == DLT_LINUX_SLL2) {
        complain(s, "a capture of all interfaces (-i any) may have a packet several times, "
                 "which looks like loss");
    }
    if (!filter) {
        return 0;
    }
    if (pcap_compile(s->pcap, &program, filter, 1, PCAP_NETMASK_UNKNOWN)
        || pcap_setfilter(s->pcap, &program)) {
        fprintf(stderr, "acdc-trace: filter '%s': %s\n", filter,
                pcap_geterr(s->pcap));
        source_close(s);
        return EXIT_ARGUMENTS;
    }
    pcap_freecode(&program);
    return 0;
}

/* When a packet came that has the time 'raw'.  If that is more than a second before the
 * last one, the clock was set back, or the packet is of an interface with a clock of
 * its own, or it is a stray.  So it came when the last one did, and another clock is
 * believed from its second packet on.  Of two clocks each packet is of the one that
 * fits, after a pause of the earlier one. */
static uint64_t
time_of(struct source *s, uint64_t raw)
{
    uint64_t least = s->time > NS_PER_S ? s->time - NS_PER_S : 0;
    uint64_t most = s->time + NS_PER_S;
    uint64_t time = raw + s->set_back, other = raw + s->other;
    bool was_old = s->old;

    s->old = time < least;
    if (time >= least && time <= most) {
        return time;
    }
    if (!s->old) {
        most = time;
    } else if (was_old) {
        most = s->time + PAUSE;
    }
    if (other >= least && other <= most) {
        uint64_t set_back = s->other;

        s->other = s->set_back;
        s->set_back = set_back;
        s->old = false;
        return other;
    }
    if (s->old) {
        s->other = s->set_back + (s->time - time);
        return s->time;
    }
    return time;
}

bool
source_next(struct source *s)
{
    int status = pcap_next_ex(s->pcap, &s->header, &s->data);

    if (status == 1) {
        uint64_t raw = (uint64_t) s->header->ts.tv_sec * NS_PER_S
                       + (uint64_t) s->header->ts.tv_usec * s->unit;

        s->time = time_of(s, raw ? raw : 1);    /* 0 is no time yet. */
        return true;
    }
    s->header = NULL;
    if (status == PCAP_ERROR && !s->stopped) {
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

/* What waits for a pipe finds that it has ended. */
void
source_stop(struct source *s)
{
    FILE *file = pcap_file(s->pcap);
    int null = file ? open("/dev/null", O_RDONLY) : -1;

    s->stopped = 1;
    pcap_breakloop(s->pcap);
    if (null >= 0) {
        dup2(null, fileno(file));
        close(null);
    }
}

void
source_close(struct source *s)
{
    if (s->pcap) {
        pcap_close(s->pcap);
        s->pcap = NULL;
    }
}
