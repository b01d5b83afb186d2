"""Listing, comparing and removing versions, and who uses them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest

from tests.harness import edit_yaml
from tests.repository.tiny import write_stages
from voxrepo.edge.table import EdgeTable, VoiceEntry, write_table
from voxrepo.repository.arms import ArmSpec, prepare_arm
from voxrepo.repository.layout import Layout
from voxrepo.rollout.plan import ArmStatus, Plan, PlannedVoice, ReplicaStatus, ReplicaVoice, RolloutFolder, write_json
from voxrepo.supervisor.state import ServerState, StateFolder
from voxrepo.versions.diff import diff_versions
from voxrepo.versions.listing import list_versions, version_info
from voxrepo.versions.names import StageRef
from voxrepo.versions.remove import remove_version
from voxrepo.versions.use import uses_of
from voxrepo_contract.errors import AlreadyExists, ConfigError, NotFound

VOCODER = StageRef("tiny", "vocoder")
FIRST = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
SECOND = {**FIRST, "vocoder": 2}


@pytest.fixture
def two(layout: Layout) -> Layout:
    """The voice with two versions of each stage; it pins the first."""
    write_stages(layout, "tiny", version=2)
    return layout


def in_plan(layout: Layout, stable: dict[str, int], arms: dict[str, dict[str, int]]) -> None:
    plan = Plan(generation=1, voices={"tiny": PlannedVoice(rollout="r1", stable=stable, arms=arms)})
    write_json(RolloutFolder(layout.rollouts).plan_file, plan)


def on_replica(layout: Layout, state: str, age_s: float = 0.0) -> None:
    arm = ArmStatus.model_validate({"state": state, "versions": SECOND})
    status = ReplicaStatus(
        name="a", pid=1, updated_at=time.time() - age_s, voices={"tiny": ReplicaVoice(stable=FIRST, arms={"new": arm})}
    )
    write_json(RolloutFolder(layout.rollouts).status_file("a"), status)


def served_here(layout: Layout, pid: int) -> None:
    folder = StateFolder(layout)
    folder.create()
    started = psutil.Process(os.getpid()).create_time()
    folder.write(ServerState(pid=pid, started_at=started, phase="ready"))
    entry = VoiceEntry(
        name="tiny",
        language="en-US",
        sample_rate_hz=16_000,
        speakers=["joe"],
        max_text_chars=100,
        speed_min=1,
        speed_max=1,
        versions=SECOND,
        channels=8,
        hop_length_samples=256,
        window_frames=64,
        overlap_frames=8,
        first_window_frames=64,
    )
    write_table(folder.table_file, EdgeTable(generation=1, voices={"tiny": entry}))


def test_a_version_that_nobody_uses_is_removed(two: Layout):
    remove_version(two, VOCODER, 2)
    assert [info.version for info in list_versions(two, ["tiny"], "vocoder")] == [1]
    assert not [entry for entry in two.model_repository.iterdir() if entry.name.startswith(".")]


def test_a_version_that_the_voice_pins_stays(two: Layout):
    with pytest.raises(AlreadyExists, match=r"tiny.vocoder version 1 is in use \(voice.yaml\)"):
        remove_version(two, VOCODER, 1)
    assert two.version_dir("tiny.vocoder", 1).is_dir()


def test_the_last_version_stays_even_if_nobody_uses_it(layout: Layout):
    edit_yaml(layout.voice_file("tiny"), stages__vocoder__version=5)
    with pytest.raises(AlreadyExists, match="is the only one"):
        remove_version(layout, VOCODER, 1)


def test_a_version_that_is_not_there_is_said_with_those_that_are(two: Layout):
    with pytest.raises(NotFound, match=r"tiny.vocoder has no version 7; there are: 1, 2"):
        remove_version(two, VOCODER, 7)


@pytest.mark.parametrize(
    ("who", "phrase"),
    [
        ("plan_arm", "rollout r1: arm new"),
        ("plan_stable", "rollout r1: stable"),
        ("arm_folder", "arm new"),
        ("replica", "server a: arm new"),
        ("server", "the server that runs here"),
    ],
)
def test_a_version_that_is_served_or_planned_stays(two: Layout, who: str, phrase: str):
    if who == "plan_arm":
        in_plan(two, FIRST, {"new": SECOND})
    elif who == "plan_stable":
        in_plan(two, SECOND, {})
    elif who == "arm_folder":
        prepare_arm(two, ArmSpec(voice="tiny", arm="new", versions=SECOND), "1")
    elif who == "replica":
        on_replica(two, "ready")
    else:
        served_here(two, os.getpid())
    with pytest.raises(AlreadyExists, match=phrase):
        remove_version(two, VOCODER, 2)
    assert two.version_dir("tiny.vocoder", 2).is_dir()


def test_servers_that_are_gone_and_arms_that_failed_hold_no_version(two: Layout):
    on_replica(two, "ready", age_s=60)
    assert 2 not in uses_of(two, "tiny")["vocoder"]
    on_replica(two, "failed")
    assert 2 not in uses_of(two, "tiny")["vocoder"]
    served_here(two, 2**22 + 1)
    assert 2 not in uses_of(two, "tiny")["vocoder"]


def test_a_plan_that_cannot_be_read_removes_nothing(two: Layout):
    file = RolloutFolder(two.rollouts).plan_file
    file.parent.mkdir(parents=True)
    file.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError):
        remove_version(two, VOCODER, 2)
    assert two.version_dir("tiny.vocoder", 2).is_dir()


def test_the_list_shows_all_versions_also_damaged_ones(two: Layout):
    (two.version_dir("tiny.vocoder", 2) / "stage.yaml").write_text("program: other\n", encoding="utf-8")
    infos = list_versions(two, ["tiny"])
    assert [(info.ref.stage, info.version) for info in infos] == [
        (stage, version) for stage in FIRST for version in (1, 2)
    ]
    assert infos[-2].used_by == ("voice.yaml",)
    assert infos[-1].used_by == ()
    assert "program" in infos[-1].trouble
    folder = two.version_dir("tiny.vocoder", 1)
    assert infos[-2].size_bytes == sum(file.stat().st_size for file in folder.iterdir())


def test_equal_versions_do_not_differ(two: Layout):
    one, other = (version_info(two, VOCODER, number) for number in (1, 2))
    assert diff_versions(two, one, other) == []


def test_differences_name_what_differs_with_both_sides(two: Layout):
    file = two.version_dir("tiny.vocoder", 2) / "stage.yaml"
    edit_yaml(file, options__gain=2.0, quality={"smoke": {"metrics": {"level_dbfs": -20.0}}}, provenance={"a": 1})
    (Path(file.parent) / "generator.onnx").write_bytes(b"graph of another size")
    one, other = (version_info(two, VOCODER, number) for number in (1, 2))
    found = {entry.what: (entry.one, entry.other) for entry in diff_versions(two, one, other)}
    assert found.pop("size_bytes") == (one.size_bytes, other.size_bytes)
    assert found == {
        "options.gain": (1.0, 2.0),
        "file.generator.onnx.bytes": (15, 21),
        "quality.smoke.metrics.level_dbfs": ("-", -20.0),
    }
