"""What is written down of requests: lines in files that rotate, pairs with their audio, and never more than fits."""

from __future__ import annotations

import json
import os
import resource
import time
import wave
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from voxrepo.edge import observing
from voxrepo.edge.observing import Observer, Pair
from voxrepo.edge.seen import Ended
from voxrepo.rollout.plan import PairSeen, RequestSeen

RATE = 22050


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dropped: Counter[str] = Counter()
        self.clock = Clock()
        self.observer = Observer(folder, 3, lambda kind, count: self.dropped.update({kind: count}), self.clock)

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("observations/*.jsonl"), key=lambda file: int(file.stem.split("-")[2]))

    def seen(self) -> list[RequestSeen]:
        lines = [line for file in self.files() for line in file.read_text(encoding="utf-8").splitlines()]
        return [RequestSeen.model_validate_json(line) for line in lines]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "replica")


def ended(outcome: str = "ok", audio: list[bytes] | None = None, **facts: object) -> Ended:
    given = {"at": 1.0, "rollout": "r", "voice": "en-joe", "arm": "new", "outcome": outcome, "latency_s": 0.5, **facts}
    return Ended(given, list(audio or []), RATE)


def tone(seconds: float = 1.0, amplitude: float = 0.5) -> bytes:
    samples = np.sin(np.arange(round(seconds * RATE)) * 0.2) * amplitude * 32767
    return bytes(samples.astype("<i2").tobytes())


def pair(identity: str = "id1", arms: tuple[str, ...] = ("stable", "new"), fault: str = "") -> Pair:
    fields = {"id": identity, "at": 1.0, "rollout": "r", "voice": "en-joe", "arm": "new", "text": "Hi.", "seed": 1}
    seen = PairSeen.model_validate({**fields, "language": "en-US", "speed": 1.0, "speaker": "", "fault": fault})
    return Pair(seen, {arm: [tone(0.1)] for arm in arms}, RATE)


def test_a_line_has_the_facts_and_the_measures_of_the_audio(place: Place) -> None:
    place.observer.put(ended(audio=[tone(0.5), tone(0.5)], streamed=True, first_piece_s=0.1))
    place.observer.put(ended("failed"))
    place.observer.write()
    good, bad = place.seen()
    assert (good.arm, good.streamed, good.first_piece_s) == ("new", True, 0.1)
    assert good.audio_s == pytest.approx(1.0, abs=1e-3)
    assert good.level_dbfs == pytest.approx(-9.0, abs=0.2)  # a sine of half scale: -6 dB peak, 3 dB less RMS
    assert good.peak_dbfs == pytest.approx(-6.0, abs=0.1)
    assert (good.clipped_ratio, good.silence_ratio) == (0.0, 0.0)
    assert (bad.outcome, bad.level_dbfs) == ("failed", None)
    assert place.files()[0].name == f"3-{os.getpid()}-1.jsonl"


def test_the_thread_writes_within_a_moment_and_what_is_left_at_the_end(place: Place) -> None:
    place.observer.start()
    place.observer.put(ended())
    ends_s = time.monotonic() + 5
    while not place.files():
        assert time.monotonic() < ends_s
        time.sleep(0.02)
    place.observer.put(ended())
    place.observer.close()
    assert len(place.seen()) == 2


def test_files_rotate_by_age_and_by_size(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for after_s in (0.0, 9.0, 2.0):
        place.clock.now_s += after_s
        place.observer.put(ended())
        place.observer.write()
    assert [len(file.read_text().splitlines()) for file in place.files()] == [2, 1]
    monkeypatch.setattr(observing, "ROTATE_BYTES", 500)
    for _ in range(20):
        place.observer.put(ended())
        place.observer.write()
    assert all(file.stat().st_size <= 500 for file in place.files())
    assert len(place.seen()) == 23


def test_the_oldest_files_are_dropped_and_counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "ROTATE_BYTES", 300)
    monkeypatch.setattr(observing, "KEPT_BYTES", 1500)
    for number in range(40):
        place.observer.put(ended(text_chars=number))
        place.observer.write()
        for file in place.files()[-1:]:
            os.utime(file, (number, number))
    assert sum(file.stat().st_size for file in place.files()) <= 1500
    assert place.dropped["file"] > 0
    kept = [seen.text_chars for seen in place.seen()]
    assert kept == list(range(40))[-len(kept) :]


def test_a_file_that_its_reader_removed_is_written_again(place: Place) -> None:
    place.observer.put(ended())
    place.observer.write()
    place.files()[0].unlink()
    place.observer.put(ended())
    place.observer.write()
    assert len(place.seen()) == 1


def test_what_waits_in_memory_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "MAX_HELD_BYTES", len(tone()) + 1)
    monkeypatch.setattr(observing, "MAX_HELD", 3)
    for _ in range(5):
        place.observer.put(ended(audio=[tone()]))
    assert place.dropped == {"measures": 2, "request": 2}
    place.observer.write()
    assert [seen.level_dbfs is not None for seen in place.seen()] == [True, False, False]
    place.observer.put(ended(audio=[tone()]))  # there is room again
    place.observer.write()
    assert place.seen()[-1].level_dbfs is not None


def test_a_full_disk_is_counted_and_over_when_there_is_room(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place.observer.put(ended())
    place.observer.write()
    folder = place.folder / "observations"
    parked = folder.rename(place.folder / "parked")
    folder.write_text("no folder any more", encoding="utf-8")
    for _ in range(3):
        place.observer.put(ended())
        place.observer.write()
    assert place.dropped == {"request": 3}
    assert caplog.text.count("cannot be written") == 2  # of the file, then of the folder; not again
    folder.unlink()
    parked.rename(folder)
    place.observer.put(ended())
    place.observer.write()
    assert len(place.seen()) == 2


def test_a_write_that_fits_in_part_leaves_no_half_line(place: Place) -> None:
    place.observer.put(ended())
    place.observer.write()
    file = place.files()[0]
    whole = file.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, hard))
    try:
        place.observer.put(ended())
        place.observer.write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.read_bytes() == whole
    assert place.dropped == {"request": 1}


def test_a_pair_is_two_sounds_and_then_its_json(place: Place) -> None:
    place.observer.put_pair(pair())
    place.observer.put_pair(pair("id2", arms=("stable",), fault="INTERNAL: broken"))
    place.observer.write()
    folder = place.folder / "pairs"
    assert sorted(file.name for file in folder.iterdir()) == [
        "id1.json",
        "id1.new.wav",
        "id1.stable.wav",
        "id2.json",
        "id2.stable.wav",
    ]
    with wave.open(str(folder / "id1.new.wav")) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (RATE, 1, 2)
        assert sound.readframes(sound.getnframes()) == tone(0.1)
    assert PairSeen.model_validate_json((folder / "id2.json").read_bytes()).fault == "INTERNAL: broken"
    order = [(folder / f"id1.{end}").stat().st_mtime_ns for end in ("stable.wav", "new.wav", "json")]
    assert order == sorted(order)


@pytest.mark.parametrize("limit", ["MAX_PAIRS", "MAX_PAIR_BYTES"])
def test_pairs_that_nobody_takes_are_bounded(place: Place, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(observing, limit, 2 if limit == "MAX_PAIRS" else 2 * len(tone(0.1)))
    for number in range(5):
        place.observer.put_pair(pair(f"id{number}"))
    place.observer.write()
    kept = len(list((place.folder / "pairs").glob("*.json")))
    assert 1 <= kept <= 2
    assert place.dropped == {"pair": 5 - kept}


def test_sounds_that_a_dead_process_left_without_their_json_are_removed(place: Place) -> None:
    folder = place.folder / "pairs"
    folder.mkdir(parents=True)
    old, new = folder / "dead.new.wav", folder / "alive.new.wav"
    for file, at_s in ((old, 100.0), (new, 990.0)):
        file.write_bytes(b"x")
        os.utime(file, (at_s, at_s))
    place.observer.put_pair(pair())
    place.observer.write()
    assert (old.exists(), new.exists()) == (False, True)


def test_a_pair_that_finds_no_room_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(observing, "write_text_atomically", full)
    place.observer.put_pair(pair())
    place.observer.write()
    assert list((place.folder / "pairs").iterdir()) == []
    assert place.dropped == {"pair": 1}


def test_lines_leave_out_what_is_not_known(place: Place) -> None:
    place.observer.put(ended("cancelled"))
    place.observer.write()
    assert "level_dbfs" not in json.loads(place.files()[0].read_text())


def test_one_request_that_cannot_be_measured_does_not_take_others_along(place: Place) -> None:
    place.observer.put(ended())
    place.observer.put(ended(audio=[b"odd"]))
    place.observer.put(ended())
    place.observer.write()
    assert len(place.seen()) == 2
    assert place.dropped == {"request": 1}
