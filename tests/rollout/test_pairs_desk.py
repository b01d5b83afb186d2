from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.rollout.world import CANARY, Audio, World, tone
from voxrepo.rollout.kept_audio import FIRST, WORST
from voxrepo.rollout.observed import Observed, PairRecord
from voxrepo.rollout.pair_measures import PairMeasures
from voxrepo.rollout.pairs_desk import MAX_BACKLOG, ORPHAN_S, PairsDesk
from voxrepo_contract.errors import ConfigError


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "root", servers=1)
    made.start()
    yield made
    made.kill()


def work(world: World, desk: PairsDesk) -> int:
    taken, end = 0, time.monotonic() + 20
    while list(world.folder.replicas.glob("*/pairs/*.json")):
        taken += desk.step()
        time.sleep(0.002)
        assert time.monotonic() < end
    return taken


def records(world: World) -> dict[str, PairRecord]:
    with world.store() as store:
        return {pair.seen.id: pair for pair in Observed(store.database).pairs("r1")}


def audio_files(world: World) -> set[str]:
    return {str(file.relative_to(world.folder.path)) for file in world.folder.samples.glob("*/*.wav")}


def test_what_differs_is_measured(world: World) -> None:
    world.pair("same")
    world.pair("loud", gain=2.0)
    world.pair("slow", stretch=1.3)
    world.pair("mute", fault="INTERNAL: the graph failed")
    with world.store() as store:
        assert work(world, PairsDesk(world.folder, Observed(store.database))) == 4
    found = {id_: record.measures for id_, record in records(world).items()}
    assert found["same"]["duration_ratio"] == 1.0
    assert found["same"]["level_difference_db"] == 0.0
    assert found["same"]["mel_cepstral_distance_db"] == pytest.approx(0, abs=0.01)
    assert found["loud"]["level_difference_db"] == pytest.approx(6.02, abs=0.05)
    assert found["slow"]["duration_ratio"] == pytest.approx(1.3, abs=0.01)
    assert found["mute"] == {}
    assert not list(world.folder.pairs("s0").iterdir())


def test_the_first_and_the_worst_pairs_are_kept_and_nothing_else(world: World) -> None:
    with world.store() as store:
        desk = PairsDesk(world.folder, Observed(store.database))
        for number in range(20):
            world.now += 1
            world.pair(f"p{number:02}", gain=1.0 + 0.02 * number if number % 2 else 1.0)
            work(world, desk)
    kept = {id_: record.files for id_, record in records(world).items() if record.files}
    first = [f"p{number:02}" for number in range(FIRST)]
    worst = [f"p{number:02}" for number in range(19, 19 - 2 * WORST, -2)]
    assert sorted(kept) == sorted({*first, *worst})
    assert {file for files in kept.values() for file in files.values()} == audio_files(world)
    assert set(kept["p00"]) == {"stable", "candidate"}


def test_a_pair_is_counted_once_though_the_desk_ended_before_its_files_were_removed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.pair("p1")
    with world.store() as store:
        desk = PairsDesk(world.folder, Observed(store.database))
        monkeypatch.setattr(desk, "_remove", lambda file: None)
        end = time.monotonic() + 10
        while not desk.step():
            assert time.monotonic() < end
            time.sleep(0.002)
        again = PairsDesk(world.folder, Observed(store.database))
        assert work(world, again) == 0
    assert list(records(world)) == ["p1"]
    assert len(audio_files(world)) == 2


def test_damaged_pairs_are_dropped_and_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.pair("p1")
    world.pair("p2")
    world.pair("p3")
    folder = world.folder.pairs("s0")
    (folder / "p1.candidate.wav").write_bytes(b"no audio")
    (folder / "p2.json").write_text("{", encoding="utf-8")
    with world.store() as store:
        desk = PairsDesk(world.folder, Observed(store.database))
        assert work(world, desk) == 1
        assert desk.dropped == 1
    assert "p1.json cannot be measured" in caplog.text
    assert not list(folder.iterdir())


def test_no_more_pairs_wait_than_can_be_measured_in_time(world: World) -> None:
    for number in range(MAX_BACKLOG + 7):
        world.pair(f"p{number}", seconds=0.05)
    with world.store() as store:
        desk = PairsDesk(world.folder, Observed(store.database))
        desk.step()
        assert desk.dropped == 7
        desk.close()
    assert len(list(world.folder.pairs("s0").glob("*.json"))) == MAX_BACKLOG


def test_audio_that_belongs_to_nothing_is_swept_away(world: World) -> None:
    world.pair("p1")
    with world.store() as store:
        desk = PairsDesk(world.folder, Observed(store.database), clock=time.time)
        work(world, desk)
        lost = world.folder.samples / "r1" / "p9.candidate-stable.wav"
        lost.write_bytes(b"")
        folder = world.folder.pairs("s0")
        old, new = folder / "p7.stable.wav", folder / "p8.stable.wav"
        for file in (old, new):
            file.write_bytes(b"")
        os.utime(old, (time.time() - ORPHAN_S - 1,) * 2)
        desk.sweep()
    assert not lost.exists()
    assert len(audio_files(world)) == 2
    assert [file.name for file in folder.iterdir()] == [new.name]


class Ear:
    def transcribe(self, audio: Audio, sample_rate_hz: int, language: str) -> str:
        return "hello" if len(audio) < 5000 else "good bye"


def test_a_recogniser_listens_only_where_a_gate_asks_for_it(world: World) -> None:
    pytest.importorskip("jiwer")
    world.pair("p1", stretch=2.0)
    world.pair("p2")
    asked: list[str] = []

    def wants(rollout: str) -> bool:
        asked.append(rollout)
        return len(asked) == 1

    with world.store() as store:
        desk = PairsDesk(world.folder, Observed(store.database), wants, PairMeasures(Ear))
        work(world, desk)
    heard, not_heard = sorted((record.measures for record in records(world).values()), key=len, reverse=True)
    assert heard["word_error_rate"] > 0
    assert heard["stable_word_error_rate"] == 0
    assert "word_error_rate" not in not_heard
    assert asked == ["r1", "r1"]


def test_a_recogniser_that_is_not_there_is_told_in_the_log_of_the_rollout(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> Ear:
        raise ConfigError("the recogniser comes with the optional extra 'asr'")

    monkeypatch.setattr("voxrepo.rollout.pairs_desk.PairMeasures", lambda: PairMeasures(absent))
    with world.store() as store:
        store.database.connection.execute("UPDATE rollouts SET spec = ?", (SPEC_WITH_RATES,))
    world.look_until(lambda: world.phase == "running")
    world.pair("p1")
    world.measure_all()
    world.look(2)
    world.look(2)
    said = [logged.event.reason for logged in world.events if logged.event.kind == "controller"]
    assert said == ["error rates are not measured: the recogniser comes with the optional extra 'asr'"]
    assert "duration_ratio" in records(world)["p1"].measures


SPEC_WITH_RATES = CANARY + "gates: [{metric: word_error_rate, max_difference: 0.1}]\npair_percent: 50\n"


def test_tones_are_audible() -> None:
    assert np.abs(tone(0.1)).max() > 1000
