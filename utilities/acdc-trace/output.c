/* SPDX-License-Identifier: Apache-2.0 */

/* Tables, JSON lines and CSV. */

#include "trace.h"

#include <arpa/inet.h>
#include <inttypes.h>

#define CSV_ROUND \
    "connection,from,to,time,duration,rtt,flight,offered,told,in_force,law_window," \
    "goodput,marked,ce,alpha,segments,retransmitted,reordered,timeouts,tail_probes," \
    "facks,sent,acked,held\n"
#define CSV_CONNECTION \
    "connection,from,to,time,duration,acked,sent,segments,rtt_min,rtt_mean,rtt_max," \
    "flight_max,marked,ce,alpha,retransmitted,reordered,timeouts,tail_probes,facks," \
    "delayed_acks,beyond_window,cause,verdict\n"
enum { ENDPOINT_LEN = INET6_ADDRSTRLEN + 8 };

/* A number that may be unknown. */
struct value {
    bool known;
    double v;
};

static struct value
bytes(uint32_t n)
{
    return (struct value) { n != UNKNOWN, n };
}

static struct value
ratio(double part, double whole)
{
    return (struct value) { whole > 0, whole > 0 ? part / whole : 0 };
}

static double
seconds(const struct trace *t, uint64_t time)
{
    return time > t->start ? (double) (time - t->start) / (double) NS_PER_S : 0;
}

static char *
endpoint(const struct conn *c, int end, char *text)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    bool v4 = !memcmp(c->addr[end], mapped, sizeof mapped);
    char address[INET6_ADDRSTRLEN];

    if (!inet_ntop(v4 ? AF_INET : AF_INET6, c->addr[end] + (v4 ? 12 : 0),
                   address, sizeof address)) {
        address[0] = '\0';
    }
    snprintf(text, ENDPOINT_LEN, v4 ? "%s:%u" : "[%s]:%u", address, c->port[end]);
    return text;
}

/* What both kinds of rows say of the windows and the law. */
struct row {
    struct value rtt, held, offered, told, in_force, law, marked, ce, alpha;
    double goodput;             /* bit/s */
};

static void
fill_row(const struct conn *c, const struct tap *tap, int end,
         const struct sums *s, const struct sums *wire, uint64_t ns,
         struct row *row)
{
    const struct half *h = &tap->half[end];
    const struct replay *r = conn_replay(c, end);

    row->rtt = ratio((double) s->rtt_ns / 1000, s->rtt_samples);
    row->held = ratio((double) s->held_ns / 1000, s->held_samples);
    row->offered = bytes(conn_offered(c, end));
    row->told = bytes(conn_told(c, end));
    row->in_force.known = h->edge_valid;
    row->in_force.v = h->edge_valid && seq_after(h->edge, h->snd_una)
                      ? h->edge - h->snd_una : 0;
    row->law = (struct value) { r, r ? r->law.wnd : 0 };
    if (r && tap->acdc && row->law.v < row->in_force.v) {
        row->in_force.v = row->law.v;
    }
    row->marked = ratio((double) wire->fb_ce, (double) wire->fb_total);
    row->ce = ratio((double) wire->ce, (double) wire->sent);
    row->alpha = (struct value) {
        r, r ? (double) acdc_law_alpha(&r->law) / ACDC_FIX_ONE : 0
    };
    row->goodput = ns ? 8.0 * (double) s->acked / (double) ns * 1e9 : 0;
}

static void
table_value(FILE *out, struct value value, const char *format, int width)
{
    if (value.known) {
        fprintf(out, format, width, value.v);
    } else {
        fprintf(out, " %*s", width, "-");
    }
}

static void
json_value(FILE *out, const char *name, struct value value)
{
    if (value.known) {
        fprintf(out, ",\"%s\":%.10g", name, value.v);
    } else {
        fprintf(out, ",\"%s\":null", name);
    }
}

static void
csv_value(FILE *out, struct value value)
{
    if (value.known) {
        fprintf(out, ",%.10g", value.v);
    } else {
        putc(',', out);
    }
}

/* Rounds. ------------------------------------------------------------------- */

static void
table_round(const struct trace *t, const struct conn *c, int end,
            const struct round *r, const struct row *row)
{
    FILE *out = t->out;

    fprintf(out, "%11.6f %4" PRIu64 "%c", seconds(t, r->start), c->number,
            end == (c->client < 0 ? 0 : c->client) ? '>' : '<');
    table_value(out, row->rtt, " %*.0f", 6);
    fprintf(out, " %7" PRIu32, r->sums.flight_max);
    table_value(out, row->offered, " %*.0f", 7);
    table_value(out, row->told, " %*.0f", 7);
    table_value(out, row->in_force, " %*.0f", 7);
    table_value(out, row->law, " %*.0f", 7);
    fprintf(out, " %6.1f", row->goodput / 1e6);
    table_value(out, row->marked, " %*.3f", 5);
    table_value(out, row->alpha, " %*.3f", 5);
    fprintf(out, " %5" PRIu32 " %3" PRIu32 " %3" PRIu32 " %4" PRIu32 "\n",
            r->sums.retransmitted, r->sums.timeouts, r->sums.probes,
            r->sums.facks);
}

static void
json_sums(FILE *out, const struct sums *s)
{
    fprintf(out, ",\"sent\":%" PRIu64 ",\"acked\":%" PRIu64 ",\"segments\":%" PRIu32
            ",\"retransmitted\":%" PRIu32 ",\"reordered\":%" PRIu32
            ",\"timeouts\":%" PRIu32 ",\"tail_probes\":%" PRIu32
            ",\"facks\":%" PRIu32,
            s->sent, s->acked, s->segments, s->retransmitted, s->reordered,
            s->timeouts, s->probes, s->facks);
}

static void
json_ends(FILE *out, const struct conn *c, int end)
{
    char from[ENDPOINT_LEN], to[ENDPOINT_LEN];

    fprintf(out, "\"connection\":%" PRIu64 ",\"from\":\"%s\",\"to\":\"%s\"", c->number,
            endpoint(c, end, from), endpoint(c, !end, to));
}

static void
json_round(const struct trace *t, const struct conn *c, int end,
           const struct round *r, const struct row *row, uint64_t ns)
{
    FILE *out = t->out;

    fputs("{\"type\":\"round\",", out);
    json_ends(out, c, end);
    fprintf(out, ",\"time\":%.9f,\"duration\":%.9f", seconds(t, r->start),
            (double) ns / 1e9);
    json_value(out, "rtt", row->rtt);
    fprintf(out, ",\"flight\":%" PRIu32, r->sums.flight_max);
    json_value(out, "offered", row->offered);
    json_value(out, "told", row->told);
    json_value(out, "in_force", row->in_force);
    json_value(out, "law_window", row->law);
    fprintf(out, ",\"goodput\":%.0f", row->goodput);
    json_value(out, "marked", row->marked);
    json_value(out, "ce", row->ce);
    json_value(out, "alpha", row->alpha);
    json_sums(out, &r->sums);
    json_value(out, "held", row->held);
    fputs("}\n", out);
}

static void
csv_round(const struct trace *t, const struct conn *c, int end,
          const struct round *r, const struct row *row, uint64_t ns)
{
    char from[ENDPOINT_LEN], to[ENDPOINT_LEN];
    const struct sums *s = &r->sums;
    FILE *out = t->out;

    fprintf(out, "%" PRIu64 ",%s,%s,%.9f,%.9f", c->number, endpoint(c, end, from),
            endpoint(c, !end, to), seconds(t, r->start), (double) ns / 1e9);
    csv_value(out, row->rtt);
    fprintf(out, ",%" PRIu32, s->flight_max);
    csv_value(out, row->offered);
    csv_value(out, row->told);
    csv_value(out, row->in_force);
    csv_value(out, row->law);
    fprintf(out, ",%.0f", row->goodput);
    csv_value(out, row->marked);
    csv_value(out, row->ce);
    csv_value(out, row->alpha);
    fprintf(out, ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32
            ",%" PRIu32 ",%" PRIu64 ",%" PRIu64,
            s->segments, s->retransmitted, s->reordered, s->timeouts, s->probes,
            s->facks, s->sent, s->acked);
    csv_value(out, row->held);
    putc('\n', out);
}

void
output_start(struct trace *t)
{
    switch (t->options.format) {
    case FORMAT_CSV:
        fputs(t->options.summary ? CSV_CONNECTION : CSV_ROUND, t->out);
        break;
    case FORMAT_TABLE:
        if (!t->options.summary) {
            fputs("     time_s conn  rtt_us  flight offered    told   force     law"
                  " Mbit/s  mark alpha again rto tlp fack\n", t->out);
        }
        break;
    case FORMAT_JSON:
        break;
    }
}

/* Says which connection a number is, before its first row. */
static void
announce(struct trace *t, struct conn *c)
{
    char from[ENDPOINT_LEN], to[ENDPOINT_LEN];
    int client = c->client < 0 ? 0 : c->client;

    if (t->options.format == FORMAT_TABLE && !c->announced) {
        fprintf(t->out, "# %" PRIu64 ": %s > %s\n", c->number,
                endpoint(c, client, from), endpoint(c, !client, to));
    }
    c->announced = true;
}

void
output_round(struct trace *t, struct conn *c, struct tap *tap, int end)
{
    struct half *h = &tap->half[end];
    const struct tap *wire = c->tap[SIDE_WIRE] ? c->tap[SIDE_WIRE] : tap;
    struct round *r = &h->round;
    uint64_t ns = h->last_event > r->start ? h->last_event - r->start : 0;
    struct sums since = wire->half[end].total;
    struct row row;

    since.fb_ce -= h->before.fb_ce;
    since.fb_total -= h->before.fb_total;
    since.ce -= h->before.ce;
    since.sent -= h->before.sent;
    r->sums.facks = since.facks - h->before.facks;
    h->before = wire->half[end].total;
    fill_row(c, tap, end, &r->sums, &since, ns, &row);
    announce(t, c);
    switch (t->options.format) {
    case FORMAT_TABLE:
        table_round(t, c, end, r, &row);
        break;
    case FORMAT_JSON:
        json_round(t, c, end, r, &row, ns);
        break;
    case FORMAT_CSV:
        csv_round(t, c, end, r, &row, ns);
        break;
    }
}

/* Connections. -------------------------------------------------------------- */

struct notes {
    FILE *out;
    unsigned int n;
    char cause[32], words[300];         /* The first. */
};

static void
json_note(void *notes_, const char *cause, const char *words)
{
    struct notes *notes = notes_;

    fprintf(notes->out, "%s{\"cause\":\"%s\",\"words\":\"%s\"}", notes->n++ ? "," : "",
            cause, words);
}

static void
table_note(void *notes_, const char *cause, const char *words)
{
    struct notes *notes = notes_;

    (void) cause;
    fprintf(notes->out, "    %s\n", words);
    notes->n++;
}

/* In CSV: the causes with blanks between them, and the words of the first. */
static void
csv_note(void *notes_, const char *cause, const char *words)
{
    struct notes *notes = notes_;

    fprintf(notes->out, "%s%s", notes->n ? " " : "", cause);
    if (!notes->n++) {
        snprintf(notes->words, sizeof notes->words, "%s", words);
    }
}

static void
json_limits(FILE *out, const struct half *h)
{
    const char *comma = "";
    int i;

    fputs(",\"limits\":{", out);
    for (i = LIMIT_NONE + 1; i < N_LIMITS; i++) {
        fprintf(out, "%s\"%s\":%.9f", comma, limit_names[i],
                (double) h->limits[i] / 1e9);
        comma = ",";
    }
    putc('}', out);
}

static void
json_direction(const struct trace *t, const struct conn *c,
               const struct tap *tap, int end, const struct row *row,
               uint64_t ns)
{
    const struct half *h = &tap->half[end];
    const struct sums *s = &h->total;
    struct notes notes = { .out = t->out };
    FILE *out = t->out;

    fputs("{\"type\":\"connection\",", out);
    json_ends(out, c, end);
    fprintf(out, ",\"time\":%.9f,\"duration\":%.9f,\"network\":%" PRIu32,
            seconds(t, h->first_data), (double) ns / 1e9, c->network);
    json_value(out, "rtt", row->rtt);
    json_value(out, "rtt_min", ratio((double) s->rtt_min / 1000, s->rtt_samples > 0));
    json_value(out, "rtt_max", ratio((double) s->rtt_max / 1000, s->rtt_samples > 0));
    fprintf(out, ",\"flight_max\":%" PRIu32 ",\"goodput\":%.0f", s->flight_max,
            row->goodput);
    json_value(out, "marked", row->marked);
    json_value(out, "ce", row->ce);
    json_value(out, "alpha", row->alpha);
    json_value(out, "law_window", row->law);
    json_sums(out, s);
    json_value(out, "held", row->held);
    json_value(out, "held_max", ratio((double) s->held_max / 1000, s->held_samples > 0));
    fprintf(out, ",\"delayed_acks\":%" PRIu32 ",\"beyond_window\":%" PRIu64,
            h->delayed_acks, h->beyond);
    json_limits(out, h);
    fputs(",\"verdict\":[", out);
    verdict(t, c, end, json_note, &notes);
    fputs("]}\n", out);
}

static void
csv_direction(const struct trace *t, const struct conn *c,
              const struct tap *tap, int end, const struct row *row,
              uint64_t ns)
{
    const struct half *h = &tap->half[end];
    const struct sums *s = &h->total;
    struct notes notes = { .out = t->out };
    char from[ENDPOINT_LEN], to[ENDPOINT_LEN];
    FILE *out = t->out;

    fprintf(out, "%" PRIu64 ",%s,%s,%.9f,%.9f,%" PRIu64 ",%" PRIu64 ",%" PRIu32,
            c->number, endpoint(c, end, from), endpoint(c, !end, to),
            seconds(t, h->first_data), (double) ns / 1e9, s->acked, s->sent,
            s->segments);
    csv_value(out, ratio((double) s->rtt_min / 1000, s->rtt_samples > 0));
    csv_value(out, row->rtt);
    csv_value(out, ratio((double) s->rtt_max / 1000, s->rtt_samples > 0));
    fprintf(out, ",%" PRIu32, s->flight_max);
    csv_value(out, row->marked);
    csv_value(out, row->ce);
    csv_value(out, row->alpha);
    fprintf(out, ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32
            ",%" PRIu32 ",%" PRIu64 ",",
            s->retransmitted, s->reordered, s->timeouts, s->probes, s->facks,
            h->delayed_acks, h->beyond);
    verdict(t, c, end, csv_note, &notes);
    fprintf(out, ",\"%s\"\n", notes.words);
}

static void
table_direction(const struct trace *t, const struct conn *c,
                const struct tap *tap, int end, const struct row *row,
                uint64_t ns)
{
    const struct sums *s = &tap->half[end].total;
    struct notes notes = { .out = t->out };
    char from[ENDPOINT_LEN], to[ENDPOINT_LEN];
    FILE *out = t->out;

    fprintf(out, "# %" PRIu64 ": %s > %s: %" PRIu64 " bytes in %.3f s, %.1f Mbit/s",
            c->number, endpoint(c, end, from), endpoint(c, !end, to), s->acked,
            (double) ns / 1e9, row->goodput / 1e6);
    if (s->rtt_samples) {
        fprintf(out, "; RTT %.0f/%.0f/%.0f us", (double) s->rtt_min / 1000,
                row->rtt.v, (double) s->rtt_max / 1000);
    }
    if (row->marked.known) {
        fprintf(out, "; %.1f%% marked, alpha %.3f", 100 * row->marked.v,
                row->alpha.v);
    }
    putc('\n', out);
    verdict(t, c, end, table_note, &notes);
}

void
output_connection(struct trace *t, struct conn *c)
{
    struct tap *tap = conn_main_tap(c);
    int i;

    for (i = 0; tap && i < 2; i++) {
        int end = i ^ (c->client == 1);
        const struct half *h = &tap->half[end];
        const struct tap *wire = c->tap[SIDE_WIRE] ? c->tap[SIDE_WIRE] : tap;
        uint64_t ns = h->last_event - h->first_data;
        struct row row;

        if (!h->first_data) {
            continue;
        }
        fill_row(c, tap, end, &h->total, &wire->half[end].total, ns, &row);
        switch (t->options.format) {
        case FORMAT_TABLE:
            table_direction(t, c, tap, end, &row, ns);
            break;
        case FORMAT_JSON:
            json_direction(t, c, tap, end, &row, ns);
            break;
        case FORMAT_CSV:
            if (t->options.summary) {
                csv_direction(t, c, tap, end, &row, ns);
            }
            break;
        }
    }
}

void
output_end(struct trace *t)
{
    const struct frame_counts *f = &t->frames;

    if (t->options.format == FORMAT_JSON) {
        fprintf(t->out, "{\"type\":\"capture\",\"start\":%.9f,\"duration\":%.9f,"
                "\"connections\":%" PRIu64 ",\"tcp\":%" PRIu64 ",\"other\":%" PRIu64
                ",\"cut\":%" PRIu64 ",\"malformed\":%" PRIu64 "}\n",
                (double) t->start / 1e9, seconds(t, t->now), t->n_connections,
                f->tcp, f->other, f->cut, f->malformed);
    }
}
