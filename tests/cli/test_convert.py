from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("onnx", reason="the optional extra 'convert' is not installed")

from tests.convert.graphs import CHANNELS, adder, generator, save, write_voice_of
from voxrepo.cli.main import app
from voxrepo.convert.judging import Judged
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import read_voice
from voxrepo_contract import emulated_om
from voxrepo_contract.stage import read_stage

GEARS = ("--gears", "batch=1,2;ids=64,300;frames=32,256")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["convert", *arguments], env={"COLUMNS": "250", "NO_COLOR": "1", "TERM": "dumb"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_voice_of(Layout.of(tmp_path))
    return tmp_path


def test_a_voice_is_converted_and_what_serves_it_is_said(root: Path):
    result = run("tiny", "--root", str(root), "--soc", "Ascend910B3", *GEARS)
    assert result.exit_code == 0, result.output
    assert "largest difference" in result.stderr
    assert "voice.yaml pins acoustic 2, vocoder 2" in result.stderr
    assert "`voxrepo serve --device emulator` serves them, with --device cpu they are refused" in result.stderr
    assert "set stages.acoustic.version: 1 and stages.vocoder.version: 1" in result.stderr
    assert read_voice(Layout.of(root), "tiny").versions == {"text_frontend": 1, "acoustic": 2, "vocoder": 2}
    again = run("tiny", "--root", str(root), *GEARS)
    assert again.exit_code == 0
    assert "this conversion was there already" in again.stderr


def test_no_use_says_how_to_serve_it(root: Path):
    result = run("tiny.vocoder", "--root", str(root), "--no-use", *GEARS)
    assert result.exit_code == 0, result.output
    assert "voice.yaml is as it was; to serve vocoder 2" in result.stderr
    assert read_voice(Layout.of(root), "tiny").versions["vocoder"] == 1


def test_json_holds_versions_gears_and_quality(root: Path):
    result = run("tiny.vocoder@1", "--root", str(root), "--json", *GEARS)
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    (version,) = data["versions"]
    assert (data["voice"], data["used"], version["version"], version["made"]) == ("tiny", True, 2, True)
    assert version["quality"]["generator"]["max_diff"]["audio"] <= 1e-5
    assert version["gears"]["generator"][0]["frames"] == 32


def test_the_command_is_kept_without_paths(root: Path, tmp_path: Path):
    record = tmp_path / "my lengths.csv"
    record.write_text("ids,frames\n20,40\n60,130\n", encoding="utf-8")
    result = run("tiny.acoustic", "--root", str(root), "--lengths", str(record), "--json")
    assert result.exit_code == 0, result.output
    text = (root / "model_repository" / "tiny.acoustic" / "2" / "stage.yaml").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    header = emulated_om.read_header(root / "model_repository" / "tiny.acoustic" / "2" / "encoder.om")
    assert header.conversion == (
        "voxrepo convert tiny.acoustic --target emulator --soc Ascend910B3 --precision fp32 --gears auto "
        "--lengths 'my lengths.csv'"
    )


def test_a_file_is_converted(tmp_path: Path):
    source = save(generator(), tmp_path / "g.onnx")
    target = tmp_path / "g.om"
    flags = ("--input-shape", f"features:-1,{CHANNELS},16", "--dynamic-batch", "1,2,4")
    result = run(str(source), "-o", str(target), "--soc", "Ascend310P3", *flags)
    assert result.exit_code == 0, result.output
    assert "batch_gears, 3 gears" in result.stderr
    assert f"wrote {target} for Ascend310P3, emulator only" in result.stderr
    assert emulated_om.read_header(target).soc == "Ascend310P3"
    as_json = run(str(source), "-o", str(target), "--json", *flags)
    data = json.loads(as_json.stdout)
    assert (data["kind"], data["gears"], data["inputs"][0]["dims"]) == ("batch_gears", 3, [-1, CHANNELS, 16])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "E10011"),
        (("--input-shape", "x:1,4"), "E10016: the graph has no input 'x'; its inputs are 'features'"),
        (("--input-shape", f"features:-1,{CHANNELS},16"), "E10011"),
        (("--input-shape", f"features:-1,{CHANNELS},16", "--dynamic-batch", "3"), "E10035"),
        (("--input-shape", f"features:1,{CHANNELS},16", "--soc", "Ascend1"), "E10001: --soc"),
        (("--input-shape", f"features:1,{CHANNELS},16", "--target", "gpu"), "--target 'gpu' is not offered"),
    ],
)
def test_refusals_come_with_a_code_and_a_sentence(tmp_path: Path, flags, words):
    source = save(generator(), tmp_path / "g.onnx")
    result = run(str(source), "-o", str(tmp_path / "g.om"), *flags)
    assert result.exit_code == 1
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "g.om").exists()


def test_a_note_tells_the_first_910b_from_its_namesakes(tmp_path: Path):
    source = save(adder([2]), tmp_path / "a.onnx")
    result = run(str(source), "-o", str(tmp_path / "a.om"), "--soc", "Ascend910B")
    assert result.exit_code == 0, result.output
    assert "note: Ascend910B is the first generation" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tiny", "--input-shape", "x:1"), "--input-shape belongs to an ONNX file, and this is a voice"),
        (("tiny", "-o", "x.om"), "--output belongs to an ONNX file"),
        (("m.onnx",), "give -o FILE.om"),
        (("m.onnx", "-o", "m.om", "--gears", "auto"), "--gears belongs to a voice, and this is a file"),
        (("m.onnx", "-o", "m.om", "--no-use"), "--use/--no-use belongs to a voice"),
    ],
)
def test_flags_of_the_other_kind_are_wrong_usage(root: Path, arguments, words):
    result = run(*arguments, "--root", str(root))
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody",), "there is no voice 'nobody' here; there are: tiny"),
        (("tiny", "--gears", "x"), "--gears 'x'"),
        (("tiny", "--precision", "fp8"), "choose fp32, fp16, mixed, int8"),
        (("missing.onnx", "-o", "m.om"), "cannot be read"),
    ],
)
def test_bad_requests_fail_with_a_sentence(root: Path, arguments, words):
    result = run(*arguments, "--root", str(root))
    assert result.exit_code == 1
    assert words in result.stderr


def test_without_onnx_the_extra_is_named(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = run("tiny", "--root", str(root))
    assert result.exit_code == 1
    assert "converting a graph needs the package 'onnx'" in result.stderr
    assert "pip install 'voxrepo[convert]'" in result.stderr


def test_8_bit_graphs_for_a_cpu_are_told_with_sizes_and_what_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("voxrepo.convert.judging.gates_of", lambda *_: lambda candidate, searching: Judged(True))
    arguments = ("tiny.vocoder", "--target", "onnx", "--precision", "int8", "--exclude", "ConvTranspose_n9")
    result = run(*arguments, "--root", str(root))
    assert result.exit_code == 0, result.stderr
    assert "ConvTranspose_n9 stays in fp32: excluded with --exclude" in result.stderr
    assert "voice.yaml is as it was; to serve vocoder 2" in result.stderr
    note = read_stage(Layout.of(root).version_dir("tiny.vocoder", 2)).provenance["conversion"]
    assert note["command"] == (
        "voxrepo convert tiny.vocoder --target onnx --soc Ascend910B3 --precision int8 --exclude ConvTranspose_n9"
    )
    assert run(*arguments[:-1], "Conv_nine", "--root", str(root)).stderr.startswith("error: --exclude 'Conv_nine'")


def test_a_forced_version_says_so(root: Path, monkeypatch: pytest.MonkeyPatch):
    refusal = Judged(False, ("PESQ is 1.6; limit: at least 4.4",))
    monkeypatch.setattr("voxrepo.convert.judging.gates_of", lambda *_: lambda candidate, searching: refusal)
    refused = run("tiny.vocoder", "--precision", "fp16", "--root", str(root))
    assert refused.exit_code == 1 and "does not pass the gates: PESQ is 1.6" in refused.stderr
    forced = run("tiny.vocoder", "--precision", "fp16", "--force", "--root", str(root))
    assert forced.exit_code == 0
    assert "taken by --force, the gates refuse it: PESQ is 1.6" in forced.stderr


def test_without_atc_it_is_said_what_to_run_and_how_to_come_back(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    result = run("tiny.vocoder", "--target", "ascend", "--soc", "Ascend310P3", "--root", str(root))
    assert result.exit_code == 0, result.stderr
    assert "tiny.vocoder@1-Ascend310P3-fp32: bash convert.sh && bash finish.sh" in result.stderr
    assert "voxrepo version add tiny.vocoder om" in result.stderr
    assert not (Layout.of(root).version_dir("tiny.vocoder", 2)).exists()
