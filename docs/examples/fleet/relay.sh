#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# relay.sh SERVERS: such as ssl:10.0.0.1:6651,ssl:10.0.0.2:6651,ssl:10.0.0.3:6651
set -eu
etc=${ACDC_FLEET_ETC:-/etc/acdc-fleet} run=${ACDC_FLEET_RUN:-/var/run/acdc-fleet}
mkdir -p "$run"
# A file for each host.
# shellcheck disable=SC3045
ulimit -n "$(ulimit -H -n)"
# With ACDC_FLEET_DETACH= it stays in the foreground.
# shellcheck disable=SC2086
exec ovsdb-server ${ACDC_FLEET_DETACH-"--detach"} --no-chdir --pidfile="$run/relay.pid" \
    --log-file="$run/relay.log" \
    --unixctl="$run/relay.ctl" --remote=db:ACDC_Fleet,Fleet,relays \
    --private-key="$etc/key.pem" --certificate="$etc/cert.pem" --ca-cert="$etc/ca.pem" \
    "relay:ACDC_Fleet:$1"
