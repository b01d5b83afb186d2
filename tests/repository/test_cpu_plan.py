from __future__ import annotations

import os
from pathlib import Path

import pytest

from voxrepo.repository.cpu_plan import Parallelism, cpu_quota_cores, opening_threads, plan_cpu, usable_cores
from voxrepo.repository.voice import StageSettings


@pytest.mark.parametrize(
    ("stage", "cores", "instances", "threads"),
    [
        ("text_frontend", 1, 1, 1),
        ("text_frontend", 2, 1, 1),
        ("text_frontend", 8, 1, 1),
        ("text_frontend", 64, 8, 1),
        ("acoustic", 1, 1, 1),
        ("acoustic", 2, 2, 2),
        ("acoustic", 3, 3, 2),
        ("acoustic", 4, 4, 2),
        ("vocoder", 8, 8, 1),
        ("vocoder", 64, 64, 1),
    ],
)
def test_auto_fills_the_cores(stage: str, cores: int, instances: int, threads: int):
    assert plan_cpu(stage, StageSettings(version=1), cores) == Parallelism(instances, threads)


@pytest.mark.parametrize("stage", ["text_frontend", "acoustic", "vocoder"])
def test_what_is_given_is_taken(stage: str):
    settings = StageSettings(version=1, instances=5, threads=3)
    assert plan_cpu(stage, settings, cores=2) == Parallelism(5, 3)


def test_instances_follow_given_threads():
    assert plan_cpu("vocoder", StageSettings(version=1, threads=4), cores=8) == Parallelism(2, 4)
    assert plan_cpu("vocoder", StageSettings(version=1, threads=16), cores=8) == Parallelism(1, 16)


@pytest.mark.parametrize("cores", range(1, 70))
@pytest.mark.parametrize("stage", ["acoustic", "vocoder"])
def test_auto_never_asks_for_more_instances_or_threads_than_there_are_cores(stage: str, cores: int):
    plan = plan_cpu(stage, StageSettings(version=1), cores)
    assert 1 <= plan.instances <= cores
    assert plan.threads <= min(cores, 2 if stage == "acoustic" else 1)


@pytest.mark.parametrize(
    ("text", "cores"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("50000 100000", 0.5), ("garbage", None)]
)
def test_reads_the_quota_of_a_container_in_cgroup_2(tmp_path: Path, text: str, cores: float | None):
    (tmp_path / "cpu.max").write_text(text)
    assert cpu_quota_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("200000", 2.0), ("-1", None)])
def test_reads_the_quota_of_a_container_in_cgroup_1(tmp_path: Path, quota: str, cores: float | None):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert cpu_quota_cores(tmp_path) == cores


def test_usable_cores_are_bounded_by_affinity_and_quota(tmp_path: Path):
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))
    (tmp_path / "cpu.max").write_text("10000 100000")
    assert usable_cores(tmp_path) == 1


@pytest.mark.parametrize(("device_ids", "instances"), [([], 1), ([0], 1), ([0, 2, 3], 3)])
def test_a_stage_on_npus_gets_an_instance_for_each(device_ids: list[int], instances: int):
    settings = StageSettings(version=1, device_ids=device_ids)
    assert plan_cpu("vocoder", settings, cores=64, on_npu=True).instances == instances
    assert plan_cpu("vocoder", settings.model_copy(update={"instances": 5}), cores=64, on_npu=True).instances == 5


def test_windows_that_begin_segments_get_two_threads_unless_their_number_is_given() -> None:
    assert opening_threads(StageSettings(version=1), cores=8) == 2
    assert opening_threads(StageSettings(version=1), cores=1) == 1
    assert opening_threads(StageSettings(version=1, threads=3), cores=8) == 3
