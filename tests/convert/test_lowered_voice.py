"""Voices at lower precisions, with a judge whose mind is known."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from voxrepo.convert import voice as voice_module
from voxrepo.convert.gear_choice import parse_gears
from voxrepo.convert.judging import Judged
from voxrepo.convert.precision.calibration import CalibrationSet
from voxrepo.convert.proof_cases import open_session
from voxrepo.convert.target import find_target
from voxrepo.convert.voice import ConvertedVoice
from voxrepo.importers.proof_texts import ProofText
from voxrepo.repository.arms import check_arm
from voxrepo.repository.check import check_voice
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import STAGING_PREFIX
from voxrepo.repository.voice import read_voice
from voxrepo.versions.add import AddRequest, add_version
from voxrepo.versions.names import StageRef
from voxrepo_contract import emulated_om
from voxrepo_contract.errors import ConfigError, ConversionRefused, InvalidArgument
from voxrepo_contract.stage import read_stage, verify_files

from .graphs import CHANNELS, write_voice_of
from .test_voice import convert, everything

GEARS = "batch=1,2;ids=64,300;frames=32,256"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.of(tmp_path)
    write_voice_of(layout)
    return layout


def judges(judge: Callable[[Path], Judged]) -> Any:
    """A maker of judges, as ``Job.judges`` wants it."""
    return lambda layout, voice, source: lambda candidate, searching: judge(candidate)


def content(candidate: Path) -> Judged:
    read_stage(candidate)
    return Judged(True, (), {"verdict": "accepted"})


def wants_in_full(weight: str) -> Callable[[Path], Judged]:
    """Accepts generators in which that weight was left as it is, and all other stages."""

    def judge(candidate: Path) -> Judged:
        file = candidate / "generator.onnx"
        if not file.exists():
            return content(candidate)
        floats = {t.name for t in onnx.load(file).graph.initializer if t.data_type == onnx.TensorProto.FLOAT}
        if weight in floats:
            return content(candidate)
        return Judged(False, (f"without {weight} it hisses: 3.2 dB, at most 0.5 is allowed",), {"verdict": "refused"})

    return judge


def lowered(layout: Layout, what: str, precision: str, judge: Callable[[Path], Judged], **changes: Any):
    changes.setdefault("gears", parse_gears(GEARS))
    return convert(layout, what, use=False, precision=precision, judges=judges(judge), **changes)


@pytest.mark.parametrize("precision", ["fp16", "mixed", "int8"])
def test_a_lowered_voice_is_smaller_described_and_ready_to_be_an_arm(layout: Layout, precision: str):
    before = layout.voice_file("tiny").read_bytes()
    made = lowered(layout, "tiny", precision, content)
    assert layout.voice_file("tiny").read_bytes() == before
    for version in made.versions:
        verify_files(version.path, version.spec)
        note = version.spec.provenance["conversion"]
        assert (note["precision"], note["forced"], note["calibration"]) == (precision, False, "the voice's own texts")
        table = version.precision()
        assert table["accepted"] is True and table["judged"] == {"verdict": "accepted"} and table["kept"] == {}
        for name, cost in table["graphs"].items():
            assert cost["bytes"] == (version.path / f"{name}.om").stat().st_size
            assert cost["cpu_time_ratio"] > 0
        for figures in version.quality().values():
            assert max(figures["max_diff"].values()) <= 1e-5, "the padding is proved before lowering"
            assert max(figures["lowered"]["max_diff"].values()) <= figures["lowered"]["tolerance"]
    header = emulated_om.read(made.versions[1].path / "generator.om").header
    assert header.precision == {"mixed": "mixed_float16"}.get(precision, precision)
    assert [t.dtype for t in (*header.inputs, *header.outputs)] == ["FP32"] * 3
    check_arm(layout, check_voice(layout, "tiny"), "cheap", {v.stage: v.version for v in made.versions})


def test_the_graph_that_is_judged_is_the_one_that_is_built(layout: Layout):
    seen: list[bytes] = []

    def judge(candidate: Path) -> Judged:
        seen.append((candidate / "generator.onnx").read_bytes())
        return Judged(True)

    made = lowered(layout, "tiny.vocoder", "fp16", judge)
    features = np.random.default_rng(3).standard_normal((1, CHANNELS, 20)).astype(np.float32)
    padded = np.zeros((1, CHANNELS, 32), np.float32)
    padded[:, :, :20] = features
    mask = (np.arange(32) < 20).astype(np.float32)[None, None]
    judged = open_session(seen[-1]).run(["audio"], {"features": features})[0]
    built = open_session(emulated_om.read(made.versions[0].path / "generator.om").onnx)
    audio = built.run(["audio"], {"features": padded, "mask": mask})[0][:, :, : judged.shape[2]]
    assert np.abs(audio - judged).max() <= 1e-3


@pytest.mark.parametrize("precision", ["mixed", "int8"])
def test_the_layer_that_quality_needs_is_found_and_named(layout: Layout, precision: str):
    made = lowered(layout, "tiny.vocoder", precision, wants_in_full("w_up2"))
    table = made.versions[0].precision()
    kept = table["kept"]["generator"]
    assert len(kept) == 1 and next(iter(kept)).startswith("ConvTranspose")
    (reason,) = kept.values()
    assert reason.startswith("lowered alone it makes a mel-cepstral distance of ")
    assert reason.endswith("with it lowered beside the rest, without w_up2 it hisses: 3.2 dB, at most 0.5 is allowed")
    assert table["accepted"] and table["trials"] >= 3


def test_fp16_that_is_heard_is_refused_and_leaves_nothing(layout: Layout):
    before = everything(layout)
    with pytest.raises(ConversionRefused, match=r"at fp16 does not pass the gates: without w_up2.*mixed.*--force"):
        lowered(layout, "tiny.vocoder", "fp16", wants_in_full("w_up2"))
    assert everything(layout) == before
    assert not list(layout.model_repository.glob(f"{STAGING_PREFIX}*"))


def test_nothing_is_searched_where_a_measure_is_missing(layout: Layout):
    asked: list[Path] = []

    def judge(candidate: Path) -> Judged:
        asked.append(candidate)
        return Judged(False, ("PESQ, wide band is not measured: pesq is not installed",), open=True)

    with pytest.raises(ConversionRefused, match="the vocoder cannot be judged, so nothing can be searched: PESQ"):
        lowered(layout, "tiny.vocoder", "int8", judge)
    assert len(asked) == 1


def test_what_could_not_be_judged_is_not_said_to_be_bad(layout: Layout):
    before = everything(layout)

    def judge(candidate: Path) -> Judged:
        return Judged(False, ("PESQ, wide band is not measured: pesq is not installed",), open=True)

    with pytest.raises(ConversionRefused, match="the vocoder at fp16 could not be judged: PESQ") as caught:
        lowered(layout, "tiny.vocoder", "fp16", judge)
    assert "mixed" not in str(caught.value)
    assert everything(layout) == before


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_force_takes_it_and_says_so(layout: Layout, precision: str):
    made = lowered(layout, "tiny.vocoder", precision, wants_in_full("w_up2"), force=True)
    version = made.versions[0]
    assert version.spec.provenance["conversion"]["forced"] is True
    assert version.precision()["accepted"] is False
    assert version.precision()["refused_because"] == ["without w_up2 it hisses: 3.2 dB, at most 0.5 is allowed"]
    assert version.precision()["kept"] == {}


def test_a_layer_is_excluded_by_hand(layout: Layout):
    lowered(layout, "tiny.vocoder", "int8", content)
    made = lowered(layout, "tiny.vocoder", "int8", content, exclude=("ConvTranspose_n9",))
    assert made.versions[0].version == 3
    assert made.versions[0].precision()["kept"] == {"generator": {"ConvTranspose_n9": "excluded with --exclude"}}
    with pytest.raises(InvalidArgument, match="near it are ConvTranspose_n2, ConvTranspose_n9"):
        lowered(layout, "tiny.vocoder", "int8", content, exclude=("ConvTranspose_n8",))
    with pytest.raises(InvalidArgument, match="at fp32 none is"):
        convert(layout, "tiny.vocoder", exclude=("ConvTranspose_n9",))


def test_a_calibration_set_that_is_too_small_is_refused(layout: Layout):
    few = CalibrationSet((ProofText((1, 4, 0, 5, 0, 2), 0),) * 3, "few.txt")
    with pytest.raises(InvalidArgument, match=r"calibration set too small: 3 texts of \d+ frames, .* at least 8 texts"):
        lowered(layout, "tiny.vocoder", "int8", content, calibration=few)


def test_another_calibration_set_makes_another_version(layout: Layout):
    texts = tuple(ProofText((1, *([4, 0, 5, 6, 7] * 10), 2), 0) for _ in range(10))
    first = lowered(layout, "tiny.vocoder", "int8", content)
    second = lowered(layout, "tiny.vocoder", "int8", content, calibration=CalibrationSet(texts, "mine.txt"))
    assert (first.versions[0].version, second.versions[0].version) == (2, 3)
    assert second.versions[0].spec.provenance["conversion"]["calibration"] == "mine.txt"
    assert lowered(layout, "tiny.vocoder", "int8", content).versions[0].made is False


@pytest.mark.parametrize("target", ["emulator", "onnx"])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_the_same_inputs_give_the_same_bytes(tmp_path: Path, target: str, precision: str):
    hashes = []
    for number in range(2):
        layout = Layout.of(tmp_path / str(number))
        write_voice_of(layout)
        made = lowered(layout, "tiny", precision, content, target=find_target(target))
        hashes.append(
            {
                f"{v.stage}/{g.file}": hashlib.sha256((v.path / g.file).read_bytes()).hexdigest()
                for v in made.versions
                for g in v.spec.graphs.values()
            }
        )
    assert len(hashes[0]) == 3
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_graphs_for_a_cpu_take_any_size_and_are_served_there(layout: Layout, precision: str):
    made = lowered(layout, "tiny", precision, content, target=find_target("onnx"))
    for version in made.versions:
        for graph in version.spec.graphs.values():
            assert (graph.device, graph.gears, Path(graph.file).suffix) == ("cpu", [], ".onnx")
            domains = {node.domain for node in onnx.load(version.path / graph.file).graph.node}
            assert domains <= {"", "ai.onnx"}, "operators of onnxruntime's own would not be portable"
        old = read_stage(layout.version_dir(f"tiny.{version.stage}", 1))
        assert version.spec.options == old.options
    check_arm(layout, check_voice(layout, "tiny"), "cheap", {v.stage: v.version for v in made.versions})


def test_a_lowered_version_is_no_source(layout: Layout):
    convert(layout, "tiny.vocoder", precision="int8", judges=judges(content), target=find_target("onnx"))
    assert read_voice(layout, "tiny").versions["vocoder"] == 2
    with pytest.raises(ConfigError, match=r"lowered to int8 already; convert from tiny.vocoder@1"):
        lowered(layout, "tiny.vocoder@2", "fp16", content)
    assert lowered(layout, "tiny.vocoder", "fp16", content).versions[0].source_version == 1


def test_a_voice_without_the_compiler_leaves_a_parcel_that_comes_back(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    before = everything(layout)
    made = lowered(layout, "tiny", "mixed", wants_in_full("w_up2"), target=find_target("ascend"))
    _check_parcels(layout, before, made)
    emulated = lowered(layout, "tiny", "mixed", wants_in_full("w_up2"))
    for parcel, version in zip(made.parcels, emulated.versions, strict=True):
        for graph in version.spec.graphs.values():
            (parcel.path / graph.file).write_bytes((version.path / graph.file).read_bytes())
        subprocess.run(["bash", str(parcel.path / "finish.sh")], check=True, capture_output=True)
        spec = read_stage(parcel.path / "om")
        verify_files(parcel.path / "om", spec)
        request = AddRequest(StageRef("tiny", parcel.stage), parcel.path / "om", "voxrepo version add")
        assert add_version(layout, request).version == 3


def _check_parcels(layout: Layout, before: dict[str, bytes], made: ConvertedVoice) -> None:
    assert made.versions == () and not made.used
    after = everything(layout)
    assert {name: data for name, data in after.items() if not name.startswith("convert/")} == before
    acoustic, vocoder = made.parcels
    assert vocoder.path == layout.root / "convert" / "tiny.vocoder@1-Ascend910B3-mixed"
    assert (acoustic.path / "encoder.onnx").is_file() and (acoustic.path / "decoder.onnx").is_file()
    assert re.search(r"bash convert.sh\nbash finish.sh", (vocoder.path / "README.md").read_text(encoding="utf-8"))
    kept = (vocoder.path / "generator.keep_dtype.cfg").read_text(encoding="utf-8")
    assert "ConvTranspose" in kept
    for script in ("convert.sh", "finish.sh"):
        subprocess.run(["bash", "-n", str(vocoder.path / script)], check=True)
    finish = subprocess.run(["bash", str(vocoder.path / "finish.sh")], capture_output=True, text=True, check=False)
    assert finish.returncode == 1 and "generator.om is missing: run convert.sh first" in finish.stderr


def test_8_bit_for_a_chip_is_left_to_its_own_tool(layout: Layout):
    made = lowered(layout, "tiny.vocoder", "int8", content, target=find_target("ascend"))
    parcel = made.parcels[0]
    assert "amct_onnx" in (parcel.path / "convert.sh").read_text(encoding="utf-8")
    features = np.fromfile(parcel.path / "calibration" / "generator" / "features" / "0.bin", np.float32)
    assert features.size == 2 * CHANNELS * 256 and np.abs(features).max() > 0
    assert "AMCT" in (parcel.path / "README.md").read_text(encoding="utf-8")
    again = lowered(layout, "tiny.vocoder", "int8", content, target=find_target("ascend"))
    assert again.parcels[0].path == parcel.path


@pytest.mark.parametrize("number", [28, 30, 13])
def test_a_disk_that_cannot_be_written_is_said_and_leaves_nothing(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, number: int
):
    before = everything(layout)

    def fail(folder: Path) -> None:
        raise OSError(number, os.strerror(number), str(folder))

    monkeypatch.setattr(voice_module, "sync_folder", fail)
    with pytest.raises(ConfigError, match=f"cannot be written: {os.strerror(number)}"):
        lowered(layout, "tiny", "int8", content)
    assert everything(layout) == before


_KILLED = """
import sys
from pathlib import Path
from tests.convert.test_lowered_voice import content, lowered
from voxrepo.repository.layout import Layout
print("begun", flush=True)
lowered(Layout.of(Path(sys.argv[1])), "tiny", "int8", content)
print("done", flush=True)
"""


@pytest.mark.parametrize(
    "after_s", [0.05, 0.4, pytest.param(1.0, marks=pytest.mark.soak), pytest.param(2.0, marks=pytest.mark.soak)]
)
def test_a_killed_conversion_leaves_no_half_version(layout: Layout, after_s: float):
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(layout.root)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None and process.stdout.readline() == b"begun\n"
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    for stage in ("acoustic", "vocoder"):
        for folder in (layout.model_repository / f"tiny.{stage}").iterdir():
            if folder.is_dir():
                verify_files(folder, read_stage(folder))
    check_voice(layout, "tiny")
    lowered(layout, "tiny", "int8", content)
    assert not list(layout.model_repository.glob(f"{STAGING_PREFIX}*"))
