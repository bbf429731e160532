# SPDX-License-Identifier: Apache-2.0

"""In a guest of tests/bench/vhost: vhost_guest.py NUMBER.  The first sends to the
second as long as it lives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path


def run(*command: str) -> str:
    return subprocess.run(command, text=True, capture_output=True).stdout


def main() -> None:
    number = sys.argv[1]
    run("modprobe", "virtio_net")
    devices: list[str] = []
    while not devices:
        time.sleep(0.2)
        devices = [path.name for path in Path("/sys/class/net").iterdir() if path.name != "lo"]
    run("ip", "address", "add", f"10.0.0.{number}/24", "dev", devices[0])
    run("ip", "link", "set", devices[0], "up")
    print("ready>", run("ethtool", "-k", devices[0]).count(": on"), flush=True)
    if number == "2":
        subprocess.run(["iperf3", "-s"], stdout=subprocess.DEVNULL)
        return
    while True:
        ping = run("ping", "-q", "-c", "5", "-i", "0.2", "-w", "2", "10.0.0.2")
        rtt = re.search(r"= [\d.]+/([\d.]+)/", ping)
        try:
            text = run("timeout", "10", "iperf3", "-c", "10.0.0.2", "-t", "2", "-J",
                       "--connect-timeout", "1000")  # fmt: skip
            end = json.loads(text)["end"]
            result = {
                "bps": end["sum_received"]["bits_per_second"],
                "retransmits": end["sum_sent"]["retransmits"],
                "rtt_us": round(1000 * float(rtt[1])) if rtt else None,
            }
        except (ValueError, KeyError):
            # No switch behind the card at the moment.
            time.sleep(0.5)
            continue
        print("result>", json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
