"""What every target of a conversion offers, and the choice of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, Protocol

import onnx
import onnxruntime as ort

from voxrepo.convert.plan import ShapePlan
from voxrepo.convert.refusal import BAD_VALUE, AtcRefusal
from voxrepo.convert.soc import Soc

Progress = Callable[[str, float], None]
"""Is told a sentence and the share done, 0 to 1."""


def part_of(progress: Progress, start: float, share: float) -> Progress:
    """The progress of a part of the work, which begins at ``start`` and is ``share`` of the whole."""
    return lambda message, done: progress(message, start + share * done)


@dataclass(frozen=True)
class BuildRequest:
    """One graph to compile.

    Attributes:
        name: of the model inside the file.
        model: the graph; not changed.
        plan: how its shapes are to be.
        soc: chip to build for.
        precision: ``fp32``, ``fp16``, ``mixed`` or ``int8``. A target that lowers itself is given the FP32 graph, the
            others one that is lowered already.
        command: the command line, kept in the file.
        keep: names of nodes that stay in FP32, for a target that lowers itself.
        extra: further arguments for the target's compiler, as the user gave them.
    """

    name: str
    model: onnx.ModelProto
    plan: ShapePlan
    soc: Soc
    precision: str
    command: str
    keep: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuiltTensor:
    """An input or output of a compiled graph; dims -1 where they vary."""

    name: str
    dtype: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class BuiltGraph:
    """What a target made.

    Attributes:
        file: the compiled graph.
        kind: ``static``, ``batch_gears``, ``dims_gears`` or ``range``.
        inputs: in the graph's order.
        outputs: in the graph's order.
        gears: number of gears, 0 for other kinds.
        weights_bytes: device memory for weights.
        work_bytes: device memory for intermediate results at the largest size that is known.
        unbounded_outputs: sizes of outputs depend on values.
        is_built: whether ``file`` is there; if not, its compiler is not on this machine and ``script`` makes it.
        script: what to run on a machine that has the compiler.
    """

    file: Path
    kind: str
    inputs: tuple[BuiltTensor, ...]
    outputs: tuple[BuiltTensor, ...]
    gears: int
    weights_bytes: int
    work_bytes: int
    unbounded_outputs: bool
    is_built: bool = True
    script: Path | None = None


def cpu_tools() -> dict[str, str]:
    """Versions of voxrepo, onnx and onnxruntime: all that makes a file that no compiler of a device makes."""
    return {"voxrepo": version("voxrepo"), "onnx": str(onnx.__version__), "onnxruntime": str(ort.__version__)}


class Target(Protocol):
    """A compiler of graphs for a device."""

    name: str
    """As ``--target`` names it."""

    device: Literal["cpu", "npu"]
    """Where its graphs run."""

    suffix: str
    """Of its files, ``.om`` or ``.onnx``."""

    lowers_itself: bool
    """Whether its compiler lowers the precision; if not, it is given lowered graphs."""

    def check_precision(self, precision: str) -> None:
        """Refuse a precision that this target does not make.

        Raises:
            AtcRefusal: saying which it makes.
        """
        ...

    def tools(self) -> dict[str, str]:
        """Versions of what makes the file, for ``provenance``."""
        ...

    def build(self, request: BuildRequest, file: Path, progress: Progress) -> BuiltGraph:
        """Check the graph and write the compiled file; on failure nothing is left.

        Raises:
            AtcRefusal: the graph or its shapes are not what the device takes.
            ConfigError: the file cannot be written.
        """
        ...

    def reference_model(self, file: Path) -> bytes:
        """ONNX bytes that compute on a CPU what the compiled file computes, for the proof. Not asked of a file that is
        not built.

        Raises:
            ConfigError: the file is damaged.
        """
        ...


def find_target(name: str) -> Target:
    """The target of that name.

    Raises:
        AtcRefusal: there is none.
    """
    from voxrepo.convert.ascend_target import AscendTarget
    from voxrepo.convert.emulator_target import EmulatorTarget
    from voxrepo.convert.onnx_target import OnnxTarget

    targets: dict[str, Callable[[], Target]] = {"ascend": AscendTarget, "emulator": EmulatorTarget, "onnx": OnnxTarget}
    if name not in targets:
        *others, last = targets
        raise AtcRefusal(BAD_VALUE, f"--target {name!r} is not offered; choose {', '.join(others)} or {last}")
    return targets[name]()
