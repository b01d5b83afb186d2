from __future__ import annotations

import shutil

import pytest

from tests.repository.tiny import make_voice
from voxrepo.repository.arms import CheckedArm, check_arm
from voxrepo.repository.check import take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.supervisor.arm_memory import (
    BASE_BYTES,
    MIB,
    RESERVE_BYTES,
    SIZE_FACTOR,
    Memory,
    check_memory,
    free_bytes,
    needed_bytes,
)
from voxrepo_contract.errors import Unavailable


@pytest.fixture
def arm(layout: Layout) -> CheckedArm:
    make_voice(layout, "one")
    folder = layout.model_repository / "one.vocoder"
    shutil.copytree(folder / "1", folder / "2")
    return check_arm(layout, take_inventory(layout).voices["one"], "new", {"vocoder": 2})


def test_what_runs_already_is_the_measure_and_grows_with_the_files() -> None:
    assert needed_bytes(100, 1, served_bytes=50 * MIB, served_files_bytes=100) == 50 * MIB
    assert needed_bytes(300, 1, served_bytes=50 * MIB, served_files_bytes=100) == 150 * MIB
    assert needed_bytes(10, 1, served_bytes=50 * MIB, served_files_bytes=100) == 50 * MIB
    assert needed_bytes(10 * MIB, 3) == 3 * (BASE_BYTES + SIZE_FACTOR * 10 * MIB)


def test_an_arm_without_room_is_refused_with_the_numbers(layout: Layout, arm: CheckedArm) -> None:
    held = 500 * MIB

    def check(free: int) -> None:
        check_memory(layout, arm.voice, arm, ["vocoder"], Memory(lambda: free, lambda model, version: held))

    check(held + RESERVE_BYTES + MIB)
    with pytest.raises(Unavailable, match=r"vocoder version 2 about 500 MiB.* 300 MiB are left.*resource-preserving"):
        check(300 * MIB)


def test_nothing_is_asked_for_versions_that_are_loaded(layout: Layout, arm: CheckedArm) -> None:
    check_memory(layout, arm.voice, arm, [], Memory(lambda: RESERVE_BYTES, lambda model, version: 0))


def test_there_is_some_memory_here() -> None:
    assert 10 * MIB < free_bytes() < 2**50
