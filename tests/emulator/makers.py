"""Small graphs and emulated OMs of every kind, and programs that run on the emulator in a process of their own.

The model of all kinds is the same: ``x`` FP32 [batch, length] and ``scale`` FP32 [batch, 1] give ``y`` = x * scale
(FP32 [batch, length]) and, with ``total=True``, ``total`` FP32 [batch], the sums of y over the length.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from voxrepo_contract import emulated_om
from voxrepo_contract.emulated_om import OmHeader, OmTensor

REPOSITORY = Path(__file__).resolve().parents[2]
EMULATOR_DIR = REPOSITORY / "emulator"
SOC = "Ascend910B3"

Dim = int | str

_PRELUDE = """from __future__ import annotations
import asyncio, ctypes, json, os, sys, threading, time, warnings
from pathlib import Path
import numpy as np
import acl
from tests.emulator.session import *
"""


def scale_graph(batch: Dim, length: Dim, *, total: bool = False) -> bytes:
    """The ONNX graph described above; a name for a size makes it vary."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, length]),
        helper.make_tensor_value_info("scale", TensorProto.FLOAT, [batch, 1]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, length])]
    nodes = [helper.make_node("Mul", ["x", "scale"], ["y"])]
    initializers = []
    if total:
        outputs.append(helper.make_tensor_value_info("total", TensorProto.FLOAT, [batch]))
        initializers.append(helper.make_tensor("axes", TensorProto.INT64, [1], [1]))
        nodes.append(helper.make_node("ReduceSum", ["y", "axes"], ["total"], keepdims=0))
    return serialise(helper.make_graph(nodes, "scale", inputs, outputs, initializers))


def gather_graph() -> bytes:
    """``ids`` INT64 [4] picks rows of a table of 10: ids outside fail on the device, as a bad address does."""
    table = helper.make_tensor("table", TensorProto.FLOAT, [10, 2], [float(i) for i in range(20)])
    return serialise(
        helper.make_graph(
            [helper.make_node("Gather", ["table", "ids"], ["rows"])],
            "gather",
            [helper.make_tensor_value_info("ids", TensorProto.INT64, [4])],
            [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [4, 2])],
            [table],
        )
    )


def expand_graph() -> bytes:
    """``values`` FP32 [n] -> ``positive`` FP32 [m]: only those above 0, so that m depends on values."""
    zero = helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])
    nodes = [
        helper.make_node("Greater", ["values", "zero"], ["kept"]),
        helper.make_node("Compress", ["values", "kept"], ["positive"], axis=0),
    ]
    return serialise(
        helper.make_graph(
            nodes,
            "expand",
            [helper.make_tensor_value_info("values", TensorProto.FLOAT, ["n"])],
            [helper.make_tensor_value_info("positive", TensorProto.FLOAT, ["m"])],
            [zero],
        )
    )


def serialise(graph: onnx.GraphProto) -> bytes:
    """A model of that graph, checked, as bytes."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _scale_tensors(batch: int, length: int, *, total: bool) -> tuple[tuple[OmTensor, ...], tuple[OmTensor, ...]]:
    outputs = [OmTensor("y", "FP32", (batch, length))]
    if total:
        outputs.append(OmTensor("total", "FP32", (batch,)))
    return (OmTensor("x", "FP32", (batch, length)), OmTensor("scale", "FP32", (batch, 1))), tuple(outputs)


def write_static(path: Path, *, batch: int = 2, length: int = 8, total: bool = False, **header: Any) -> Path:
    """A static OM. Further keywords replace fields of the header."""
    inputs, outputs = _scale_tensors(batch, length, total=total)
    return _write(
        path,
        OmHeader("scale", SOC, emulated_om.STATIC, inputs, outputs),
        scale_graph(batch, length, total=total),
        header,
    )


def write_batch_gears(
    path: Path, *, batches: Sequence[int] = (1, 2, 4), length: int = 8, total: bool = False, **header: Any
) -> Path:
    """An OM with batch gears."""
    inputs, outputs = _scale_tensors(-1, length, total=total)
    gears = tuple({"x": (batch, length), "scale": (batch, 1)} for batch in batches)
    by_gear = tuple(_scale_outputs(batch, length, total=total) for batch in batches)
    made = OmHeader("scale", SOC, emulated_om.BATCH_GEARS, inputs, outputs, gears, by_gear)
    return _write(path, made, scale_graph("batch", length, total=total), header)


def write_dims_gears(
    path: Path,
    *,
    gears: Sequence[tuple[int, int]] = ((1, 8), (1, 16), (2, 16)),
    input_order: tuple[str, ...] = ("x", "scale"),
    total: bool = False,
    **header: Any,
) -> Path:
    """An OM with dims gears, each (batch, length)."""
    inputs, outputs = _scale_tensors(-1, -1, total=total)
    made = OmHeader(
        "scale",
        SOC,
        emulated_om.DIMS_GEARS,
        inputs,
        outputs,
        tuple({"x": (batch, length), "scale": (batch, 1)} for batch, length in gears),
        tuple(_scale_outputs(batch, length, total=total) for batch, length in gears),
        input_order,
    )
    return _write(path, made, scale_graph("batch", "length", total=total), header)


def write_range(
    path: Path, *, most_batch: int = 4, most_length: int = 64, unbounded: bool = False, **header: Any
) -> Path:
    """An OM for ranges 1 to ``most_batch`` and 1 to ``most_length``, or up to no limit."""
    batch = (1, -1 if unbounded else most_batch)
    length = (1, -1 if unbounded else most_length)
    made = OmHeader(
        "scale",
        SOC,
        emulated_om.RANGE,
        (OmTensor("x", "FP32", (-1, -1), (batch, length)), OmTensor("scale", "FP32", (-1, 1), (batch, (1, 1)))),
        (OmTensor("y", "FP32", (-1, -1), (batch, length)),),
        unbounded_outputs=unbounded,
    )
    return _write(path, made, scale_graph("batch", "length"), header)


def write_value_dependent(path: Path, *, most: int = 64, **header: Any) -> Path:
    """A range OM whose output size depends on values: its output size is 0 in the descriptor."""
    made = OmHeader(
        "positive",
        SOC,
        emulated_om.RANGE,
        (OmTensor("values", "FP32", (-1,), ((1, most),)),),
        (OmTensor("positive", "FP32", (-1,), ((0, -1),)),),
        unbounded_outputs=True,
    )
    return _write(path, made, expand_graph(), header)


def write_gather(path: Path, **header: Any) -> Path:
    """A static OM whose run fails on the device for ids outside 0 to 9."""
    made = OmHeader(
        "gather",
        SOC,
        emulated_om.STATIC,
        (OmTensor("ids", "INT64", (4,)),),
        (OmTensor("rows", "FP32", (4, 2)),),
    )
    return _write(path, made, gather_graph(), header)


def write_onnx(path: Path, onnx_bytes: bytes, header: OmHeader) -> Path:
    """An OM of any graph."""
    return _write(path, header, onnx_bytes, {})


def _scale_outputs(batch: int, length: int, *, total: bool) -> dict[str, tuple[int, ...]]:
    return {"y": (batch, length), **({"total": (batch,)} if total else {})}


def _write(path: Path, made: OmHeader, graph: bytes, changes: dict[str, Any]) -> Path:
    filled = replace(made, weights_bytes=len(graph), work_bytes=4096, conversion="made in a test")
    emulated_om.write(path, replace(filled, **changes), graph)
    return path


@dataclass(frozen=True)
class Ended:
    """A process that ran a program on the emulator.

    Attributes:
        returncode: of the process.
        output: stdout.
        errors: stderr.
        report: all lines of the emulator's report.
    """

    returncode: int
    output: str
    errors: str
    report: list[dict[str, Any]]

    @property
    def violations(self) -> list[str]:
        """``call: sentence`` of each."""
        return [f"{line['call']}: {line['sentence']}" for line in self.report if line["kind"] == "violation"]

    @property
    def leaks(self) -> list[dict[str, Any]]:
        """Things never released."""
        return [line for line in self.report if line["kind"] == "leak"]

    @property
    def end(self) -> dict[str, Any]:
        """The last line."""
        return next(line for line in self.report if line["kind"] == "end")


def emulator_environment(directory: Path, **settings: Any) -> dict[str, str]:
    """Environment of a process that runs on the emulator, with its settings and report in ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "emulator.json"
    file.write_text(json.dumps({"report_dir": str(directory / "report"), **settings}))
    paths = [str(EMULATOR_DIR), str(REPOSITORY), str(REPOSITORY / "backends" / "ascend_om")]
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("VOXREPO_")},
        "VOXREPO_DEVICE": "emulator",
        "VOXREPO_EMULATOR_SETTINGS": str(file),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def read_report(directory: Path) -> list[dict[str, Any]]:
    """All lines of all processes that reported into ``directory``."""
    files = sorted((directory / "report").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def run_function(directory: Path, function: Callable[..., None], *arguments: object, **settings: Any) -> Ended:
    """Run a function in a new process on the emulator, from its source; it sees ``acl``, ``np`` and session.py.

    Its arguments arrive as text. Fails the test if the function does not return.
    """
    source = textwrap.dedent(inspect.getsource(function))
    ended = run_program(
        directory, f"{_PRELUDE}\n\n{source}\n\n{function.__name__}(*sys.argv[1:])\n", *arguments, **settings
    )
    assert ended.returncode == 0, ended.errors[-4000:]
    return ended


def run_program(directory: Path, program: str, *arguments: object, timeout_s: float = 60, **settings: Any) -> Ended:
    """Run Python source in a new process on the emulator; ``sys.argv[1:]`` are the arguments."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        env=emulator_environment(directory, **settings),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr, read_report(directory))
