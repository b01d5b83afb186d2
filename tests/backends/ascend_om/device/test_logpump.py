from __future__ import annotations

import os
import threading

from om_backend.device.logpump import MAX_LINE_BYTES, MAX_LINES, LogPump, printable


def pump(*chunks: bytes) -> tuple[list[str], LogPump]:
    read_end, write_end = os.pipe()
    lines: list[str] = []
    ended = threading.Event()
    log = LogPump(read_end, lines.append, ended.set)
    for chunk in chunks:
        os.write(write_end, chunk)
    os.close(write_end)
    assert ended.wait(5)
    log.join(5)
    return lines, log


def test_lines_come_whole_however_they_were_written():
    lines, log = pump(b"fir", b"st\nsecond\n\n  \nlast without an end")
    assert lines == ["first", "second", "last without an end"]
    assert log.tail == "first | second | last without an end"


def test_a_line_without_end_is_cut():
    lines, _ = pump(b"x" * 50_000)
    assert all(len(line) <= MAX_LINE_BYTES for line in lines)
    assert lines


def test_a_storm_of_lines_is_counted_not_written():
    lines, _ = pump(*[b"error\n" * 100] * 30)
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == f"({3000 - MAX_LINES} more lines within 10 s are left out)"


def test_control_characters_cannot_forge_a_log():
    assert printable(b"a\x1b[31m\rb\x00 \xff\xe4\xbd\xa0") == "a\\x1b[31m\\rb\\x00 \\xff\u4f60"
