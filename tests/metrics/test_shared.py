"""Several processes count together, and what one has counted outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest

from voxrepo.metrics.shared import FILE_BYTES, clear_gauges, count_in_files, empty_folder, registry_of_all
from voxrepo_contract.errors import ConfigError

WORKER = """
import sys
from pathlib import Path
from voxrepo.metrics.shared import count_in_files, keep_allocated
folder, number = Path(sys.argv[1]), int(sys.argv[2])
count_in_files(folder, number)
from voxrepo.metrics.registry import EdgeMetrics
metrics = EdgeMetrics()
metrics.set_device("cpu")
for line in sys.stdin:
    word, count = line.split()
    if word == "requests":
        metrics.duration.labels("en-joe", "").observe(0.3)
        metrics.audio_seconds.labels("en-joe").inc(float(count))
    elif word == "in_flight":
        metrics.in_flight.set(float(count))
    elif word == "models":
        for index in range(int(count)):
            metrics.audio_seconds.labels(f"voice-{index}").inc(1)
    elif word == "up":
        metrics.engine_metrics_up.set(float(count))
    keep_allocated(folder, number)
    print("done", flush=True)
"""


class Worker:
    """A process that counts what it is told."""

    def __init__(self, folder: Path, number: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(folder), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, word: str, count: float = 1) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{word} {count}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "metrics"
    empty_folder(folder)
    return folder


@contextmanager
def workers(folder: Path, *numbers: int) -> Iterator[list[Worker]]:
    started = [Worker(folder, number) for number in numbers]
    try:
        yield started
    finally:
        for worker in started:
            if worker.process.poll() is None:
                worker.kill()


def sample(folder: Path, series: str) -> float | None:
    for line in generate_latest(registry_of_all(folder)).decode().splitlines():
        if line.startswith(series + " "):
            return float(line.rpartition(" ")[2])
    return None


AUDIO = 'voxrepo_audio_seconds_total{model="en-joe"}'
COUNT = 'voxrepo_request_duration_seconds_count{arm="",model="en-joe"}'


def test_counters_and_histograms_are_added_up_and_gauges_as_they_ask(folder: Path) -> None:
    with workers(folder, 0, 1) as (first, second):
        first.tell("requests", 2)
        second.tell("requests", 3)
        second.tell("requests", 3)
        first.tell("in_flight", 4)
        second.tell("in_flight", 1)
        first.tell("up", 0)
        second.tell("up", 1)
        assert sample(folder, AUDIO) == 8
        assert sample(folder, COUNT) == 3
        assert sample(folder, 'voxrepo_request_duration_seconds_bucket{arm="",le="0.5",model="en-joe"}') == 3
        assert sample(folder, "voxrepo_in_flight") == 5
        assert sample(folder, "voxrepo_edge_workers") == 2
        assert sample(folder, 'voxrepo_device{device="cpu"}') == 1
        assert sample(folder, "voxrepo_engine_metrics_up") == 1


def test_a_death_lowers_no_count_and_the_next_worker_of_that_number_goes_on_from_there(folder: Path) -> None:
    with workers(folder, 0, 1) as (first, second):
        first.tell("requests", 2)
        second.tell("requests", 3)
        second.tell("in_flight", 7)
        second.kill()
        clear_gauges(folder, 1)
        assert sample(folder, AUDIO) == 5
        assert sample(folder, "voxrepo_in_flight") == 0
        assert sample(folder, "voxrepo_edge_workers") == 1
        with workers(folder, 1) as (third,):
            third.tell("requests", 10)
            assert sample(folder, AUDIO) == 15
            assert sample(folder, COUNT) == 3
            assert sample(folder, "voxrepo_edge_workers") == 2
        assert len(list(folder.iterdir())) == 2 * len(FILE_BYTES)


def test_every_file_has_its_place_on_the_disk_also_when_it_has_grown(folder: Path) -> None:
    with workers(folder, 0) as (worker,):
        worker.tell("models", 2000)
        files = list(folder.iterdir())
        assert {file.name.rpartition("_")[0] for file in files} == set(FILE_BYTES)
        grown = folder / "counter_0.db"
        assert grown.stat().st_size > FILE_BYTES["counter"]
        for file in files:
            assert file.stat().st_blocks * 512 >= file.stat().st_size, file.name
        assert sample(folder, 'voxrepo_audio_seconds_total{model="voice-1999"}') == 1
    with workers(folder, 0) as (worker,):
        worker.tell("models", 1)
        assert sample(folder, 'voxrepo_audio_seconds_total{model="voice-0"}') == 2
        assert sample(folder, 'voxrepo_audio_seconds_total{model="voice-1999"}') == 1


def test_a_new_server_starts_from_nothing(folder: Path) -> None:
    with workers(folder, 0) as (worker,):
        worker.tell("requests")
    empty_folder(folder)
    assert not list(folder.iterdir())
    assert sample(folder, AUDIO) is None


def test_a_worker_that_never_counted_has_no_gauges_to_clear(folder: Path) -> None:
    clear_gauges(folder, 3)
    assert not list(folder.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent"):
        count_in_files(tmp_path / "absent", 0)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        empty_folder(tmp_path / "file" / "metrics")
