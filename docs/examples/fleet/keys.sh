#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# keys.sh NAME...: keys and certificates for servers, relays, operators, and hosts by their
# system-id.  Where they are made is the authority's directory; keep its copy.
set -eu
[ -d pki ] || ovs-pki --dir="$PWD/pki" --log="$PWD/log" init
for name in "$@"; do
    [ -s "$name-cert.pem" ] ||
        ovs-pki --batch --unique --force --dir="$PWD/pki" --log="$PWD/log" req+sign "$name" switch
    mkdir -p "$name"
    cp "$name-privkey.pem" "$name/key.pem"
    cp "$name-cert.pem" "$name/cert.pem"
    cp pki/switchca/cacert.pem "$name/ca.pem"
done
