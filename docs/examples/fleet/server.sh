#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# server.sh ADDRESS FIRST: a server of the cluster whose first one has the address FIRST.
set -eu
etc=${ETC:-/etc/acdc-fleet} lib=${LIB:-/var/lib/acdc-fleet} run=${RUN:-/var/run/acdc-fleet}
schema=${SCHEMA:-/usr/share/acdc/acdc-fleet.ovsschema}
mkdir -p "$lib" "$run"
if [ ! -e "$lib/fleet.db" ]; then
    if [ "$1" = "$2" ]; then
        ovsdb-tool create-cluster "$lib/fleet.db" "$schema" "ssl:$1:6650"
    else
        ovsdb-tool join-cluster "$lib/fleet.db" ACDC_Fleet "ssl:$1:6650" "ssl:$2:6650"
    fi
fi
# With DETACH= it stays in the foreground.
# shellcheck disable=SC2086
exec ovsdb-server ${DETACH-"--detach"} --no-chdir --pidfile="$run/server.pid" \
    --log-file="$run/server.log" \
    --unixctl="$run/server.ctl" --remote="punix:$run/db.sock" \
    --remote=db:ACDC_Fleet,Fleet,connections \
    --private-key="$etc/key.pem" --certificate="$etc/cert.pem" --ca-cert="$etc/ca.pem" \
    "$lib/fleet.db"
