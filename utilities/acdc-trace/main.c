/* SPDX-License-Identifier: Apache-2.0 */

#include "source.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SOURCES = 2, PROGRESS_PACKETS = 1 << 16 };

static struct source sources[MAX_SOURCES];
static unsigned int n_sources;
static volatile sig_atomic_t stopped;

static const char usage[] =
    "usage: acdc-trace [OPTION]... CAPTURE\n"
    "       acdc-trace [OPTION]... --guest CAPTURE --wire CAPTURE\n"
    "Says for each TCP connection and round trip of a capture what happened, and for\n"
    "each connection what limits it.  CAPTURE is a file of pcap or pcapng, - for\n"
    "standard input, or with -i a network interface.\n"
    "\n"
    "  -i, --live              CAPTURE is an interface; Ctrl-C ends\n"
    "  -g, --guest CAPTURE     taken at a guest's port of the switch\n"
    "  -w, --wire CAPTURE      taken between the switches; both may be given\n"
    "  -f, --filter EXPR       only packets that pass this filter (pcap-filter(7))\n"
    "  -s, --summary           connections only, no round trips\n"
    "  -j, --json              JSON, an object a line\n"
    "  -c, --csv               CSV: round trips, or with -s connections\n"
    "      --exid N            experiment identifier of AC/DC's options (0xacdc)\n"
    "      --beta F            parameters of the law, as of the tenant (1)\n"
    "      --gain F            (0.0625)\n"
    "      --initial-window N  segments (10)\n"
    "      --max-window N      bytes (no limit)\n"
    "      --scale N           of windows, where a capture lacks the handshake\n"
    "      --idle SECONDS      without packets, after which a connection is over (300)\n"
    "  -h, --help              this text\n"
    "      --version           the version\n"
    "\n"
    "Exit status: 0; 1 if a capture cannot be opened, or read to its end; 2 for wrong\n"
    "arguments.\n";

static void __attribute__((noreturn))
fail_arguments(const char *value, const char *why)
{
    fprintf(stderr, "acdc-trace: %s: %s\nTry acdc-trace --help.\n", value, why);
    exit(EXIT_ARGUMENTS);
}

static unsigned long
number(const char *option, const char *text, unsigned long min,
       unsigned long max)
{
    unsigned long value;
    char *end;

    errno = 0;
    value = strtoul(text, &end, 0);
    if (errno || end == text || *end || *text == '-' || value < min
        || value > max) {
        fprintf(stderr, "acdc-trace: --%s %s: want a number from %lu to %lu\n",
                option, text, min, max);
        exit(EXIT_ARGUMENTS);
    }
    return value;
}

static uint32_t
fraction(const char *option, const char *text)
{
    double value;
    char *end;

    value = strtod(text, &end);
    if (end == text || *end || !(value >= 0 && value <= 1)) {
        fprintf(stderr, "acdc-trace: --%s %s: want a number from 0 to 1\n", option,
                text);
        exit(EXIT_ARGUMENTS);
    }
    return (uint32_t) (value * ACDC_FIX_ONE + .5);
}

static void
add_source(const char *name, enum side side)
{
    if (n_sources == MAX_SOURCES
        || (n_sources && (sources[0].side == side))) {
        fail_arguments(name, "one capture, or one of each side (--guest, --wire)");
    }
    sources[n_sources++] = (struct source) { .name = name, .side = side };
}

enum {
    OPT_VERSION = 256, OPT_EXID, OPT_BETA, OPT_GAIN, OPT_INITIAL_WINDOW, OPT_MAX_WINDOW,
    OPT_SCALE, OPT_IDLE
};

static const struct option long_options[] = {
    { "live", no_argument, NULL, 'i' },
    { "guest", required_argument, NULL, 'g' },
    { "wire", required_argument, NULL, 'w' },
    { "filter", required_argument, NULL, 'f' },
    { "summary", no_argument, NULL, 's' },
    { "json", no_argument, NULL, 'j' },
    { "csv", no_argument, NULL, 'c' },
    { "exid", required_argument, NULL, OPT_EXID },
    { "beta", required_argument, NULL, OPT_BETA },
    { "gain", required_argument, NULL, OPT_GAIN },
    { "initial-window", required_argument, NULL, OPT_INITIAL_WINDOW },
    { "max-window", required_argument, NULL, OPT_MAX_WINDOW },
    { "scale", required_argument, NULL, OPT_SCALE },
    { "idle", required_argument, NULL, OPT_IDLE },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, OPT_VERSION },
    { NULL, 0, NULL, 0 },
};

/* Options with a number. */
static void
number_option(struct options *o, int option)
{
    switch (option) {
    case OPT_EXID:
        o->exid = (uint16_t) number("exid", optarg, 0, 0xffff);
        break;
    case OPT_BETA:
        o->params.beta = fraction("beta", optarg);
        break;
    case OPT_GAIN:
        o->params.gain = fraction("gain", optarg);
        break;
    case OPT_INITIAL_WINDOW:
        o->params.initial_window = (uint32_t) number("initial-window", optarg, 1,
                                                     65535);
        break;
    case OPT_MAX_WINDOW:
        o->params.max_window = (uint32_t) number("max-window", optarg, 0,
                                                 1073725440);
        break;
    case OPT_SCALE:
        o->scale = (int) number("scale", optarg, 0, ACDC_WSCALE_MAX);
        break;
    default:
        o->idle = number("idle", optarg, 1, 1000000) * NS_PER_S;
        break;
    }
}

static void
parse_options(struct options *o, int argc, char *argv[], bool *live,
              const char **filter)
{
    int option;

    while ((option = getopt_long(argc, argv, "ig:w:f:sjch", long_options,
                                 NULL)) != -1) {
        switch (option) {
        case 'i': *live = true; break;
        case 'g': add_source(optarg, SIDE_FIRST); break;
        case 'w': add_source(optarg, SIDE_WIRE); break;
        case 'f': *filter = optarg; break;
        case 's': o->summary = true; break;
        case 'j': o->format = FORMAT_JSON; break;
        case 'c': o->format = FORMAT_CSV; break;
        case 'h': fputs(usage, stdout); exit(fflush(stdout) != 0);
        case OPT_VERSION: puts("acdc-trace " ACDC_VERSION); exit(fflush(stdout) != 0);
        case '?': fputs("Try acdc-trace --help.\n", stderr); exit(EXIT_ARGUMENTS);
        default: number_option(o, option); break;
        }
    }
    for (; optind < argc; optind++) {
        if (n_sources) {
            fail_arguments(argv[optind],
                           "only one capture, or --guest and --wire");
        }
        add_source(argv[optind], SIDE_FIRST);
    }
    if (!n_sources) {
        fail_arguments("arguments", "no capture is named");
    }
    if (*live && n_sources > 1) {
        fail_arguments("-i", "only of one interface; captures of two must be files");
    }
    o->two = n_sources > 1;
}

static void
stop(int number_)
{
    (void) number_;
    stopped = 1;
    for (unsigned int i = 0; i < n_sources; i++) {
        if (sources[i].pcap) {
            source_stop(&sources[i]);
        }
    }
}

/* Only where it disturbs nothing. */
static void
show_progress(uint64_t packets, bool wanted)
{
    double done = 1;

    if (!wanted || packets % PROGRESS_PACKETS) {
        return;
    }
    for (unsigned int i = 0; i < n_sources; i++) {
        double one = source_progress(&sources[i]);

        done = one < done ? one : done;
    }
    if (done >= 0) {
        fprintf(stderr, "\racdc-trace: %3.0f %%, %llu packets", 100 * done,
                (unsigned long long) packets);
    }
}

static void
take(struct trace *t, const struct source *source)
{
    const struct pcap_pkthdr *header = source->header;
    uint32_t len = header->len > header->caplen ? header->len : header->caplen;
    struct segment s;

    if (!t->start) {
        t->start = source->time;
    }
    if (source->time > t->now) {
        t->now = source->time;
    }
    if (frame_read(source->data, header->caplen, len, source->linktype,
                   t->options.exid, &s, &t->frames)) {
        s.time = source->time;
        s.side = source->side;
        if (t->options.two) {
            s.network = 0;      /* Tags are of one of them. */
        }
        table_segment(t, &s);
    }
    table_expire(t, t->now);
}

/* The capture whose next packet is the earliest; NULL: none has one. */
static struct source *
earliest(void)
{
    struct source *first = NULL;

    for (unsigned int i = 0; i < n_sources; i++) {
        struct source *s = &sources[i];

        if (!s->over && !s->header) {
            source_next(s);
        }
        if (s->header && (!first || s->time < first->time)) {
            first = s;
        }
    }
    return first;
}

static void
run(struct trace *t, bool live)
{
    bool progress = !live && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
    uint64_t packets = 0;

    while (!stopped && !t->failed && !ferror(t->out)) {
        struct source *s = earliest();

        if (s) {
            take(t, s);
            s->header = NULL;
            show_progress(++packets, progress);
            continue;
        }
        if (sources[0].over && (n_sources < 2 || sources[1].over)) {
            break;
        }
        /* An interface on which nothing comes. */
        table_expire(t, (uint64_t) time(NULL) * NS_PER_S);
        fflush(t->out);
    }
    if (progress && packets >= PROGRESS_PACKETS) {
        fputs("\r\033[K", stderr);
    }
}

static int
finish(struct trace *t, bool live)
{
    struct pcap_stat stat;
    int status = 0;

    table_end(t);
    output_end(t);
    if (fflush(t->out) || ferror(t->out)) {
        perror("acdc-trace: writing");
        status = 1;
    }
    if (t->failed) {
        fputs("acdc-trace: no memory\n", stderr);
        status = 1;
    }
    if (live && !pcap_stats(sources[0].pcap, &stat) && stat.ps_drop) {
        fprintf(stderr, "acdc-trace: %s: %u packets were missed\n", sources[0].name,
                stat.ps_drop);
    }
    if (t->frames.cut) {
        fprintf(stderr, "acdc-trace: %llu packets do not have all of their headers: the "
                "snap length was too small\n", (unsigned long long) t->frames.cut);
    }
    if (!t->frames.tcp && !t->frames.cut) {
        fprintf(stderr, "acdc-trace: no TCP in %llu packets\n",
                (unsigned long long) (t->frames.other + t->frames.malformed));
    }
    for (unsigned int i = 0; i < n_sources; i++) {
        status = sources[i].failed ? 1 : status;
        source_close(&sources[i]);
    }
    return status;
}

int
main(int argc, char *argv[])
{
    struct trace t = {
        .options = {
            .exid = ACDC_OPT_EXID,
            .scale = -1,
            .max_connections = 1000000,
            .idle = 300 * NS_PER_S,
            .params = {
#define ACDC_PARAM(NR, SYMBOL, NAME, KIND, MIN, MAX, DEFAULT, ...) \
                .NAME = DEFAULT,
#include "acdc-params.h"
            },
        },
        .out = stdout,
    };
    const char *filter = NULL;
    bool live = false;

    parse_options(&t.options, argc, argv, &live, &filter);
    for (unsigned int i = 0; i < n_sources; i++) {
        int status = source_open(&sources[i], live, filter);

        if (status) {
            return status;
        }
    }
    if (!table_init(&t)) {
        fputs("acdc-trace: no memory\n", stderr);
        return 1;
    }
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    output_start(&t);
    run(&t, live);
    return finish(&t, live);
}
