from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.rollout.world import World
from voxrepo.rollout.inbox import COMPLETE_S, Inbox
from voxrepo.rollout.observed import Observed


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "root", servers=1, now=1_000_000.0)
    made.start()
    return made


def files_of(world: World) -> list[Path]:
    files = sorted(world.folder.replicas.glob("*/observations/*.jsonl"))
    for file in files:
        os.utime(file, (world.now, world.now))
    return files


def test_lines_are_taken_once_by_one_inbox_after_the_other(world: World) -> None:
    for number in range(3):
        world.speak("candidate", 10)
        with world.store() as store:
            inbox = Inbox(world.folder, Observed(store.database), lambda: world.now)
            assert inbox.take() == 10, number
            assert inbox.take() == 0
    assert world.counted() == 30


def test_half_a_line_waits_for_its_rest(world: World) -> None:
    world.speak("candidate", 2)
    (file,) = files_of(world)
    text = file.read_bytes()
    file.write_bytes(text[:-20])
    files_of(world)
    with world.store() as store:
        inbox = Inbox(world.folder, Observed(store.database), lambda: world.now)
        assert inbox.take() == 1
        assert inbox.take() == 0
        with file.open("ab") as stream:
            stream.write(text[-20:])
        assert inbox.take() == 1


def test_lines_that_are_none_are_passed_over_and_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.speak("candidate", 2)
    (file,) = files_of(world)
    with file.open("ab") as stream:
        stream.write(b'{"at": "yesterday"}\n\xff\xfe\n')
    world.speak("candidate", 1)
    with world.store() as store:
        assert Inbox(world.folder, Observed(store.database), lambda: world.now).take() == 3
    assert "2 lines are no observations" in caplog.text


def test_a_file_is_removed_when_it_is_complete_and_read(world: World) -> None:
    world.speak("candidate", 3)
    (file,) = files_of(world)
    with world.store() as store:
        observed = Observed(store.database)
        inbox = Inbox(world.folder, observed, lambda: world.now)
        inbox.take()
        inbox.take()
        assert file.exists()
        world.now += COMPLETE_S + 1
        inbox.take()
        assert not file.exists()
        assert observed.offsets() == {}
        world.now -= COMPLETE_S + 1
        world.speak("candidate", 3)  # another process with the same name for its file
        assert inbox.take() == 3


def test_a_file_that_was_removed_before_a_crash_does_not_hide_a_later_one(world: World) -> None:
    world.speak("candidate", 3)
    (file,) = files_of(world)
    with world.store() as store:
        observed = Observed(store.database)
        Inbox(world.folder, observed, lambda: world.now).take()
        file.unlink()
        inbox = Inbox(world.folder, observed, lambda: world.now)
        inbox.forget_lost()
        assert observed.offsets() == {}
        world.speak("candidate", 3)
        assert inbox.take() == 3


def test_files_of_several_servers_are_read_and_large_ones_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxrepo.rollout.inbox.READ_BYTES", 2000)
    world.speak("candidate", 50)
    world.speak("candidate", 50, server="s1")
    files_of(world)
    with world.store() as store:
        inbox = Inbox(world.folder, Observed(store.database), lambda: world.now)
        first = inbox.take()
        assert 2 <= first < 100
        for _ in range(40):
            inbox.take()
    assert world.counted() == 100


def test_what_another_controller_read_meanwhile_is_not_read_again(world: World) -> None:
    world.speak("candidate", 10)
    with world.store() as first, world.store() as second:
        mine = Inbox(world.folder, Observed(first.database), lambda: world.now)
        other = Inbox(world.folder, Observed(second.database), lambda: world.now)
        assert mine.take() == 10
        world.speak("candidate", 50)
        assert other.take() == 50
        assert mine.take() == 0
        world.speak("candidate", 5)
        assert mine.take() == 5
    assert world.counted() == 65


def test_what_another_controller_took_while_this_one_was_stopped_in_between_is_not_taken_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.speak("candidate", 10)
    with world.store() as first, world.store() as second:
        observed = Observed(first.database)
        mine = Inbox(world.folder, observed, lambda: world.now)
        other = Inbox(world.folder, Observed(second.database), lambda: world.now)
        add = observed.add_requests

        def stopped(*arguments: Any, **options: Any) -> int:
            assert other.take() == 10
            return add(*arguments, **options)

        monkeypatch.setattr(observed, "add_requests", stopped)
        assert mine.take() == 0
    assert world.counted() == 10
