from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from om_backend.device import protocol
from om_backend.device.protocol import PeerGone, PeerSilent, ProtocolError

FDS = Path("/proc/self/fd")
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_message_arrives_as_it_was_sent(pair: Pair):
    header = {"id": 1, "op": "load", "file": "/m\u00f6del/\u4f60\u597d", "numbers": [1, 2.5, None, True]}
    protocol.send(pair[0], header)
    assert protocol.receive(pair[1], 1) == (header, [])


def test_a_large_header_arrives_in_pieces(pair: Pair):
    header = {"gears": ["x" * 1000] * 3000}
    sender = threading.Thread(target=protocol.send, args=(pair[0], header))
    sender.start()
    assert protocol.receive(pair[1], 10)[0] == header
    sender.join()


def test_descriptors_arrive_and_are_not_passed_on_to_children(pair: Pair):
    read_end, write_end = os.pipe()
    protocol.send(pair[0], {"a": 1}, [write_end])
    os.close(write_end)
    _, (received,) = protocol.receive(pair[1], 1)
    assert not os.get_inheritable(received)
    os.write(received, b"hello")
    os.close(received)
    assert os.read(read_end, 100) == b"hello"
    os.close(read_end)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "begins with"),
        (b"\x80\x04\x95" + bytes(40), "begins with"),
        (b"VXW1" + struct.pack("<I", 1 << 31), "beyond the limit"),
        (b"VXW1" + struct.pack("<I", 3) + b"{{{", "not JSON"),
        (b"VXW1" + struct.pack("<I", 2) + b"\xff\xfe", "not JSON"),
        (b"VXW1" + struct.pack("<I", 2) + b"[]", "must be a JSON object"),
        (b"VXW1" + struct.pack("<I", 100000) + b"[" * 100000, "not JSON"),
        (b"VXW1" + struct.pack("<I", 2) + b"{}VXW1", "take turns"),
    ],
)
def test_what_is_not_a_message_ends_the_conversation(pair: Pair, data: bytes, says: str):
    pair[0].sendall(data)
    with pytest.raises(ProtocolError, match=says):
        protocol.receive(pair[1], 1)


def test_descriptors_of_a_broken_message_are_closed(pair: Pair):
    before = set(FDS.iterdir())
    read_end, write_end = os.pipe()
    socket.send_fds(pair[0], [b"garbage!garbage!"], [read_end, write_end])
    with pytest.raises(ProtocolError):
        protocol.receive(pair[1], 1)
    os.close(read_end)
    os.close(write_end)
    assert set(FDS.iterdir()) == before


def test_a_silent_peer_is_told_from_a_dead_one(pair: Pair):
    with pytest.raises(PeerSilent, match=r"no answer within 0\.05 s"):
        protocol.receive(pair[1], 0.05)
    pair[0].sendall(b"VXW1\x10")
    with pytest.raises(PeerSilent):
        protocol.receive(pair[1], 0.05)
    pair[0].close()
    with pytest.raises(PeerGone):
        protocol.receive(pair[1], 0.05)
    with pytest.raises(PeerGone):
        for _ in range(10):
            protocol.send(pair[1], {"id": 1})


def test_a_peer_that_reads_nothing_does_not_hold_the_sender_for_ever(pair: Pair):
    with pytest.raises(PeerSilent, match="took no message"):
        protocol.send(pair[0], {"x": "y" * (4 << 20)}, timeout_s=0.1)


def test_headers_and_descriptors_are_bounded(pair: Pair):
    with pytest.raises(ProtocolError, match="beyond the limit"):
        protocol.send(pair[0], {"x": "y" * protocol.MAX_HEADER_BYTES})
    with pytest.raises(ProtocolError, match="17 descriptors"):
        protocol.send(pair[0], {}, [0] * 17)


def test_the_header_is_plain_ascii_json(pair: Pair):
    protocol.send(pair[0], {"file": "\u4f60\udce4"})
    raw = pair[1].recv(1000)
    assert raw[:4] == protocol.MAGIC
    assert struct.unpack("<I", raw[4:8])[0] == len(raw) - 8
    assert json.loads(raw[8:].decode("ascii")) == {"file": "\u4f60\udce4"}
