/* SPDX-License-Identifier: Apache-2.0 */

/* For libraries that DPDK loads into ovs-vswitchd. */

#ifndef DPDK_PORT_H
#define DPDK_PORT_H 1

#include <unistd.h>

#include <rte_ethdev.h>

/* Waits until Open vSwitch has configured the port of the device 'name', and
 * returns its number. */
static uint16_t
wait_for_port(const char *name, struct rte_eth_dev_info *info)
{
    uint16_t port;

    while (rte_eth_dev_get_port_by_name(name, &port)
           || rte_eth_dev_info_get(port, info) || !info->nb_rx_queues) {
        usleep(1000);
    }
    return port;
}

#endif /* dpdk-port.h */
