from __future__ import annotations

import fcntl
import gc
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from om_backend.device.memory import ALIGNMENT, SMALLEST_BYTES, Area, Room, TooLarge, Window, create_memfd
from om_backend.device.protocol import ProtocolError

FDS = Path("/proc/self/fd")
LIMIT = 64 << 20


def hand_over(area: Area, window: Window) -> tuple[int, int]:
    """Announce; returns how many segments came and went."""
    news = area.announce()
    window.follow(news.segments, news.drop, news.fds)
    return len(news.segments), len(news.drop)


def write(room: Room, value: int) -> None:
    np.ndarray(room.size, np.uint8, room.buffer, room.offset)[:] = value


def read(window: Window, room: Room) -> set[int]:
    buffer = window.buffer(room.segment, room.offset, room.size)
    return set(np.ndarray(room.size, np.uint8, buffer, room.offset).tolist())


def test_what_one_side_writes_the_other_reads():
    area, window = Area("t", LIMIT), Window(LIMIT)
    area.begin(3000)
    rooms = [area.reserve(1000) for _ in range(3)]
    for value, room in enumerate(rooms):
        write(room, value)
    assert hand_over(area, window) == (1, 0)
    assert [read(window, room) for room in rooms] == [{0}, {1}, {2}]
    assert all(room.offset % ALIGNMENT == 0 for room in rooms)


def test_nothing_is_announced_while_nothing_changes():
    area, window = Area("t", LIMIT), Window(LIMIT)
    for number in range(1000):
        area.begin(number)
        room = area.reserve(number)
        write(room, number % 251)
        assert hand_over(area, window) == ((1, 0) if number == 0 else (0, 0))
        assert read(window, room) <= {number % 251}


def test_a_message_that_outgrows_its_segment_keeps_what_was_handed_out():
    area, window = Area("t", LIMIT), Window(LIMIT)
    area.begin()
    rooms = [area.reserve(SMALLEST_BYTES // 2) for _ in range(9)]
    for value, room in enumerate(rooms):
        write(room, value)
    came, went = hand_over(area, window)
    assert came > 1
    assert went == 0
    assert [read(window, room) for room in rooms] == [{value} for value in range(9)]
    # the next message of that size has one segment again
    area.begin()
    assert len({area.reserve(SMALLEST_BYTES // 2).segment for _ in range(9)}) == 1
    assert hand_over(area, window) == (1, came)


def test_arrays_outlive_their_segment():
    area, window = Area("t", LIMIT), Window(LIMIT)
    area.begin(100)
    room = area.reserve(100)
    write(room, 7)
    hand_over(area, window)
    seen: Any = np.ndarray(100, np.uint8, window.buffer(room.segment, room.offset, 100), room.offset)
    area.trim()
    hand_over(area, window)
    assert set(seen.tolist()) == {7}
    with pytest.raises(ProtocolError, match="not shared memory"):
        window.buffer(room.segment, room.offset, 100)


def test_a_large_segment_goes_when_only_small_messages_come():
    area, window = Area("t", LIMIT), Window(LIMIT)
    area.begin(40 << 20)
    area.reserve(40 << 20)
    hand_over(area, window)
    assert area.size_bytes == 64 << 20
    for _ in range(600):
        area.begin(1000)
        area.reserve(1000)
        hand_over(area, window)
    assert area.size_bytes == SMALLEST_BYTES


def test_more_than_the_limit_is_refused_with_both_numbers():
    area = Area("t", 1000)
    with pytest.raises(TooLarge, match="take 1001 bytes; the limit is 1000"):
        area.begin(1001)
    area.begin()
    area.reserve(500)
    with pytest.raises(TooLarge) as caught:
        area.reserve(600)
    assert (caught.value.needed_bytes, caught.value.limit_bytes) == (512 + 640, 1000)


def test_descriptors_do_not_pile_up():
    area, window = Area("t", LIMIT), Window(LIMIT)
    gc.collect()  # what other tests have left behind may be closed at any moment
    before = len(list(FDS.iterdir()))
    for number in range(50):
        area.begin()
        for _ in range(number % 5 + 1):
            area.reserve(SMALLEST_BYTES)
        if number % 3:
            hand_over(area, window)
    area.close()
    window.close()
    assert len(list(FDS.iterdir())) <= before


def test_a_segment_can_be_neither_shrunk_nor_grown_nor_unsealed():
    area = Area("t", LIMIT)
    area.begin(100)
    (fd,) = area.announce().fds
    for size in (0, SMALLEST_BYTES * 2):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    os.close(fd)


def test_memory_that_could_vanish_under_the_reader_is_refused(tmp_path):
    window = Window(LIMIT)
    unsealed = create_memfd("t")
    os.ftruncate(unsealed, 4096)
    file = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 4096)
    for fd in (unsealed, file):
        with pytest.raises(ProtocolError, match="not sealed"):
            window.follow([[0, 4096]], [], [fd])


def test_an_announcement_that_lies_about_sizes_or_descriptors_is_refused():
    area, window = Area("t", LIMIT), Window(SMALLEST_BYTES)
    area.begin(SMALLEST_BYTES * 2)
    news = area.announce()
    with pytest.raises(ProtocolError, match="beyond"):
        window.follow(news.segments, [], [os.dup(news.fds[0])])
    window = Window(LIMIT)
    with pytest.raises(ProtocolError, match="not what came"):
        window.follow([[0, 4096]], [], [os.dup(news.fds[0])])
    with pytest.raises(ProtocolError, match="1 segments were announced, 0 descriptors came"):
        window.follow(news.segments, [], [])
    window.follow(news.segments, [], news.fds)
    for place in ((0, -1, 4), (0, 0, -1), (0, SMALLEST_BYTES * 2 - 3, 4), (9, 0, 1)):
        with pytest.raises(ProtocolError, match="not shared memory"):
            window.buffer(*place)


def test_the_reader_cannot_write():
    area, window = Area("t", LIMIT), Window(LIMIT)
    area.begin(100)
    room = area.reserve(100)
    hand_over(area, window)
    array: Any = np.ndarray(100, np.uint8, window.buffer(room.segment, room.offset, 100), room.offset)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_memory_can_be_made_with_a_python_that_lacks_the_function(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "memfd_create")
    fd = create_memfd("t")
    os.ftruncate(fd, 4096)
    memory = mmap.mmap(fd, 4096)
    memory[:5] = b"works"
    assert not os.get_inheritable(fd)
    os.close(fd)


@given(st.lists(st.lists(st.integers(0, 300_000), max_size=6), max_size=12), st.booleans())
def test_any_mix_of_messages_arrives_whole(messages: list[list[int]], told: bool):
    area, window = Area("t", LIMIT), Window(LIMIT)
    for sizes in messages:
        area.begin(sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes) if told else 0)
        rooms = [area.reserve(size) for size in sizes]
        for value, room in enumerate(rooms):
            write(room, value)
        came, _ = hand_over(area, window)
        assert came <= (1 if told else 6)
        for value, room in enumerate(rooms):
            assert read(window, room) <= {value}
    area.close()
