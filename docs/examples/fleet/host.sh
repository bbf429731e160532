#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# host.sh SYSTEM-ID FOLLOW REPORT: a hypervisor, before acdc-agent is started.
set -eu
ovs-vsctl --no-wait set Open_vSwitch . external_ids:system-id="$1" \
    external_ids:acdc-fleet-remote="\"$2\"" external_ids:acdc-fleet-report="\"$3\""
