"""Small graphs and requests for the compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from tests.convert.graphs import decoder, generator
from voxrepo.convert.plan import ShapePlan, gear_plan
from voxrepo.convert.rules import apply_rules
from voxrepo.convert.soc import parse_soc
from voxrepo.convert.target import BuildRequest

DIMS: dict[str, tuple[int | str, ...]] = {"latent": ("batch", 4, "frames"), "mask": ("batch", 1, "frames")}
GEARS = [{"batch": 1, "frames": 8}, {"batch": 2, "frames": 16}]


ROOT = Path(__file__).resolve().parents[3]


def place_atc(folder: Path) -> Path:
    """The stand-in for the compiler as a program of its own."""
    folder.mkdir(parents=True)
    program = folder / "atc"
    fake = Path(__file__).with_name("fake_atc.py")
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "{fake}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def ignore(message: str, share: float) -> None:
    pass


def request(
    model: onnx.ModelProto | None = None,
    *,
    plan: ShapePlan | None = None,
    gears: Sequence[dict[str, int]] = tuple(GEARS),
    soc: str = "Ascend310P3",
    precision: str = "fp16",
    **changes: Any,
) -> BuildRequest:
    chip = parse_soc(soc)
    made, _ = apply_rules(model or decoder(), chip)
    return BuildRequest(
        "decoder", made, plan or gear_plan(DIMS, gears), chip, precision, "voxrepo convert tiny", **changes
    )


def vocoder_request(**changes: Any) -> BuildRequest:
    plan = gear_plan({"features": ("batch", 4, "frames")}, [{"batch": 1, "frames": 64}])
    return request(generator(), plan=plan, **changes)


def atc(*arguments: str, folder: Path) -> str:
    """Output of the stand-in, which must refuse."""
    program = shutil.which("atc")
    assert program is not None
    done = subprocess.run([program, *arguments], cwd=folder, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0, done.stdout
    assert not list(folder.glob("*.om"))
    return done.stdout + done.stderr


def one_node(op_type: str, *, opset: int = 15, name: str = "/dec/block/op", **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(op_type, ["x"], ["y"], name=name, **attributes)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 4, 4])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model
