#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# host.sh SYSTEM-ID FOLLOW REPORT: a hypervisor, before acdc-agent is started.
set -eu
# At boot Open vSwitch takes its system-id from this file.
file=${ACDC_FLEET_ID:-/etc/openvswitch/system-id.conf}
[ "$(cat "$file" 2>/dev/null)" = "$1" ] || echo "$1" >"$file"
ovs-vsctl --no-wait set Open_vSwitch . external_ids:system-id="$1" \
    external_ids:acdc-fleet-remote="\"$2\"" external_ids:acdc-fleet-report="\"$3\""
