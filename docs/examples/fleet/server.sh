#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# server.sh ADDRESS FIRST: a server of the cluster whose first one has the address FIRST.
set -eu
etc=${ACDC_FLEET_ETC:-/etc/acdc-fleet} run=${ACDC_FLEET_RUN:-/var/run/acdc-fleet}
lib=${ACDC_FLEET_LIB:-/var/lib/acdc-fleet}
schema=${ACDC_FLEET_SCHEMA:-/usr/share/acdc/acdc-fleet.ovsschema}
mkdir -p "$lib" "$run"
if [ ! -e "$lib/fleet.db" ]; then
    if [ "$1" = "$2" ]; then
        ovsdb-tool create-cluster "$lib/fleet.db" "$schema" "ssl:$1:6650"
    else
        ovsdb-tool join-cluster "$lib/fleet.db" ACDC_Fleet "ssl:$1:6650" "ssl:$2:6650"
    fi
fi
# A file for each host.
# shellcheck disable=SC3045
ulimit -n "$(ulimit -H -n)"
# With ACDC_FLEET_DETACH= it stays in the foreground.
# shellcheck disable=SC2086
exec ovsdb-server ${ACDC_FLEET_DETACH-"--detach"} --no-chdir --pidfile="$run/server.pid" \
    --log-file="$run/server.log" \
    --unixctl="$run/server.ctl" --remote="punix:$run/db.sock" \
    --remote=db:ACDC_Fleet,Fleet,connections \
    --private-key="$etc/key.pem" --certificate="$etc/cert.pem" --ca-cert="$etc/ca.pem" \
    "$lib/fleet.db"
