/* SPDX-License-Identifier: Apache-2.0 */

/* What the files of the traffic program share.  See traffic.c. */

#ifndef TRAFFIC_H
#define TRAFFIC_H 1

#include <linux/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STACK_SIZE (128 * 1024)
#define MAX_HOSTS 256

/* What a client says first on each connection. */
struct hello {
    uint64_t request;           /* Bytes of each request, 0: sink to the end. */
    uint64_t response;          /* Bytes of each answer, or beside the sink. */
};

struct options {
    const char *to, *port, *cc, *sizes;
    int64_t start;              /* ns */
    double seconds, interval, rate;
    uint64_t request, response, bytes, seed, parallel, parts;
    bool both;
};

extern struct options opt;

/* Says what went wrong and errno's reason, and exits with status 1. */
void fail(const char *format, ...);

int64_t now_ns(void);           /* CLOCK_MONOTONIC */
double elapsed(int64_t t);      /* Seconds from --start to 't', in ns. */
void sleep_until(int64_t t);    /* ns */
double uniform(void);           /* In [0, 1), from --seed. */

/* Block until all 'n' bytes have gone or come.  False: the connection ended. */
bool send_all(int fd, uint64_t n);
bool receive_all(int fd, uint64_t n);

void set_cc(int fd);            /* --cc */
void set_nodelay(int fd);

/* Connects and says 'h'.  Returns the socket, or -1 with errno set. */
int connect_to(const char *to, struct hello h);
struct tcp_info get_info(int fd);

/* Splits --to.  Returns the number of hosts. */
size_t read_hosts(char *hosts[MAX_HOSTS]);

/* The modes of flows.c. */
void flows(void);
void transfer(void);

#endif /* traffic.h */
