# SPDX-License-Identifier: Apache-2.0

"""The network between two hypervisors, tried through their switches: acdc-check HOST2.

side.py has what one hypervisor does, remote.py has the other one do it, probes.py tries what of
segments arrives, and path.py runs that and a connection, and says what the results mean."""

from .findings import CRITICAL, OK, UNKNOWN, WARNING, Finding
from .path import check_path
from .remote import Peer, serve
from .side import Side
from .signals import Ended, heed

__all__ = [
    "CRITICAL",
    "OK",
    "UNKNOWN",
    "WARNING",
    "Ended",
    "Finding",
    "Peer",
    "Side",
    "check_path",
    "heed",
    "serve",
]
