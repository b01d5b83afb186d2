"""One request on its way through a stage program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from om_backend.runtime import NUMPY_DTYPES, Array
from voxrepo_contract.errors import InvalidArgument, VoxrepoError
from voxrepo_contract.tensors import TensorSpec


@dataclass
class Job:
    """One request: its tensors, its parameters, and the way to answer it.

    A job is answered exactly once, by :meth:`finish` or :meth:`fail`; later calls are ignored, so that a fault in a
    shared call cannot answer a request twice (a second response through Triton's sender kills the server).

    Attributes:
        inputs: tensors by name, with the batch axis of size 1 in front.
        parameters: the request's parameters.
        on_finish: sends the outputs.
        on_fail: sends the error.
    """

    inputs: Mapping[str, Array]
    parameters: Mapping[str, object]
    on_finish: Callable[[Mapping[str, Array]], None]
    on_fail: Callable[[VoxrepoError], None]
    answered: bool = field(default=False, init=False)

    def finish(self, outputs: Mapping[str, Array]) -> None:
        """Answer with ``outputs``."""
        if not self.answered:
            self.answered = True
            self.on_finish(outputs)

    def fail(self, error: VoxrepoError) -> None:
        """Answer with ``error``."""
        if not self.answered:
            self.answered = True
            self.on_fail(error)

    def row(self, spec: TensorSpec) -> Array:
        """The tensor ``spec`` of this request without its batch axis.

        Raises:
            InvalidArgument: the tensor is missing, or its data type or shape is wrong.
        """
        value = self.inputs.get(spec.name)
        if value is None:
            raise InvalidArgument(f"input {spec.name!r} is missing")
        want = (1, *spec.dims)
        fits = value.ndim == len(want) and all(w in {-1, have} for w, have in zip(want, value.shape, strict=True))
        if not fits or value.dtype != NUMPY_DTYPES[spec.dtype]:
            raise InvalidArgument(
                f"input {spec.name!r} must be {spec.dtype} {list(want)}, got {value.dtype} {list(value.shape)}"
            )
        row: Array = value[0]
        return row

    def scalar(self, spec: TensorSpec) -> float | int:
        """The only element of a [1, 1] tensor."""
        value: float | int = np.asarray(self.row(spec)).reshape(-1)[0].item()
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A numeric request parameter within [low, high].

        Raises:
            InvalidArgument: naming the parameter and its range.
        """
        value = self.parameters.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise InvalidArgument(f"parameter {name!r} must be a number from {low:g} to {high:g}, got {value!r}")
        return float(value)

    def whole_number(self, name: str, default: int, low: int, high: int) -> int:
        """An integer request parameter within [low, high].

        Raises:
            InvalidArgument: naming the parameter and its range.
        """
        value = self.parameters.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidArgument(f"parameter {name!r} must be a whole number from {low} to {high}, got {value!r}")
        return value


UnitT = TypeVar("UnitT")


def run_isolated(
    units: Sequence[UnitT], call: Callable[[Sequence[UnitT]], None], job_of: Callable[[UnitT], Job]
) -> None:
    """Run units together; if that fails, each alone, so that only the requests at fault see the error.

    Args:
        units: work that shares a call; units of requests already answered are left out.
        call: does the work; may be repeated for a unit, so it must not count twice.
        job_of: the request a unit belongs to.
    """
    live = [unit for unit in units if not job_of(unit).answered]
    if not live:
        return
    try:
        call(live)
    except VoxrepoError as error:
        if len(live) == 1:
            job_of(live[0]).fail(error)
            return
        for unit in live:
            run_isolated([unit], call, job_of)


class Program(Protocol):
    """A stage program: host-side glue that runs a stage's graphs for a batch of requests."""

    def warm_up(self) -> str:
        """Run typical lengths once and measure call costs; returns one line for the log."""
        ...

    def run(self, jobs: list[Job]) -> None:
        """Answer every job. Never raises: what goes wrong is said to the jobs concerned."""
        ...
