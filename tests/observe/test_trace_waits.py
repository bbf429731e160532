# SPDX-License-Identifier: Apache-2.0

"""acdc-trace on captures, made by hand, of senders that wait, and of how connections begin."""

from __future__ import annotations

from pathlib import Path as File

import pytest
from scapy.packet import Raw

from acdc_testlib.tcp import ACK, FIN, RST, SYN, tcp
from observe.test_trace_made import (
    BACK,
    ETHERNET,
    PLAIN_SYN,
    THERE,
    ack,
    data,
    handshake,
    write,
)
from observe.tracing import causes, direction, objects


@pytest.mark.parametrize("size", [1460, 14600], ids=["segments", "before-segmentation"])
def test_what_waits_for_a_timeout_is_not_timed(tmp_path: File, size: int) -> None:
    """Of ten segments, or of one that is cut later, the first is lost.  The ACK of what was sent
    again is that of the others, too, and says nothing of the path."""
    packets, times, seq = [*handshake(65535), data(100), ack(1560, 65535)], [0.0, 1, 2, 3], 1560
    for i in range(3):
        at = 4 + 300 * i
        packets += [data(seq + size * n, size) for n in range(14600 // size)]
        packets += [data(seq), ack(seq + 14600, 65535)]
        times += [at] * (14600 // size) + [at + 205, at + 206]
        seq += 14600
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert got["rtt_max"] == pytest.approx(1000)
    assert (got["timeouts"], causes(got)[0]) == (3, "timeout")


def test_a_segment_before_segmentation_of_which_a_part_is_lost(tmp_path: File) -> None:
    """The rest was acknowledged: the path takes segments of that size."""
    packets, times = handshake(65535), [0.0, 1]
    for i in range(2):
        seq = 100 + 14600 * i
        packets += [data(seq, 14600), data(seq), ack(seq + 14600, 65535)]
        times += [300 * i + 2, 300 * i + 205, 300 * i + 206]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert (got["timeouts"], got["rtt"]) == (2, None)
    assert "size" not in causes(got)


def test_a_fin_that_is_sent_again_is_not_timed(tmp_path: File) -> None:
    fin = ETHERNET / THERE / tcp(40000, 80, FIN | ACK, 1560, 500)
    packets = [*handshake(65535), data(100), ack(1560, 65535), fin, fin, ack(1561, 65535)]
    times = [0, 1, 2, 3, 4, 204, 205]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert got["rtt_max"] == pytest.approx(1000)


def test_probes_of_a_closed_window_are_no_timeouts(tmp_path: File) -> None:
    """Windows and BSD probe with a byte of new data, which the receiver does not take."""
    packets, times, at = [*handshake(1460), data(100), ack(1560, 0)], [0.0, 1, 2, 3], 3
    for i in range(5):
        at += 200 << i
        packets += [data(1560, 1), ack(1560, 0)]
        times += [at, at + 1]
    packets += [ack(1560, 1460), data(1560), ack(3020, 1460)]
    times += [at + 2, at + 2.1, at + 3]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert causes(got) == ["receiver"]
    assert (got["acked"], got["retransmitted"], got["timeouts"]) == (2920, 0, 0)


def test_a_fin_into_a_closed_window_is_no_probe(tmp_path: File) -> None:
    fin = ETHERNET / THERE / tcp(40000, 80, FIN | ACK, 1560, 500)
    packets = [*handshake(1460), data(100), ack(1560, 0), fin, fin, ack(1561, 0)]
    times = [0, 1, 2, 3, 4, 204, 205]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert (got["acked"], got["timeouts"]) == (1460, 1)


def test_a_closed_window_needs_no_scale(tmp_path: File) -> None:
    """The capture lacks the handshake.  Linux probes with the byte before."""
    packets, times = [data(100), ack(1560, 65535), data(1560), ack(3020, 0)], [0.0, 1, 2, 3]
    for i in range(4):
        packets += [data(3019, 0), ack(3020, 0)]
        times += [200 << i, (200 << i) + 1]
    packets += [ack(3020, 65535), data(3020), ack(4480, 65535)]
    times += [2000, 2000.1, 2001]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert causes(got) == ["receiver"]
    assert got["limits"]["receiver"] == pytest.approx(1.997)


def test_what_is_sent_again_of_more_than_16_mib(tmp_path: File) -> None:
    """At 100 Gbit/s that is in flight after 2 ms."""
    packets, seq = [*handshake(65535), data(100), ack(1560, 65535)], 1560
    for _ in range(400):
        packets.append(data(seq, 50_000))
        seq += 50_000
    packets += [data(1560), data(seq), ack(seq + 1460, 65535)]
    times = [0, 1, 2, 3, *(4 + 0.01 * i for i in range(403))]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert (got["retransmitted"], got["acked"]) == (1, seq + 1460 - 100)
    assert got["flight_max"] == seq + 1460 - 1560


def test_a_syn_without_an_answer_is_over_after_its_retransmissions(tmp_path: File) -> None:
    syn = handshake(65535)[0]
    for last, n in ((63 + 64, 1), (63 + 66, 2)):
        times = [1000 * at for at in (0, 1, 3, 7, 15, 31, 63, last)]
        found = objects(write(tmp_path / "made.pcap", [syn] * len(times), times=times))
        assert found[-1]["connections"] == n


def test_two_ends_that_open_at_once_are_one_connection(tmp_path: File) -> None:
    syn, synack = handshake(65535)
    other = ETHERNET / BACK / tcp(80, 40000, SYN, 499, 0)
    answer = ETHERNET / THERE / tcp(40000, 80, SYN | ACK, 99, 500, options=PLAIN_SYN)
    packets = [syn, other, answer, synack, data(100), ack(1560, 65535)]
    found = objects(write(tmp_path / "made.pcap", packets))
    assert found[-1]["connections"] == 1
    got = direction(found, 80)
    assert (got["acked"], causes(got)) == (1460, ["sender"])


def test_a_timeout_while_the_other_end_sends(tmp_path: File) -> None:
    """Its data has ACKs by the way, which say nothing new."""
    packets, times = [*handshake(65535), data(100), ack(1560, 65535), data(1560)], [0.0, 1, 2, 3, 4]
    for i in range(100):
        segment = tcp(80, 40000, ACK, 500 + 1000 * i, 1560, window=512) / Raw(bytes(1000))
        answer = tcp(40000, 80, ACK, 3020, 1500 + 1000 * i)
        packets += [ETHERNET / BACK / segment, ETHERNET / THERE / answer]
        times += [5 + 2 * i, 5.5 + 2 * i]
    packets += [data(1560), ack(3020, 65535)]
    times += [206, 207]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert (got["timeouts"], causes(got)[0]) == (1, "timeout")


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("taken", [0, 300, 500])
def test_data_of_a_syn(tmp_path: File, taken: int, again: bool) -> None:
    """What the SYN-ACK does not acknowledge is sent with the next segment, and was not lost.  A SYN
    that is sent again has no data, and its answer times nothing, nor does one to a part."""
    syn = handshake(65535)[0]
    answer = tcp(80, 40000, SYN | ACK, 499, 100 + taken, options=PLAIN_SYN)
    packets, times = [syn / Raw(bytes(500)), *[syn] * again], [0.0, *[1000.0] * again]
    packets += [ETHERNET / BACK / answer, data(100 + taken, 1200 - taken), ack(1300, 65535)]
    times += [times[-1] + after for after in (1, 1.1, 2)]
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert (got["acked"], got["sent"]) == (1200, 1700 - taken)
    assert (got["segments"], got["retransmitted"]) == (2, 0)
    assert got["rtt_max"] == pytest.approx(1000 if taken == 500 and not again else 900)
    assert "loss" not in causes(got)


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_rst_that_is_not_believed(tmp_path: File, goes_on: bool) -> None:
    """Both go on at once, and after a pause.  After one that is, there is another connection."""
    reset = ETHERNET / BACK / tcp(80, 40000, RST, 500, 0)
    packets, times = [*handshake(65535), data(100), ack(1560, 65535), reset], [0, 1, 2, 3, 4]
    if goes_on:
        packets += [data(1560), ack(3020, 65535)]
        times += [5, 6]
    packets += [data(3020), ack(4480, 65535)]
    times += [4000, 4001]
    found = objects(write(tmp_path / "made.pcap", packets, times=times))
    assert found[-1]["connections"] == 2 - goes_on


@pytest.mark.parametrize(
    ("pause", "answered", "delayed"),
    [(0.1, False, 9), (20, False, 0), (0.1, True, 0)],
    ids=["write-write", "thinks", "asks-again"],
)
def test_who_waits_for_delayed_acks(
    tmp_path: File, pause: float, answered: bool, delayed: int
) -> None:
    """They limit who sends at once then, and not who had nothing to send, or waited for an answer
    that came after the ACK."""
    packets, times, seq, at = [*handshake(65535)], [0.0, 1], 100, 2.0
    for i in range(10):
        packets += [data(seq, 200), ack(seq + 200, 65535)]
        times += [at, at + 40]
        at += 40 + pause
        seq += 200
        if answered:
            answer = tcp(80, 40000, ACK, 500 + 100 * i, seq, window=512) / Raw(bytes(100))
            packets.append(ETHERNET / BACK / answer)
            times.append(at)
            at += 0.1
    got = direction(objects(write(tmp_path / "made.pcap", packets, times=times)), 80)
    assert got["delayed_acks"] == delayed
    assert causes(got)[0] == ("delayed-ack" if delayed else "application")
    assert sum(got["limits"].values()) == pytest.approx(got["duration"], abs=1e-6)
