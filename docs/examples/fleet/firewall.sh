#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# firewall.sh ADDRESS...: these servers, and nobody else, reach the port of the cluster.
set -eu
family=ip
case $1 in *:*) family=ip6 ;; esac
servers=$(IFS=,; echo "$*")
nft -f - <<EOF
table inet acdc_fleet
delete table inet acdc_fleet
table inet acdc_fleet {
    chain input {
        type filter hook input priority filter
        tcp dport 6650 $family saddr != { $servers } drop
    }
}
EOF
