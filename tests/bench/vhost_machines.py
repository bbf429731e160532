# SPDX-License-Identifier: Apache-2.0

"""tests/bench/vhost: guests that are machines of qemu."""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from acdc_bench import BENCH, VARIANTS
from acdc_qemu import stock
from acdc_qemu.machine import OUT, Failure

from acdc_testlib.netns import wait_for
from acdc_testlib.ovs import Ovs
from acdc_testlib.programs import Programs

MEMORY = "1G"


class Guest:
    """A machine with a network card behind 'socket', its address 10.0.0.NUMBER."""

    def __init__(self, number: int, scratch: Path, tso: bool) -> None:
        folder = scratch / f"guest{number}"
        layer = folder / "layer"
        layer.mkdir(parents=True)
        self.socket = folder / "vhost.sock"
        self.log = folder / "console.log"
        offload = "on" if tso else "off"
        card = [
            "-object", f"memory-backend-memfd,id=memory,size={MEMORY},share=on",
            "-machine", "pc,memory-backend=memory",
            "-chardev", f"socket,id=vhost,path={self.socket},server=on,wait=off",
            "-netdev", "vhost-user,id=net,chardev=vhost",
            "-device", f"virtio-net-pci,netdev=net,mac=02:00:00:00:00:0{number},mrg_rxbuf=on,"
            f"csum={offload},host_tso4={offload},host_tso6={offload},guest_csum={offload},"
            f"guest_tso4={offload},guest_tso6={offload},guest_ufo=off,host_ufo=off,guest_ecn=off,"
            # Without KVM this qemu falls over MSI-X vectors of vhost.
            "host_ecn=off,vectors=0",
        ]  # fmt: skip
        with contextlib.redirect_stdout(sys.stderr):
            machine = replace(stock.machine(layer), cpus=1, memory=MEMORY, qemu=card)
        program = ["/usr/bin/python3", BENCH / "vhost_guest.py", str(number)]
        self._process = machine.start(program, folder)

    def said(self, word: str) -> list[str]:
        """What it printed behind 'word'."""
        if self._process.poll() is not None:
            raise Failure(
                f"a guest ended with {self._process.returncode}:\n{self.log.read_text(errors='replace')[-3000:]}"
            )
        # The last line may not be whole yet.
        lines = self.log.read_text(errors="replace").split("\n")[:-1]
        return [line.removeprefix(word).strip() for line in lines if line.startswith(word)]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def switch(variant: str, guests: list[Guest], tso: bool) -> Iterator[Ovs]:
    programs = Programs.pristine() if variant == "pristine" else Programs.patched()
    with Ovs(programs) as ovs:
        extra = "--no-huge --legacy-mem -m 512 --no-pci --no-shconf --no-telemetry"
        ovs.vsctl(
            *("set", "open_vswitch", ".", "other_config:dpdk-init=true"),
            *(f'other_config:dpdk-extra="{extra}"', "other_config:dpdk-lcore-mask=0x1"),
            *("other_config:pmd-cpu-mask=0x2", "other_config:per-port-memory=true"),
            # The guests' processors are these two as well.
            "other_config:pmd-maxsleep=100",
            f"other_config:userspace-tso-enable={str(tso).lower()}",
        )
        ovs.add_bridge("br0", normal=False)
        for number, guest in enumerate(guests):
            ovs.vsctl(
                *("add-port", "br0", f"vhost{number}", "--", "set", "interface", f"vhost{number}"),
                *("type=dpdkvhostuserclient", f"options:vhost-server-path={guest.socket}"),
            )
        ovs.connect("br0", "vhost0", "vhost1")
        if variant == "bound":
            ovs.set_tenant("blue")
            for number in range(len(guests)):
                ovs.bind("blue", f"vhost{number}")
        try:
            yield ovs
        except BaseException:
            print(ovs.log_tail(60), file=sys.stderr)
            raise


def received(ovs: Ovs) -> int:
    """Packets that the PMD thread has had so far."""
    text = ovs.appctl("dpif-netdev/pmd-stats-show")
    found = re.search(r"pmd thread.*?packets received: (\d+)", text, re.DOTALL)
    assert found
    return int(found[1])


def turn(variant: str, guests: list[Guest], tso: bool, seconds: float) -> dict[str, Any]:
    with switch(variant, guests, tso) as ovs:
        n = len(guests[0].said("result>"))
        # The one that a switch took over while it ran counts for nothing.
        wait_for(f"{variant}: traffic", lambda: len(guests[0].said("result>")) > n, 120, 0.2)
        time.sleep(1)
        n = len(guests[0].said("result>"))
        packets = received(ovs)
        time.sleep(seconds)
        packets = received(ovs) - packets
        found = guests[0].said("result>")[n:]
        if not found:
            raise Failure(f"tso {'on' if tso else 'off'}, {variant}: no TCP in {seconds:g} s")
        result: dict[str, Any] = {
            "variant": variant,
            "mbits": [round(json.loads(text)["bps"] / 1e6, 1) for text in found],
            "retransmits": [json.loads(text)["retransmits"] for text in found],
            "rtt_us": [json.loads(text)["rtt_us"] for text in found],
            "packets": packets,
        }
        if variant == "bound":
            (tenant,) = ovs.acdc("stats")["tenants"]
            result["acdc"] = {k: v for k, v in tenant["counters"].items() if v}
        return result


def run(
    tsos: list[str], turns: int, seconds: float, say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Results one after the other."""
    OUT.mkdir(parents=True, exist_ok=True)
    for tso in tsos:
        rows: dict[str, list[dict[str, Any]]] = {v: [] for v in VARIANTS}
        with contextlib.ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=OUT)))
            guests = []
            for number in (1, 2):
                guests.append(Guest(number, scratch, tso == "on"))
                stack.callback(guests[-1].close)
            # The features of the cards are settled with the first switch.
            with switch("pristine", guests, tso == "on"):
                for guest in guests:
                    wait_for("the guests", lambda: guest.said("ready>"), 240, 0.5)  # noqa: B023
            for number in range(turns):
                for variant in VARIANTS if number % 2 == 0 else reversed(VARIANTS):
                    found = turn(variant, guests, tso == "on", seconds)
                    rows[variant].append(found)
                    say(f"tso {tso:3} {variant:8} Mbit/s {found['mbits']}, "
                        f"ping {found['rtt_us']} us")  # fmt: skip
        result: dict[str, Any] = {"tso": tso, "turns": rows}
        for variant in VARIANTS:
            result[variant] = {
                "mbits": statistics.median(median(row["mbits"]) for row in rows[variant]),
                "rtt_us": statistics.median(median(row["rtt_us"]) for row in rows[variant]),
            }
            ratios = [
                median(row["mbits"]) / median(beside["mbits"])
                for beside, row in zip(rows["pristine"], rows[variant], strict=True)
            ]
            result[variant]["ratio"] = round(statistics.median(ratios), 3)
            say(f"tso {tso:3} {variant:8} median {result[variant]['mbits']:8.1f} Mbit/s, "
                f"{result[variant]['ratio']:.2f} of pristine, ping {result[variant]['rtt_us']:.0f} us"
            )  # fmt: skip
        yield result


def median(values: list[float | None]) -> float:
    """Of those there are; a ping may have had no answer."""
    known = [value for value in values if value is not None]
    if not known:
        raise Failure("a turn has no ping")
    return statistics.median(known)
