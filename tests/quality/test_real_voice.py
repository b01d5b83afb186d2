"""The default voice against itself, and against an 8-bit vocoder whose damage error rates do not see."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="the optional extra 'convert' is not installed")

import onnx

from tests.harness import VOICE
from voxrepo.quality.judge import JudgeOptions, VersionJudge
from voxrepo.repository.layout import Layout
from voxrepo_contract.stage import read_stage, sha256_of, write_stage

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def judge(voice_root: Path) -> VersionJudge:
    pytest.importorskip("pesq", reason="the package pesq is not installed; bash scripts/pesq.sh")
    pytest.importorskip("speechmos", reason="the extra 'quality' is not installed")
    return VersionJudge(Layout.of(voice_root), VOICE, {"vocoder": 1}, JudgeOptions(timed=False))


def eight_bit(judge: VersionJudge, voice_root: Path, folder: Path, exclude: list[str]) -> Path:
    """A version whose layers are 8-bit, calibrated on the texts themselves."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Rows(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            acoustic = judge._pair.reference["acoustic"]
            lines = enumerate(judge._material.lines)
            self._rows = iter([acoustic.features(line.reference, number).values.T[None] for number, line in lines])

        def get_next(self) -> dict[str, Any] | None:
            row = next(self._rows, None)
            return None if row is None else {"features": row}

    source = Layout.of(voice_root).version_dir(f"{VOICE}.vocoder", 1)
    shutil.copytree(source, folder)
    quantize_static(
        str(source / "generator.onnx"),
        str(folder / "generator.onnx"),
        Rows(),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=["Conv", "ConvTranspose"],
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=exclude,
    )
    spec = read_stage(folder)
    graph = spec.graphs["generator"].model_copy(update={"sha256": sha256_of(folder / "generator.onnx")})
    write_stage(folder, spec.model_copy(update={"graphs": {"generator": graph}}))
    return folder


def test_a_version_is_as_good_as_itself(judge: VersionJudge, voice_root: Path):
    judgement = judge.judge({"vocoder": Layout.of(voice_root).version_dir(f"{VOICE}.vocoder", 1)})
    assert judgement.accepted, judgement.reasons
    assert judgement.metrics["fixed_pesq"] == pytest.approx(4.644, abs=0.001)


def test_an_8_bit_vocoder_is_refused_by_all_that_hears_it(judge: VersionJudge, voice_root: Path, tmp_path: Path):
    judgement = judge.judge({"vocoder": eight_bit(judge, voice_root, tmp_path / "2", [])})
    failed = {gate.metric for gate in judgement.gates if gate.outcome == "fail"}
    assert {"fixed_mcd_db", "fixed_pesq", "p808_drop"} <= failed


def test_with_only_the_first_stage_in_8_bits_it_is_accepted(judge: VersionJudge, voice_root: Path, tmp_path: Path):
    generator = onnx.load(Layout.of(voice_root).version_dir(f"{VOICE}.vocoder", 1) / "generator.onnx")
    layers = [node.name for node in generator.graph.node if node.op_type in {"Conv", "ConvTranspose"}]
    second = layers.index("ConvTranspose_1")
    # kept: the layer before the first upsampling, that itself, and all from the second on
    kept = [*layers[:2], *layers[second:]]
    judgement = judge.judge({"vocoder": eight_bit(judge, voice_root, tmp_path / "2", kept)})
    assert judgement.accepted, judgement.reasons
