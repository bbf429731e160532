/* SPDX-License-Identifier: Apache-2.0 */

/* Tables, JSON lines and CSV. */

#include "trace.h"

#include <arpa/inet.h>
#include <inttypes.h>

enum { ENDPOINT_LEN = INET6_ADDRSTRLEN + 8, MAX_COLUMNS = 32 };

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

/* Of JSON and CSV. */
struct columns {
    unsigned int n;
    struct {
        const char *name, *format;
        struct value value;
    } column[MAX_COLUMNS];
};

static void
put(struct columns *to, const char *name, const char *format,
    struct value value)
{
    to->column[to->n].name = name;
    to->column[to->n].format = format;
    to->column[to->n++].value = value;
}

static void
put_value(struct columns *to, const char *name, struct value value)
{
    put(to, name, "%.10g", value);
}

static void
put_count(struct columns *to, const char *name, uint64_t n)
{
    put(to, name, "%.0f", (struct value) { true, (double) n });
}

static void
put_seconds(struct columns *to, const char *name, double s)
{
    put(to, name, "%.9f", (struct value) { true, s });
}

/* What both kinds of rows end with. */
static void
put_sums(struct columns *to, const struct sums *s, const struct row *row)
{
    put(to, "goodput", "%.0f", (struct value) { true, row->goodput });
    put_value(to, "marked", row->marked);
    put_value(to, "ce", row->ce);
    put_value(to, "alpha", row->alpha);
    put_value(to, "law_window", row->law);
    put_count(to, "segments", s->segments);
    put_count(to, "retransmitted", s->retransmitted);
    put_count(to, "reordered", s->reordered);
    put_count(to, "timeouts", s->timeouts);
    put_count(to, "tail_probes", s->probes);
    put_count(to, "facks", s->facks);
    put_count(to, "sent", s->sent);
    put_count(to, "acked", s->acked);
    put_value(to, "held", row->held);
}

/* What comes before the columns, and they. */
static void
json_row(const struct trace *t, const char *type, const struct conn *c, int end,
         const struct columns *columns)
{
    char from[ENDPOINT_LEN], to[ENDPOINT_LEN];
    FILE *out = t->out;
    unsigned int i;

    fprintf(out, "{\"type\":\"%s\",\"connection\":%" PRIu64 ",\"from\":\"%s\",\"to\":\"%s\"",
            type, c->number, endpoint(c, end, from), endpoint(c, !end, to));
    for (i = 0; i < columns->n; i++) {
        fprintf(out, ",\"%s\":", columns->column[i].name);
        if (columns->column[i].value.known) {
            fprintf(out, columns->column[i].format, columns->column[i].value.v);
        } else {
            fputs("null", out);
        }
    }
}

static void
csv_row(const struct trace *t, const struct conn *c, int end,
        const struct columns *columns)
{
    char from[ENDPOINT_LEN], to[ENDPOINT_LEN];
    FILE *out = t->out;
    unsigned int i;

    fprintf(out, "%" PRIu64 ",%s,%s", c->number, endpoint(c, end, from),
            endpoint(c, !end, to));
    for (i = 0; i < columns->n; i++) {
        putc(',', out);
        if (columns->column[i].value.known) {
            fprintf(out, columns->column[i].format, columns->column[i].value.v);
        }
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
round_columns(const struct trace *t, const struct round *r,
              const struct row *row, uint64_t ns, struct columns *to)
{
    to->n = 0;
    put_seconds(to, "time", seconds(t, r->start));
    put_seconds(to, "duration", (double) ns / 1e9);
    put_value(to, "rtt", row->rtt);
    put_count(to, "flight", r->sums.flight_max);
    put_value(to, "offered", row->offered);
    put_value(to, "told", row->told);
    put_value(to, "in_force", row->in_force);
    put_sums(to, &r->sums, row);
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
    struct columns columns;
    struct row row;

    since.fb_ce -= h->before.fb_ce;
    since.fb_total -= h->before.fb_total;
    since.ce -= h->before.ce;
    since.sent -= h->before.sent;
    r->sums.facks = since.facks - h->before.facks;
    h->before = wire->half[end].total;
    fill_row(c, tap, end, &r->sums, &since, ns, &row);
    announce(t, c);
    if (t->options.format == FORMAT_TABLE) {
        table_round(t, c, end, r, &row);
        return;
    }
    round_columns(t, r, &row, ns, &columns);
    if (t->options.format == FORMAT_JSON) {
        json_row(t, "round", c, end, &columns);
        fputs("}\n", t->out);
    } else {
        csv_row(t, c, end, &columns);
        putc('\n', t->out);
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
connection_columns(const struct trace *t, const struct conn *c,
                   const struct half *h, const struct row *row, uint64_t ns,
                   struct columns *to)
{
    const struct sums *s = &h->total;

    to->n = 0;
    put_seconds(to, "time", seconds(t, h->first_data));
    put_seconds(to, "duration", (double) ns / 1e9);
    put_count(to, "network", c->network);
    put_value(to, "rtt", row->rtt);
    put_value(to, "rtt_min", ratio((double) s->rtt_min / 1000, s->rtt_samples > 0));
    put_value(to, "rtt_max", ratio((double) s->rtt_max / 1000, s->rtt_samples > 0));
    put_count(to, "flight_max", s->flight_max);
    put_sums(to, s, row);
    put_value(to, "held_max", ratio((double) s->held_max / 1000, s->held_samples > 0));
    put_count(to, "delayed_acks", h->delayed_acks);
    put_count(to, "beyond_window", h->beyond);
}

static void
json_direction(const struct trace *t, const struct conn *c,
               const struct half *h, int end, const struct columns *columns)
{
    struct notes notes = { .out = t->out };

    json_row(t, "connection", c, end, columns);
    json_limits(t->out, h);
    fputs(",\"verdict\":[", t->out);
    verdict(t, c, end, json_note, &notes);
    fputs("]}\n", t->out);
}

static void
csv_direction(const struct trace *t, const struct conn *c, int end,
              const struct columns *columns)
{
    struct notes notes = { .out = t->out };

    csv_row(t, c, end, columns);
    putc(',', t->out);
    verdict(t, c, end, csv_note, &notes);
    fprintf(t->out, ",\"%s\"\n", notes.words);
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
        uint64_t ns = h->last_event > h->first_data
                      ? h->last_event - h->first_data : 0;
        struct columns columns;
        struct row row;

        if (!h->first_data) {
            continue;
        }
        fill_row(c, tap, end, &h->total, &wire->half[end].total, ns, &row);
        connection_columns(t, c, h, &row, ns, &columns);
        if (t->options.format == FORMAT_TABLE) {
            table_direction(t, c, tap, end, &row, ns);
        } else if (t->options.format == FORMAT_JSON) {
            json_direction(t, c, h, end, &columns);
        } else if (t->options.summary) {
            csv_direction(t, c, end, &columns);
        }
    }
}

static void
csv_header(const struct trace *t)
{
    static const struct half no_half;
    static const struct conn no_conn;
    static const struct round no_round;
    static const struct row no_row;
    struct columns columns;
    unsigned int i;

    if (t->options.summary) {
        connection_columns(t, &no_conn, &no_half, &no_row, 0, &columns);
    } else {
        round_columns(t, &no_round, &no_row, 0, &columns);
    }
    fputs("connection,from,to", t->out);
    for (i = 0; i < columns.n; i++) {
        fprintf(t->out, ",%s", columns.column[i].name);
    }
    fputs(t->options.summary ? ",cause,verdict\n" : "\n", t->out);
}

void
output_start(struct trace *t)
{
    if (t->options.format == FORMAT_CSV) {
        csv_header(t);
    } else if (t->options.format == FORMAT_TABLE && !t->options.summary) {
        fputs("     time_s conn  rtt_us  flight offered    told   force     law"
              " Mbit/s  mark alpha again rto tlp fack\n", t->out);
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
