#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes ./configure from configure.ac.
set -e
cd "$(dirname "$0")"

missing=
for tool in autoconf automake; do
    command -v $tool >/dev/null 2>&1 || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    echo "boot.sh: missing:$missing; on Debian:" >&2
    echo "    apt-get install$missing" >&2
    echo "or, for everything the build needs: build-aux/install-deps build" >&2
    exit 1
fi
exec autoreconf --install --force
