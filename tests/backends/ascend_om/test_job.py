from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from om_backend.job import run_isolated

from voxrepo_contract import tensors
from voxrepo_contract.errors import Internal, InvalidArgument, Unavailable

from .graphs import job_for


def test_a_job_is_answered_once():
    job, answers = job_for({})
    job.finish({"y": np.zeros(1)})
    job.finish({"y": np.ones(1)})
    job.fail(Internal("late"))
    assert job.answered
    assert answers.count == 1
    assert answers.outputs["y"] == 0


def test_a_failed_job_stays_failed():
    job, answers = job_for({})
    job.fail(Internal("first"))
    job.fail(Unavailable("second"))
    job.finish({})
    assert answers.error.message == "first"


def test_a_job_whose_answer_cannot_be_sent_is_not_answered_again():
    job, answers = job_for({})

    def broken(outputs: Any) -> None:
        raise RuntimeError("the connection is gone")

    job.on_finish = broken
    with pytest.raises(RuntimeError):
        job.finish({})
    job.fail(Internal("late"))
    assert answers.count == 0


def test_a_row_is_the_tensor_without_its_batch_axis():
    job, _ = job_for({"phoneme_ids": np.array([[4, 5]], np.int64)})
    assert job.row(tensors.PHONEME_IDS).tolist() == [4, 5]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.zeros((2, 3), np.int64), "input 'phoneme_ids' must be INT64 [1, -1], got int64 [2, 3]"),
        (np.zeros(3, np.int64), "input 'phoneme_ids' must be INT64 [1, -1], got int64 [3]"),
        (np.zeros((1, 3, 1), np.int64), "input 'phoneme_ids' must be INT64 [1, -1], got int64 [1, 3, 1]"),
        (np.zeros((1, 3), np.float32), "input 'phoneme_ids' must be INT64 [1, -1], got float32 [1, 3]"),
        (np.zeros((1, 3), np.int32), "input 'phoneme_ids' must be INT64 [1, -1], got int32 [1, 3]"),
        (None, "input 'phoneme_ids' is missing"),
    ],
)
def test_a_tensor_of_another_type_or_shape_is_refused(value: Any, says: str):
    job, _ = job_for({} if value is None else {"phoneme_ids": value})
    with pytest.raises(InvalidArgument) as caught:
        job.row(tensors.PHONEME_IDS)
    assert caught.value.message == says


@pytest.mark.parametrize("shape", [(1, 0), (1, 2)])
def test_a_scalar_is_one_element(shape: tuple[int, ...]):
    job, _ = job_for({"speed": np.ones(shape, np.float32)})
    with pytest.raises(InvalidArgument, match=r"input 'speed' must be FP32 \[1, 1\]"):
        job.scalar(tensors.SPEED)


@pytest.mark.parametrize(("value", "expected"), [(0.5, 0.5), (1, 1.0), (0, 0.0), (2.0, 2.0), (None, 0.7)])
def test_a_parameter_within_its_range_is_taken(value: object, expected: float):
    job, _ = job_for({}, {"noise_scale": value})
    assert job.number("noise_scale", 0.7, 0.0, 2.0) == expected


def test_a_parameter_not_given_has_its_default():
    assert job_for({})[0].number("noise_scale", 0.7, 0.0, 2.0) == 0.7


@pytest.mark.parametrize("value", [-0.1, 2.1, float("nan"), float("inf"), "1.0", True, [1.0], {}])
def test_a_parameter_outside_its_range_is_refused(value: object):
    job, _ = job_for({}, {"noise_scale": value})
    with pytest.raises(InvalidArgument, match="parameter 'noise_scale' must be a number from 0 to 2, got"):
        job.number("noise_scale", 0.7, 0.0, 2.0)


class Crowd:
    """Ten jobs with a call that fails when certain of them are in it."""

    def __init__(self, bad: set[int]) -> None:
        self.jobs, self.answers = zip(*[job_for({}) for _ in range(10)], strict=True)
        self.bad = bad
        self.calls: list[list[int]] = []

    def call(self, group: Sequence[int]) -> None:
        self.calls.append(list(group))
        if self.bad & set(group):
            raise Internal(f"cannot do {sorted(self.bad & set(group))}")
        for unit in group:
            self.jobs[unit].finish({})

    def run(self, units: Sequence[int] = range(10)) -> None:
        run_isolated(units, self.call, lambda unit: self.jobs[unit])


def test_a_group_without_fault_is_called_once():
    crowd = Crowd(set())
    crowd.run()
    assert crowd.calls == [list(range(10))]
    assert all(answers.finished for answers in crowd.answers)


def test_a_bad_unit_fails_its_own_job_only():
    crowd = Crowd({3, 7})
    crowd.run()
    assert [number for number, answers in enumerate(crowd.answers) if answers.failed] == [3, 7]
    assert crowd.answers[3].error.message == "cannot do [3]"
    assert all(answers.count == 1 for answers in crowd.answers)


def test_a_single_bad_unit_is_tried_once():
    crowd = Crowd({3})
    crowd.run([3])
    assert crowd.calls == [[3]]


def test_units_of_answered_jobs_are_left_out():
    crowd = Crowd(set())
    crowd.jobs[4].fail(Internal("gone"))
    crowd.run()
    assert crowd.calls == [[0, 1, 2, 3, 5, 6, 7, 8, 9]]
    crowd.run([4])
    assert len(crowd.calls) == 1
