/* SPDX-License-Identifier: Apache-2.0 */

/* A conversation goes on as far as it can; whether it went as TCP promises. */

#include "converse.h"

#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *const kinds[N_KINDS] = {
    "graceful", "reset", "unread", "refused", "abandoned",
};

static uint8_t buffer[BULK_CHUNK];

static void finish(struct end *e, const char *ending)
{
    if (!e->ending) {
        e->ending = ending;
    }
    e->done = true;
    if (e->fd >= 0) {
        close(e->fd);
        e->fd = -1;
    }
    if (e->c->end[0].done && e->c->end[1].done) {
        over[n_over++] = e->c;
    }
}

static void abort_end(struct end *e, bool linger)
{
    static const struct linger none = { .l_onoff = 1 };

    if (linger) {
        setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    }
    finish(e, "aborted");
}

/* Waits as the script says at 'at'; true: not now. */
static bool stopped(struct end *e, uint32_t at, const uint32_t stop_at[STOPS],
                    const uint32_t ms[STOPS], int *next, uint64_t *from)
{
    while (*next < STOPS && stop_at[*next] <= at) {
        *from = now + ms[*next] * MS;
        ++*next;
        timer_add(*from, e);
    }
    if (!*from) {
        return false;
    }
    if (now < *from) {
        return true;
    }
    *from = 0;
    return false;
}

/* Until where it goes without a stop. */
static uint32_t stretch(uint32_t at, uint32_t most, const uint32_t stop_at[STOPS],
                        int next)
{
    return next < STOPS && stop_at[next] - at < most ? stop_at[next] - at : most;
}

/* For whoever looks for the cause. */
static void tell_damage(const struct end *e, const uint8_t *expected, size_t n)
{
    size_t first = 0, last = n - 1;

    while (buffer[first] == expected[first]) {
        first++;
    }
    while (buffer[last] == expected[last]) {
        last--;
    }
    fprintf(stderr, "damaged: %" PRIu64 " end %d bytes %zu to %zu\n",
            e->c->number, e != e->c->end, e->received + first,
            e->received + last);
}

static void read_some(struct end *e)
{
    struct end *peer = &e->c->end[!(e - e->c->end)];

    while (!e->done && !e->ending) {
        uint32_t want = e->read_chunk;
        const uint8_t *expected;
        ssize_t n;

        if (e->received >= e->quit_at) {
            int waiting = 0;

            if (!peer->connected) {
                return;
            }
            if (e->c->kind == RESET) {
                abort_end(e, true);
            } else if (!ioctl(e->fd, FIONREAD, &waiting) && waiting) {
                abort_end(e, false);
            }
            return;
        }
        if (stopped(e, e->received, e->stall_at, e->stall_ms, &e->stalls,
                    &e->read_from)) {
            return;
        }
        want = stretch(e->received, want, e->stall_at, e->stalls);
        if (e->quit_at != NONE && want > e->quit_at - e->received) {
            want = e->quit_at - e->received;
        }
        n = recv(e->fd, buffer, want, 0);
        if (n < 0) {
            if (errno != EAGAIN) {
                e->ending = strerrorname_np(errno);
            }
            return;
        }
        if (!n) {
            e->ending = "EOF";
            return;
        }
        expected = stream(peer, e->received);
        if (memcmp(buffer, expected, (size_t) n)) {
            tell_damage(e, expected, (size_t) n);
            e->damaged = true;
        }
        e->received += (uint32_t) n;
        delivered += (uint64_t) n;
        if ((uint32_t) n < want && !e->hung_up && peer->urgent_at == NONE
            && e->received < e->quit_at) {
            return;             /* There is no more, and more is an event. */
        }
    }
}

static void write_some(struct end *e)
{
    if (e->received < e->send_after_rx) {
        return;
    }
    while (!e->done && e->sent < e->total) {
        uint32_t n = e->total - e->sent;
        int flags = MSG_NOSIGNAL;
        ssize_t done;

        if (stopped(e, e->sent, e->pause_at, e->pause_ms, &e->pauses,
                    &e->send_from)) {
            return;
        }
        n = n < e->chunk ? n : e->chunk;
        n = stretch(e->sent, n, e->pause_at, e->pauses);
        if (e->urgent_at == e->sent) {
            flags |= MSG_OOB;
            n = 1;
        } else if (e->urgent_at > e->sent && e->urgent_at - e->sent < n) {
            n = e->urgent_at - e->sent;
        }
        done = send(e->fd, stream(e, e->sent), n, flags);
        if (done < 0) {
            if (errno != EAGAIN && (!e->ending || !strcmp(e->ending, "EOF"))) {
                e->ending = strerrorname_np(errno);
            }
            return;
        }
        e->sent += (uint32_t) done;
    }
    if (!e->done && !e->fin_sent && e->sent == e->total && e->quit_at == NONE
        && (!e->fin_after_eof || e->ending)) {
        e->fin_sent = true;
        shutdown(e->fd, SHUT_WR);
    }
}

/* For whoever looks for the cause. */
static void tell_state(const struct end *e)
{
    struct tcp_info info = { 0 };
    socklen_t n = sizeof info;

    getsockopt(e->fd, IPPROTO_TCP, TCP_INFO, &info, &n);
    fprintf(stderr, "stuck: %" PRIu64 " end %d state %u sent %u of %u"
            " unacked %u backoff %u probes %u retransmits %u rto %u cwnd %u"
            " snd_wnd %u rcv_ssthresh %u wscale %u/%u mss %u/%u\n",
            e->c->number, e != e->c->end, info.tcpi_state, e->sent, e->total,
            info.tcpi_unacked, info.tcpi_backoff, info.tcpi_probes,
            info.tcpi_total_retrans, info.tcpi_rto, info.tcpi_snd_cwnd,
            info.tcpi_snd_wnd, info.tcpi_rcv_ssthresh, info.tcpi_snd_wscale,
            info.tcpi_rcv_wscale, info.tcpi_snd_mss, info.tcpi_rcv_mss);
}

void play(struct end *e)
{
    struct conversation *c = e->c;
    struct end *peer;

    if (!c || e->done) {
        return;         /* Of a timer whose time is over. */
    }
    peer = &c->end[e == c->end];
    if (now >= c->deadline) {
        if (e->fd < 0) {
            finish(e, "not accepted");
        } else {
            tell_state(e);
            e->ending = "stuck";
            abort_end(e, true);
        }
        return;
    }
    if (e->fd < 0) {
        if (c->listener < 0) {
            finish(e, "no socket");
            return;
        }
        e->fd = accept4(c->listener, NULL, NULL, SOCK_NONBLOCK);
        if (e->fd < 0) {
            if (c->kind == ABANDONED && now >= e->read_from) {
                finish(e, "nobody came");
            } else if (peer->done && c->kind != ABANDONED) {
                finish(e, "not accepted");
            }
            return;
        }
        c->accepted = true;
        watch(e->fd, e);
        e->connected = true;
        if (c->kind == ABANDONED) {
            abort_end(e, true);
            return;
        }
        play(peer);
    } else if (!e->connected && !e->ending) {
        int error = 0;
        socklen_t n = sizeof error;
        struct tcp_info info;
        socklen_t info_len = sizeof info;

        if (getsockopt(e->fd, IPPROTO_TCP, TCP_INFO, &info, &info_len)
            || info.tcpi_state == 2 /* TCP_SYN_SENT */
            || info.tcpi_state == 3 /* TCP_SYN_RECV */) {
            return;
        }
        getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &error, &n);
        if (error) {
            e->ending = strerrorname_np(error);
        } else {
            e->connected = true;
            if (c->simultaneous) {
                /* Linux does not begin to send keep-alives here. */
                set(e->fd, SOL_SOCKET, SO_KEEPALIVE, 0);
                set(e->fd, SOL_SOCKET, SO_KEEPALIVE, 1);
                play(peer);
            }
        }
    }
    read_some(e);
    write_some(e);
    if (!e->done && e->ending
        && (strcmp(e->ending, "EOF") || e->fin_sent)) {
        finish(e, NULL);
        if (peer->fd < 0) {
            play(peer);
        }
    }
}

/* Whether all was as TCP promises. */
static bool is_right(const struct conversation *c)
{
    const struct end *client = &c->end[c->client];

    for (int i = 0; i < 2; i++) {
        const struct end *e = &c->end[i], *peer = &c->end[!i];

        if (e->damaged || e->received > peer->total) {
            return false;
        }
        switch (c->kind) {
        case GRACEFUL:
            if (!e->ending || strcmp(e->ending, "EOF")
                || e->received != peer->total || e->sent != e->total) {
                return false;
            }
            break;
        case RESET:
        case UNREAD:
            if (!e->ending
                || strcmp(e->ending, e->quit_at != NONE ? "aborted"
                                                        : "ECONNRESET")) {
                return false;
            }
            break;
        case REFUSED:
        case ABANDONED:
        case N_KINDS:
            break;
        }
    }
    return c->kind == REFUSED
           ? client->ending && !strcmp(client->ending, "ECONNREFUSED")
           : c->kind != ABANDONED || !c->accepted || !c->pair->simultaneous;
}

/* Another process ran between the two connect(), and the first SYN met a closed port; so
 * does the second then.  It says nothing of what is in between. */
static bool is_missed(const struct conversation *c)
{
    for (int i = 0; i < 2; i++) {
        if (!c->end[i].ending || strcmp(c->end[i].ending, "ECONNREFUSED")) {
            return false;
        }
    }
    return c->missed;
}

static const char *verdict(const struct conversation *c)
{
    return is_missed(c) ? "missed" : is_right(c) ? "ok"
           : c->end[0].damaged || c->end[1].damaged ? "WRONG DAMAGED" : "WRONG";
}

void ended(const struct conversation *c)
{
    if (c->listener >= 0) {
        close(c->listener);
    }
    finished++;
    if (mode != MIXED && is_right(c)) {
        return;
    }
    printf("%" PRIu64 "%s %s%s%s%s %s %s %s |", c->number, c->repeated ? "b" : "",
           kinds[c->kind], c->v6 ? " v6" : " v4",
           c->simultaneous ? " simultaneous" : "", c->fastopen ? " tfo" : "",
           verdict(c),
           c->end[0].ending ? c->end[0].ending : "-",
           c->end[1].ending ? c->end[1].ending : "-");
    for (int i = 0; i < 2; i++) {
        printf(" %s%u/%u", c->end[i].connected ? "" : "unconnected ",
               c->end[i].received, c->end[!i].total);
    }
    printf(" %.3f s\n", (double) (now - (c->deadline - limit_ns)) / (double) SECOND);
}
