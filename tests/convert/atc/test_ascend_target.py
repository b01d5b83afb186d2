from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from tests.convert.atc.helpers import ignore, one_node, request, vocoder_request
from tests.convert.graphs import nonzero
from voxrepo.convert.ascend_target import AscendTarget
from voxrepo.convert.atc.command import AtcOptions
from voxrepo.convert.atc.run import TIMEOUT_VARIABLE, AtcFailed
from voxrepo.convert.atc.script import ScriptPart, script_text
from voxrepo.convert.onnx_graph import graph_inputs
from voxrepo.convert.plan import ShapeFlags, plan_shapes
from voxrepo.convert.refusal import AtcRefusal
from voxrepo.convert.target import BuildRequest
from voxrepo_contract import emulated_om
from voxrepo_contract.errors import ConfigError, InvalidArgument
from voxrepo_contract.stage import sha256_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "staging"
    made.mkdir()
    return made


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("atc")
@pytest.mark.parametrize("precision", ["fp32", "fp16", "mixed"])
def test_a_graph_is_compiled_where_atc_is(folder: Path, precision: str):
    target = AscendTarget()
    made = target.build(request(precision=precision), folder / "decoder.om", ignore)
    assert made.is_built
    assert made.script is None
    assert left(folder) == ["decoder.om"]
    header = emulated_om.read(made.file).header
    assert header.gears == ({"latent": (1, 4, 8), "mask": (1, 1, 8)}, {"latent": (2, 4, 16), "mask": (2, 1, 16)})
    assert (made.kind, made.gears, made.outputs[0].dims) == ("dims_gears", 2, (-1, 4, -1))
    expected = {"fp32": "cube_fp16in_fp32out", "fp16": "fp16", "mixed": "mixed_float16"}
    assert header.precision == expected[precision]
    assert "--model=decoder.onnx" in header.conversion, "no paths of this machine"
    onnx.checker.check_model(onnx.load_from_string(target.reference_model(made.file)))


@pytest.mark.usefixtures("atc")
def test_the_same_request_makes_the_same_file(folder: Path):
    files = [folder / name for name in ("a.om", "b.om")]
    for file in files:
        AscendTarget().build(request(), file, ignore)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.usefixtures("atc")
def test_kept_nodes_and_extra_flags_reach_atc(folder: Path):
    model = vocoder_request().model
    kept = tuple(node.name for node in model.graph.node if node.op_type in {"Tanh", "Conv"})
    made = AscendTarget(AtcOptions(host_cpu="aarch64")).build(
        vocoder_request(precision="mixed", keep=kept, extra=("deterministic=1",)), folder / "decoder.om", ignore
    )
    command = emulated_om.read(made.file).header.conversion
    for flag in ("--keep_dtype=", "--modify_mixlist=", "--deterministic=1", "--host_env_cpu=aarch64"):
        assert flag in command
    assert left(folder) == ["decoder.om"]


def test_a_kept_node_that_does_not_exist_is_refused(folder: Path):
    with pytest.raises(InvalidArgument, match="no node 'nosuch' to keep"):
        AscendTarget().build(request(keep=("nosuch",)), folder / "decoder.om", ignore)


@pytest.mark.usefixtures("atc")
def test_a_file_that_is_bound_to_a_host_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FAKE_ATC", "host_bound")
    AscendTarget().build(request(), folder / "decoder.om", ignore)
    assert left(folder) == ["decoder.om"]


@pytest.mark.usefixtures("atc")
@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ("disk_full", "E13004: a file cannot be written.*free space"),
        ("no_opp", "E10501: .*set_env.sh"),
        ("no_decorator", "E40021: .*node /dec/Slice_3, gear 6"),
        ("silent_crash", "ended with status -11 and left no OM"),
        ("no_file", "reported success and left no OM"),
    ],
)
def test_a_failure_says_what_to_do_keeps_the_log_and_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wish: str, said: str
):
    monkeypatch.setenv("FAKE_ATC", wish)
    with pytest.raises(AtcFailed, match=said) as raised:
        AscendTarget().build(request(), folder / "decoder.om", ignore)
    assert raised.value.log.is_file()
    assert str(raised.value.log) in str(raised.value)
    assert left(folder) == []


@pytest.mark.usefixtures("atc")
@pytest.mark.parametrize(
    ("wish", "said"), [("wrong_chip", "it is for Ascend910B3"), ("damaged", "damaged|not|truncated|short|bytes")]
)
def test_a_file_that_is_not_what_was_asked_for_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wish: str, said: str
):
    monkeypatch.setenv("FAKE_ATC", wish)
    with pytest.raises(ConfigError, match=said):
        AscendTarget().build(request(), folder / "decoder.om", ignore)
    assert left(folder) == []


@pytest.mark.usefixtures("atc")
def test_a_compiler_that_hangs_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FAKE_ATC", "hang")
    monkeypatch.setenv(TIMEOUT_VARIABLE, "3")
    with pytest.raises(ConfigError, match="did not end within 3 s"):
        AscendTarget().build(request(), folder / "decoder.om", ignore)
    assert left(folder) == []
    monkeypatch.setenv(TIMEOUT_VARIABLE, "soon")
    with pytest.raises(ConfigError, match="not a number of seconds"):
        AscendTarget().build(request(), folder / "decoder.om", ignore)


def fixed(model: onnx.ModelProto, **flags: str) -> BuildRequest:
    return request(model, plan=plan_shapes(graph_inputs(model), ShapeFlags(**flags)))


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (fixed(one_node("IsNaN"), input_shape="x:2,4,4"), "E19010"),
        (fixed(nonzero(), input_shape="x:-1,4", dynamic_batch="1,2"), "E10001"),
        (request(precision="mixed_bfloat16"), "E10001"),
        (request(extra=("nosuch=1",)), "E10001"),
    ],
)
def test_what_atc_would_refuse_is_refused_before_it_runs(folder: Path, made, code: str):
    with pytest.raises(AtcRefusal) as raised:
        AscendTarget().build(made, folder / "decoder.om", ignore)
    assert raised.value.code == code


def test_ranges_are_refused_for_a_chip_without_them(folder: Path):
    plan = plan_shapes(graph_inputs(request().model), ShapeFlags("latent:1,4,1~8;mask:1,1,1~8"))
    with pytest.raises(AtcRefusal, match="does not run graphs with ranges"):
        AscendTarget().build(request(plan=plan, soc="Ascend310B4"), folder / "decoder.om", ignore)


@pytest.mark.usefixtures("no_atc")
def test_without_atc_a_script_is_left(folder: Path):
    made = AscendTarget().build(request(), folder / "decoder.om", ignore)
    assert not made.is_built
    assert not made.file.exists()
    assert made.script == folder / "convert.sh"
    assert left(folder) == ["convert.sh", "decoder.atc.json", "decoder.onnx"]
    assert AscendTarget().tools()["atc"] == "not on this machine"


def run_script(folder: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(folder / "convert.sh")], cwd="/", env=env, check=False, capture_output=True, text=True
    )


@pytest.fixture
def script_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script for two graphs, made on a machine without the compiler."""
    with monkeypatch.context() as patch:
        patch.setattr("voxrepo.convert.ascend_target.find_atc", lambda: None)
        model = vocoder_request().model
        kept = tuple(node.name for node in model.graph.node if node.op_type == "Tanh")
        AscendTarget().build(request(), folder / "decoder.om", ignore)
        second = vocoder_request(precision="mixed", keep=kept)
        object.__setattr__(second, "name", "声码器_2")
        AscendTarget().build(second, folder / "generator.om", ignore)
    return folder


def test_the_script_builds_all_graphs_where_atc_is(script_folder: Path, atc: Path):
    done = run_script(script_folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "built: decoder.om" in done.stdout
    assert emulated_om.read(script_folder / "decoder.om").header.precision == "fp16"
    assert emulated_om.read(script_folder / "声码器_2.om").header.precision == "mixed_float16"
    assert run_script(script_folder).returncode == 0, "it may be run again"


def test_the_script_says_when_atc_is_missing(script_folder: Path):
    done = run_script(script_folder, {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
    assert done.returncode == 1
    assert "set_env.sh" in done.stderr


def test_the_script_finds_atc_by_the_environment_of_cann(script_folder: Path, atc: Path):
    env_file = atc.parents[1] / "set_env.sh"
    env_file.write_text(f'export PATH="{atc.parent}:$PATH"\necho "$UNSET_VARIABLE"\n', encoding="utf-8")
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "ASCEND_HOME_PATH": str(env_file.parent)}
    done = run_script(script_folder, env)
    assert done.returncode == 0, done.stderr


def test_the_script_refuses_files_that_were_changed(script_folder: Path, atc: Path):
    with (script_folder / "decoder.onnx").open("ab") as stream:
        stream.write(b"x")
    done = run_script(script_folder)
    assert done.returncode == 1
    assert "was changed" in done.stderr
    assert not list(script_folder.glob("*.om"))


def test_a_failure_ends_the_script_and_leaves_no_half_file(
    script_folder: Path, atc: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FAKE_ATC", "disk_full")
    done = run_script(script_folder)
    assert done.returncode == 1
    assert "decoder: atc failed" in done.stderr
    assert not list(script_folder.glob("*.om"))


def test_the_script_is_sound_to_shellcheck(script_folder: Path):
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run([shellcheck, str(script_folder / "convert.sh")], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_int8_leaves_a_script_that_calibrates_first(folder: Path, atc: Path):
    kept = (vocoder_request().model.graph.node[0].name,)
    made = AscendTarget().build(vocoder_request(precision="int8", keep=kept), folder / "decoder.om", ignore)
    assert not made.is_built
    text = (folder / "convert.sh").read_text(encoding="utf-8")
    assert "amct_onnx calibration --model decoder.onnx" in text
    assert "--model=decoder.amct/decoder_deploy_model.onnx" in text
    assert f'skip_layers: "{kept[0]}"' in (folder / "decoder.amct.cfg").read_text(encoding="utf-8")
    done = run_script(folder)
    assert done.returncode == 1
    assert "amct_onnx is not on PATH" in done.stderr


@pytest.mark.parametrize("name", ["$(touch broken)", "a;b", "a b", "-x", "two\nlines", 'a"b'])
def test_a_name_that_atc_does_not_take_is_refused(folder: Path, name: str):
    made = replace(request(), name=name)
    with pytest.raises(AtcRefusal, match="rename it"):
        AscendTarget().build(made, folder / "decoder.om", ignore)
    assert left(folder) == []


def test_a_script_runs_nothing_that_stands_in_a_name(folder: Path):
    (folder / "a.onnx").write_bytes(b"")
    part = ScriptPart("$(touch broken)", "Ascend910B3", ("--framework=5",), {"a.onnx": sha256_of(folder / "a.onnx")})
    script = folder / "convert.sh"
    script.write_text(script_text([part]), encoding="utf-8")
    program = folder / "atc"
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(["bash", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "$(touch broken): atc failed" in done.stderr
    assert not (folder / "broken").exists()


@pytest.mark.usefixtures("no_atc")
@pytest.mark.parametrize("name", ["decoder.onnx", "convert.sh"])
def test_a_file_of_the_user_is_not_replaced_by_what_is_left_for_atc(folder: Path, name: str):
    (folder / name).write_bytes(b"mine")
    with pytest.raises(ConfigError, match="another folder"):
        AscendTarget().build(request(), folder / "decoder.om", ignore)
    assert (folder / name).read_bytes() == b"mine"
    assert left(folder) == [name]


@pytest.mark.usefixtures("no_atc")
def test_what_an_earlier_run_left_is_replaced(folder: Path):
    first = AscendTarget().build(request(), folder / "decoder.om", ignore)
    second = AscendTarget().build(request(precision="fp16"), folder / "decoder.om", ignore)
    assert first.script == second.script
