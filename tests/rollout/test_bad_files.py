"""Files and commands that nobody should have written cost themselves, not the controller."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.rollout.world import VOICE, World, tone, write_wav
from voxrepo.rollout.decision import Command
from voxrepo.rollout.plan import RequestSeen
from voxrepo.rollout.replica_folders import FORGET_S, ReplicaFolders


def line(at: str = "1010.0", latency: str = "1.0", extra: str = "underruns", value: str = "0") -> str:
    known = '"rollout":"r1","voice":"en-joe","arm":"candidate","outcome":"ok"'
    return f'{{"at":{at},{known},"latency_s":{latency},"{extra}":{value}}}'


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "root", servers=1)
    made.start()
    made.look_until(lambda: made.phase == "running")
    yield made
    made.kill()


@pytest.mark.parametrize(
    "bad",
    [
        line(at="NaN"),
        line(at="1e300"),
        line(at="-1"),
        line(latency="NaN"),
        line(latency="Infinity"),
        line(latency="-1e308"),
        line(extra="text_chars", value=str(2**80)),
        line(extra="underruns", value=str(2**63)),
        *(
            line(extra=name, value=value)
            for name in ("first_piece_s", "engine_s", "audio_s", "level_dbfs", "peak_dbfs", "clipped_ratio")
            for value in ("NaN", "Infinity", "1e308", "1" * 400)
        ),
        line(extra="silence_ratio", value="NaN"),
        line(extra="outcome", value='"\\ud800"'),
        "[" * 100_000,
    ],
)
def test_a_line_with_a_number_that_is_none_costs_that_line(
    world: World, bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = world.folder.observations("s0") / "0-1-1.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{line()}\n{bad}\n{line()}\n", encoding="utf-8")
    world.look()
    world.look()
    assert world.counted() == 2
    assert "1 lines are no observations" in caplog.text


def test_every_number_of_a_request_has_bounds() -> None:
    known = {"at": 1.0, "rollout": "r1", "voice": VOICE, "arm": "a", "outcome": "ok", "latency_s": 1.0}
    numbers = [name for name, field in RequestSeen.model_fields.items() if "float" in str(field.annotation)]
    assert len(numbers) == 9
    for name in numbers:
        for value in (float("nan"), float("inf"), 1e300, -1e300):
            with pytest.raises(ValidationError):
                RequestSeen.model_validate({**known, name: value})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"speed":1.0', '"speed":NaN'),
        ('"at":', '"at":1e300,"at":1e300,"x":'),
        ('"arm":"candidate"', '"arm":"../../x"'),
        ('"arm":"candidate"', f'"arm":"{"x" * 300}"'),
        ('"rollout":"r1"', '"rollout":"../../../x"'),
        ('"latency_s":null', '"latency_s":Infinity'),
    ],
)
def test_a_bad_pair_costs_that_pair(world: World, old: str, new: str) -> None:
    world.pair("bad")
    file = world.folder.pairs("s0") / "bad.json"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    world.pair("good")
    world.measure_all()
    assert [pair.name for pair in world.folder.pairs("s0").iterdir()] == []
    assert sorted(file.name for file in world.folder.samples.glob("*/*.wav")) == [
        "good.candidate-candidate.wav",
        "good.candidate-stable.wav",
    ]


def wav_of_no_rate(file: Path) -> None:
    write_wav(file, tone(0.5))
    header = bytearray(file.read_bytes())
    header[24:28] = bytes(4)
    file.write_bytes(header)


def wav_without_audio(file: Path) -> None:
    write_wav(file, tone(0.0))


def wav_of_another_kind(file: Path) -> None:
    file.write_bytes(b"RIFF\xff\xff\xff\xffWAVEfmt \xff\xff\xff\xff")


@pytest.mark.parametrize("spoil", [wav_of_no_rate, wav_without_audio, wav_of_another_kind])
@pytest.mark.parametrize("arm", ["stable", "candidate"])
def test_audio_that_cannot_be_measured_costs_that_pair(world: World, spoil, arm: str) -> None:
    world.pair("bad")
    spoil(world.folder.pairs("s0") / f"bad.{arm}.wav")
    world.pair("good")
    world.measure_all()
    assert world.phase == "running"
    assert (world.folder.samples / "r1" / "good.candidate-stable.wav").exists()


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_a_command_has_no_weights_that_are_no_numbers(weight: float) -> None:
    with pytest.raises(ValidationError):
        Command(kind="set_weights", weights={"candidate": weight})


@pytest.mark.parametrize(
    "text", ['{"kind":"set_weights","weights":{"candidate":null}}', '{"kind":"of a later version"}', "{"]
)
def test_a_command_that_cannot_be_read_is_answered_in_the_log(world: World, text: str) -> None:
    with world.store() as store:
        order = store.order("r1", Command(kind="pause"))
        with store.database.transaction() as connection:
            connection.execute("UPDATE commands SET command = ? WHERE id = ?", (text, order.id))
        after = store.order("r1", Command(kind="abort"))
    world.look()
    with world.store() as store:
        assert store.is_consumed(order.id)
        assert store.is_consumed(after.id)
    (refused,) = [logged.event for logged in world.events if logged.event.kind == "command_refused"]
    assert "cannot be understood" in refused.reason
    assert world.phase == "aborting"


def test_a_folder_that_was_copied_by_hand_neither_counts_nor_costs_the_server_its_own(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    folder = world.folder.replica("s0")
    shutil.copytree(folder, world.folder.replica("s0.old"))
    world.now += FORGET_S + 60
    world.servers[0].follow()
    folders = ReplicaFolders(world.folder, lambda: world.now)
    assert [status.name for status in folders.statuses()] == ["s0"]
    assert "is of the server 's0'" in caplog.text
    folders.remove_old()
    assert folder.is_dir()


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_a_server_whose_time_is_no_number_is_passed_over(world: World, value: str) -> None:
    file = world.folder.status_file("s1")
    shutil.copytree(world.folder.replica("s0"), file.parent)
    text = file.read_text(encoding="utf-8").replace('"s0"', '"s1"')
    file.write_text(text.replace(f'"updated_at": {world.now}', f'"updated_at": {value}'), encoding="utf-8")
    assert value in file.read_text(encoding="utf-8")
    assert [status.name for status in ReplicaFolders(world.folder).statuses()] == ["s0"]
