/* SPDX-License-Identifier: Apache-2.0 */

/* Captures: files, standard input, interfaces. */

#ifndef SOURCE_H
#define SOURCE_H 1

#include "trace.h"

#include <pcap/pcap.h>
#include <signal.h>

enum { EXIT_ARGUMENTS = 2 };

struct source {
    const char *name;
    enum side side;
    pcap_t *pcap;
    int linktype;
    uint64_t unit;              /* ns of what struct timeval has as tv_usec. */
    struct pcap_pkthdr *header; /* Of the next packet; NULL: none yet. */
    const u_char *data;
    uint64_t time;              /* ns; a clock that was set back goes on. */
    uint64_t set_back;          /* ns, by how much. */
    uint64_t other;             /* Likewise of another clock, or of one packet. */
    bool old;                   /* The packet's time was not believed. */
    bool over, failed;
    volatile sig_atomic_t stopped;
};

/* Opens a file, "-", or with 'live' an interface.  Returns 0, or after a message the exit
 * status. */
int source_open(struct source *, bool live, const char *filter);

/* Reads the next packet.  False if there is none now; see 'over' and, after a
 * message, 'failed'. */
bool source_next(struct source *);

/* Of a file, between 0 and 1; less than 0: not known. */
double source_progress(const struct source *);

/* From a signal handler: no more packets come. */
void source_stop(struct source *);
void source_close(struct source *);

#endif /* source.h */
