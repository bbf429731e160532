/* SPDX-License-Identifier: Apache-2.0 */

/* TCP connections for tests/bench/kernel, through two packet sockets.
 *
 *     kernel-source GUEST-DEVICE NETWORK-DEVICE SLOTS DATA ACKS PACKETS ROUNDS [PAUSE]
 *     kernel-source begin
 *     kernel-source end
 *
 * Sends the packets of tcp-frames.h on the far ends of two veth pairs, one of
 * which is a guest's port of the switch, and prints for each of ROUNDS times
 * PACKETS packets the nanoseconds that one took, and how many each side sent.
 * With PAUSE, for a switch that is slow, each batch waits until the switch has sent on
 * as many packets, but at most so many microseconds; a round then also waits for a line
 * of input.
 * Under qemu -icount the nanoseconds are instructions.  "begin" and "end" mark a
 * round of somebody else's packets, which are counted as the guest's. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <inttypes.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "kernel-profile.h"
#include "tcp-frames.h"

enum { BATCH = 32 };

static struct visits visits[2];
static int sockets[2];
static uint8_t frames[BATCH][FRAME_MAX];
static const char *devices[2];
static unsigned int pause_us;

static void
fail(const char *what)
{
    perror(what);
    exit(1);
}

static int
open_device(const char *name)
{
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_ifindex = (int) if_nametoindex(name),
    };
    /* Protocol 0: receives nothing. */
    int fd = socket(AF_PACKET, SOCK_RAW, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof address)) {
        fail(name);
    }
    return fd;
}

/* Packets that came from the switch by this side's device. */
static uint64_t
received(int side)
{
    FILE *file = fopen("/proc/self/net/dev", "r");
    char line[512], name[IFNAMSIZ];
    uint64_t n = 0;

    if (!file) {
        fail("/proc/self/net/dev");
    }
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, " %15[^:]: %*u %" SCNu64, name, &n) == 2
            && !strcmp(name, devices[side])) {
            break;
        }
    }
    fclose(file);
    return n;
}

/* Waits until this side has received 'n' packets, at most for pause_us. */
static void
wait_for(int side, uint64_t n)
{
    enum { STEP_US = 200 };

    for (unsigned int us = 0; us < pause_us && received(side) < n; us += STEP_US) {
        usleep(STEP_US);
    }
}

/* Sends a batch of one side.  Returns the number of packets. */
static uint32_t
send_batch(int side)
{
    uint64_t limit = visits[!side].pos + lead(&visits[side]);
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    uint64_t before = pause_us ? received(!side) : 0;
    int n = 0, sent = 0;

    while (n < BATCH && visits[side].pos < limit) {
        uint16_t len = next_frame(&visits[side], side, frames[n]);

        if (len) {
            parts[n] = (struct iovec) { frames[n], len };
            messages[n] = (struct mmsghdr) {
                .msg_hdr = { .msg_iov = &parts[n], .msg_iovlen = 1 },
            };
            n++;
        }
    }
    PROFILE_MARK(PROFILE_BEGIN);
    while (sent < n) {
        int done = sendmmsg(sockets[side], messages + sent,
                            (unsigned int) (n - sent), 0);

        if (done < 0) {
            fail("sendmmsg");
        }
        sent += done;
    }
    if (side == GUEST) {
        PROFILE_MARK(GUEST);
    } else {
        PROFILE_MARK(NETWORK);
    }
    if (pause_us) {
        wait_for(!side, before + (uint64_t) n);
    }
    return (uint32_t) n;
}

static double
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

/* Returns false if 'word' is none of these. */
static bool
mark(const char *word)
{
    if (!strcmp(word, "begin")) {
        PROFILE_MARK(PROFILE_ROUND);
        return true;
    }
    if (!strcmp(word, "end")) {
        PROFILE_MARK(GUEST);
        PROFILE_MARK(PROFILE_END);
        return true;
    }
    return false;
}

int
main(int argc, char **argv)
{
    uint32_t n_packets, rounds;

    if (argc == 2 && mark(argv[1])) {
        return 0;
    }
    if (argc != 8 && argc != 9) {
        fputs("usage: kernel-source GUEST-DEVICE NETWORK-DEVICE SLOTS DATA "
              "ACKS PACKETS ROUNDS [PAUSE], or: kernel-source begin | end\n", stderr);
        return 2;
    }
    for (int side = GUEST; side <= NETWORK; side++) {
        devices[side] = argv[1 + side];
        sockets[side] = open_device(devices[side]);
    }
    init_frames((uint32_t) atoi(argv[3]), (uint32_t) atoi(argv[4]),
                (uint32_t) atoi(argv[5]));
    n_packets = (uint32_t) atoi(argv[6]);
    rounds = (uint32_t) atoi(argv[7]);
    pause_us = argc == 9 ? (unsigned int) atoi(argv[8]) : 0;
    /* Handshakes, and the first data without ACKs. */
    while (visits[NETWORK].round < HANDSHAKE + lag) {
        send_batch(GUEST);
        send_batch(NETWORK);
    }
    for (uint32_t r = 0; r < rounds; r++) {
        double began = now_ns();
        uint32_t n[2] = { 0, 0 };

        PROFILE_MARK(PROFILE_ROUND);
        while (n[GUEST] + n[NETWORK] < n_packets) {
            n[GUEST] += send_batch(GUEST);
            n[NETWORK] += send_batch(NETWORK);
        }
        printf("%.1f %u %u\n", (now_ns() - began) / (n[GUEST] + n[NETWORK]),
               n[GUEST], n[NETWORK]);
        PROFILE_MARK(PROFILE_END);
        fflush(stdout);
        if (pause_us) {
            getchar();
        }
    }
    return 0;
}
