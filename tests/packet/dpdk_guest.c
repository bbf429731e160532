/* SPDX-License-Identifier: Apache-2.0 */

/* A guest of a DPDK port for tests, a plugin of DPDK in ovs-vswitchd: what the port
 * net_null0 receives comes from datagrams, and goes into some.  A datagram of two bytes
 * has the thread sleep so many ms; others begin with the size of segments, 0 if the frame
 * is not to be segmented.  One says "ready".  What the port net_tap0 gets to send is
 * written to a file, each frame behind whether it is an mbuf, and its length.  All are in
 * the plugin's directory. */

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "../acdc_testlib/dpdk-port.h"

static int sock, record;
static unsigned int sleep_ms;

/* In 'm' as vhost gives it to Open vSwitch. */
static void
fill(struct rte_mbuf *m, const uint8_t *frame, uint16_t len, uint16_t segment)
{
    memcpy(rte_pktmbuf_mtod(m, uint8_t *), frame, len);
    m->data_len = len;
    m->pkt_len = len;
    m->ol_flags = 0;
    if (segment) {
        m->ol_flags = (RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_IPV4
                       | RTE_MBUF_F_TX_TCP_SEG);
        m->l2_len = 14;
        m->l3_len = 20;
        m->l4_len = (frame[14 + 20 + 12] >> 4) * 4u;
        m->tso_segsz = segment;
    }
}

static uint16_t
receive(uint16_t port, uint16_t queue, struct rte_mbuf *pkts[], uint16_t n,
        uint16_t max, void *aux)
{
    static uint8_t data[9000];
    uint16_t got = 0;

    (void) port, (void) queue, (void) max, (void) aux;
    usleep(sleep_ms * 1000);
    sleep_ms = 0;
    while (got < n) {
        ssize_t len = recv(sock, data, sizeof data, MSG_DONTWAIT);
        uint16_t head = (uint16_t) (data[0] << 8 | data[1]);

        if (len < 2) {
            break;
        } else if (len == 2) {
            sleep_ms = head;
            break;
        }
        fill(pkts[got++], data + 2, (uint16_t) (len - 2), head);
    }
    rte_pktmbuf_free_bulk(pkts + got, (unsigned int) (n - got));
    return got;
}

static uint16_t
to_guest(uint16_t port, uint16_t queue, struct rte_mbuf *pkts[], uint16_t n,
         void *aux)
{
    (void) port, (void) queue, (void) aux;
    for (uint16_t i = 0; i < n; i++) {
        if (send(sock, rte_pktmbuf_mtod(pkts[i], void *), pkts[i]->data_len, 0) < 0) {
            perror("dpdk_guest");
        }
    }
    return n;
}

struct search {
    const struct rte_mempool *pool;
    bool found;
};

static void
look(struct rte_mempool *pool, void *search_)
{
    struct search *search = search_;

    search->found |= pool == search->pool;
}

static uint16_t
to_network(uint16_t port, uint16_t queue, struct rte_mbuf *pkts[], uint16_t n,
           void *aux)
{
    (void) port, (void) queue, (void) aux;
    for (uint16_t i = 0; i < n; i++) {
        struct search search = { pkts[i]->pool, false };
        uint16_t head[2];
        struct iovec parts[] = {
            { head, sizeof head },
            { rte_pktmbuf_mtod(pkts[i], void *), pkts[i]->data_len },
        };

        rte_mempool_walk(look, &search);
        head[0] = search.found;
        head[1] = pkts[i]->data_len;
        if (writev(record, parts, 2) < 0) {
            perror("dpdk_guest");
        }
    }
    return n;
}

static void *
attach(void *aux)
{
    struct rte_eth_dev_info guest, network;
    uint16_t port;

    wait_for_port("net_null0", &guest);
    wait_for_port("net_tap0", &network);
    sleep(2);                   /* They are configured some times, and callbacks go. */
    port = wait_for_port("net_null0", &guest);
    for (uint16_t i = 0; i < guest.nb_tx_queues; i++) {
        rte_eth_add_tx_callback(port, i, to_guest, NULL);
    }
    rte_eth_add_rx_callback(port, 0, receive, NULL);
    port = wait_for_port("net_tap0", &network);
    for (uint16_t i = 0; i < network.nb_tx_queues; i++) {
        rte_eth_add_tx_callback(port, i, to_network, NULL);
    }
    if (send(sock, "ready", 5, 0) < 0) {
        perror("dpdk_guest");
    }
    return aux;
}

static void __attribute__((constructor))
begin(void)
{
    struct sockaddr_un mine = { .sun_family = AF_UNIX }, test = mine;
    char name[sizeof mine.sun_path];
    pthread_t thread;
    Dl_info self;
    size_t len;

    if (!dladdr((void *) begin, &self)) {
        abort();
    }
    len = (size_t) (strrchr(self.dli_fname, '/') - self.dli_fname);
    snprintf(mine.sun_path, sizeof mine.sun_path, "%.*s/guest", (int) len, self.dli_fname);
    snprintf(test.sun_path, sizeof test.sun_path, "%.*s/test", (int) len, self.dli_fname);
    snprintf(name, sizeof name, "%.*s/sent", (int) len, self.dli_fname);
    record = open(name, O_CREAT | O_WRONLY | O_APPEND, 0600);
    sock = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (bind(sock, (struct sockaddr *) &mine, sizeof mine)
        || connect(sock, (struct sockaddr *) &test, sizeof test)
        || pthread_create(&thread, NULL, attach, NULL)) {
        perror("dpdk_guest");
        abort();
    }
}
