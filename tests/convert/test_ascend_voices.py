"""The default voices: what the rules do to their graphs, and their command lines before the stand-in for ``atc``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from tests.convert.atc.conftest import atc  # noqa: F401
from tests.convert.atc.helpers import ignore
from tests.convert.rules.helpers import Array
from voxrepo.convert.ascend_target import AscendTarget
from voxrepo.convert.operator_report import operator_report
from voxrepo.convert.plan import gear_plan
from voxrepo.convert.rules import apply_rules, fix_shapes
from voxrepo.convert.soc import parse_soc
from voxrepo.convert.target import BuildRequest
from voxrepo_contract import emulated_om
from voxrepo_contract.stage import GraphSpec, read_stage

SOC = parse_soc("Ascend310P3")
SIZES = {"batch": 2, "ids": 21, "frames": 40}
GRAPHS = [("acoustic", "encoder"), ("acoustic", "decoder"), ("vocoder", "generator")]
VOICES = [("voice_root", "en-joe"), ("mandarin_root", "zh-baker")]


def load(request: pytest.FixtureRequest, fixture: str, voice: str, stage: str, graph: str):
    root: Path = request.getfixturevalue(fixture)
    folder = root / "model_repository" / f"{voice}.{stage}" / "1"
    spec = read_stage(folder).graphs[graph]
    return spec, onnx.load(folder / spec.file)


def feeds(spec: GraphSpec) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    made = {}
    for tensor in spec.inputs:
        dims = [SIZES[dim] if isinstance(dim, str) else dim for dim in tensor.dims]
        if tensor.name == "phoneme_ids":
            made[tensor.name] = rng.integers(1, 20, dims)
        elif tensor.name == "lengths":
            made[tensor.name] = np.array([SIZES["ids"], 15][: dims[0]])
        elif tensor.name == "mask":
            made[tensor.name] = np.ones(dims, np.float32)
            made[tensor.name][-1, :, 30:] = 0
        else:
            made[tensor.name] = rng.standard_normal(dims).astype(np.float32)
    return made


def run(model: onnx.ModelProto, given: dict[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, given))


@pytest.mark.parametrize(("fixture", "voice"), VOICES)
@pytest.mark.parametrize(("stage", "graph"), GRAPHS)
def test_the_rules_keep_what_a_voice_says(
    request: pytest.FixtureRequest, fixture: str, voice: str, stage: str, graph: str
):
    spec, model = load(request, fixture, voice, stage, graph)
    given = feeds(spec)
    expected = run(model, given)
    ruled, _ = apply_rules(model, SOC)
    fixed, _ = fix_shapes(model, {name: value.shape for name, value in given.items()}, SOC)
    for made in (ruled, fixed):
        for old, new in zip(expected, run(made, given), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
    left = Counter(node.op_type for node in fixed.graph.node)
    assert not {"Shape", "Range", "ConstantOfShape", "Expand", "Pow", "NonZero", "CumSum"} & set(left)
    assert not operator_report(model, SOC).errors


@pytest.mark.parametrize(("fixture", "voice"), VOICES)
@pytest.mark.parametrize("precision", ["fp32", "fp16", "mixed"])
@pytest.mark.soak
def test_every_command_line_of_a_voice_passes(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    atc: Path,  # noqa: F811
    fixture: str,
    voice: str,
    precision: str,
):
    for stage, graph in GRAPHS:
        spec, model = load(request, fixture, voice, stage, graph)
        model, _ = apply_rules(model, SOC)
        axis = "ids" if graph == "encoder" else "frames"
        for gears in ([(1, 64), (2, 128), (4, 64)], [(1, 96)]):
            plan = gear_plan(
                {tensor.name: tensor.dims for tensor in spec.inputs},
                [{"batch": batch, axis: length} for batch, length in gears],
            )
            wanted = {"Tanh", "Exp", "Softmax"}
            keep = (
                tuple(node.name for node in model.graph.node if node.op_type in wanted) if precision != "fp32" else ()
            )
            file = tmp_path / f"{voice}-{graph}-{len(gears)}.om"
            asked = BuildRequest(graph, model, plan, SOC, precision, f"voxrepo convert {voice}", keep)
            made = AscendTarget().build(asked, file, ignore)
            assert made.is_built
            header = emulated_om.read(file).header
            assert len(header.gears) == (len(gears) if len(gears) > 1 else 0)
            assert ("--keep_dtype=" in header.conversion) == bool(keep)
