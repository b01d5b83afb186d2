"""Memory of a device as several processes share it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.emulator.makers import emulator_environment

PROGRAM = """
import sys
import acl
assert acl.init() == 0
assert acl.rt.set_device(int(sys.argv[1])) == 0
for line in sys.stdin:
    word, _, number = line.strip().partition(" ")
    if word == "take":
        pointer, code = acl.rt.malloc(int(number), 0)
        print(code, flush=True)
    elif word == "give":
        print(acl.rt.free(pointer), flush=True)
    elif word == "free":
        print(acl.rt.get_mem_info(1)[0], flush=True)
    elif word == "reset":
        print(acl.rt.reset_device(int(sys.argv[1])), flush=True)
"""
CAPACITY = 1 << 20
SPARE = 32


class Process:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def __call__(self, command: str) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def processes(tmp_path: Path, *devices: int) -> Iterator[list[Process]]:
    environment = emulator_environment(
        tmp_path, device_memory_bytes=CAPACITY, device_count=2, memory_file=str(tmp_path / "memory.json")
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(device)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for device in devices
    ]
    try:
        yield [Process(process) for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_what_one_process_takes_another_does_not_have(tmp_path: Path):
    with processes(tmp_path, 0, 0, 1) as (first, second, elsewhere):
        assert first("take 600000") == 0
        assert second("free") == CAPACITY - 600000 - SPARE
        assert second("take 600000") == 207001
        assert second("take 300000") == 0
        assert first("free") == CAPACITY - 900000 - 2 * SPARE
        assert elsewhere("free") == CAPACITY
        assert first("give") == 0
        assert second("free") == CAPACITY - 300000 - SPARE


@pytest.mark.parametrize("way", ["reset", "kill"])
def test_memory_comes_back_when_a_process_resets_the_device_or_is_gone(tmp_path: Path, way: str):
    with processes(tmp_path, 0, 0) as (first, second):
        assert first("take 600000") == 0
        if way == "reset":
            assert first("reset") == 0
        else:
            # not waited for: what is dead and still listed has no memory either
            first.process.kill()
            while Path(f"/proc/{first.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                pass
        assert second("free") == CAPACITY
        assert second("take 600000") == 0


def test_a_file_of_another_kind_is_refused(tmp_path: Path):
    (tmp_path / "memory.json").write_text("[1]\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "0"],
        env=emulator_environment(tmp_path, memory_file=str(tmp_path / "memory.json")),
        input="free\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "memory.json: memory_file: this is no such file" in done.stderr
