from __future__ import annotations

from pathlib import Path

import pytest

from voxrepo.rollout.plan import Plan, PlannedVoice, write_json
from voxrepo.supervisor.plan_follower import PlanFollower

VERSIONS = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}


def test_follows_the_file_and_reads_it_only_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    follower = PlanFollower(file)
    assert not follower.refresh()
    assert follower.plan == Plan()
    plan = Plan(generation=3, voices={"one": PlannedVoice(rollout="r", stable=VERSIONS)})
    write_json(file, plan)
    assert follower.refresh()
    assert follower.plan == plan
    assert not follower.refresh()
    file.touch()
    assert not follower.refresh(), "it says the same"


@pytest.mark.parametrize("content", ["", "{", '{"generation": 4, "voices": {"one": {"stable": {"vocoder": 0}}}}'])
def test_a_bad_file_is_logged_once_and_the_last_good_plan_is_kept(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "plan.json"
    plan = Plan(generation=3)
    write_json(file, plan)
    follower = PlanFollower(file)
    follower.refresh()
    file.write_text(content, encoding="utf-8")
    assert [follower.refresh() for _ in range(3)] == [False] * 3
    assert follower.plan == plan
    assert sum("plan.json" in line and "generation 3 stays" in line for line in caplog.messages) == 1
    file.unlink()
    assert not follower.refresh()
    assert follower.plan == plan
