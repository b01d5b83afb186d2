from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner, Result

from tests.contract.om import builder
from voxrepo.cli import inspect
from voxrepo.cli.main import app
from voxrepo_contract import emulated_om
from voxrepo_contract.errors import ConfigError


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["inspect", *arguments], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "decoder.om"
    file.write_bytes(builder.dims_gears().write())
    return file


@pytest.fixture
def emulated(tmp_path: Path) -> Path:
    file = tmp_path / "emulated.om"
    header = emulated_om.OmHeader(
        name="decoder",
        soc="Ascend310P3",
        kind="dims_gears",
        inputs=(emulated_om.OmTensor("x", "FP32", (1, -1)),),
        outputs=(emulated_om.OmTensor("y", "FP32", (1, -1)),),
        gears=({"x": (1, 64)}, {"x": (1, 128)}),
        precision="fp16",
        weights_bytes=2048,
    )
    emulated_om.write(file, header, b"graph")
    return file


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    inner = helper.make_graph([helper.make_node("Exp", ["x"], ["z"])], "inner", [], [])
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
        helper.make_node("If", ["c"], ["w"], then_branch=inner, else_branch=inner),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    made = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 15)], producer_name="tests"
    )
    file = tmp_path / "model.onnx"
    onnx.save(made, file)
    return file


def test_shows_tensors_gears_chip_versions_and_precision_of_an_om(model):
    result = run(str(model))
    assert result.exit_code == 0, result.output
    for said in (
        "Ascend910B3",
        "8.0.RC3",
        "7.6.0.1.220",
        "origin",
        "latent",
        "[1, 192, ?]",
        "[1, 192, 64]",
        "[1, 1, 128]",
        "96.0 KiB",
        "1.0 MiB",
    ):
        assert said in result.output
    assert "emulator" not in result.output


def test_gives_the_same_as_json(model):
    found = json.loads(run(str(model), "--json").stdout)
    assert (found["format"], found["emulator_only"], found["soc"]) == ("om", False, "Ascend910B3")
    assert found["gears"][0] == {"mask": [1, 1, 64], "latent": [1, 192, 64]}
    assert found["input_shape_order"] == ["mask", "latent"]
    assert (found["weights_bytes"], found["work_bytes"]) == (4096, 1 << 20)
    assert found["sub_models"][0]["partitions"]["WEIGHTS"] == 4096


def test_warns_of_the_precision_that_nobody_chose(tmp_path):
    file = tmp_path / "a.om"
    file.write_bytes(builder.dims_gears(atc_cmdline="atc --model=a.onnx").write())
    assert "fp16, ATC's default, since none was given" in run(str(file)).output


def test_labels_a_model_for_the_emulator(emulated):
    result = run(str(emulated))
    assert result.exit_code == 0, result.output
    assert inspect.EMULATOR_ONLY in result.output
    assert "Ascend310P3" in result.output and "[1, 128]" in result.output
    found = json.loads(run(str(emulated), "--json").stdout)
    assert found["emulator_only"] is True and found["format"] == "emulated_om"


def test_refuses_a_damaged_model_for_the_emulator(emulated):
    data = bytearray(emulated.read_bytes())
    data[-40] ^= 1
    emulated.write_bytes(data)
    result = run(str(emulated))
    assert result.exit_code == 1 and "checksum" in result.output


def test_says_whether_a_model_runs_on_a_chip(model, emulated):
    result = run(str(model), "--soc", "Ascend310P3")
    assert result.exit_code == 1
    assert "--soc_version=Ascend310P3" in result.output
    assert run(str(model), "--soc", "Ascend910B3").exit_code == 0
    result = run(str(emulated), "--soc", "Ascend310P3")
    assert result.exit_code == 1 and "emulator" in result.output


def test_shows_opset_and_operators_of_an_onnx_model(graph):
    result = run(str(graph))
    assert result.exit_code == 0, result.output
    assert "ai.onnx 15" in result.output and "[batch, 4]" in result.output
    found = json.loads(run(str(graph), "--json").stdout)
    # both bodies of the If count
    assert found["operators"] == {"Exp": 2, "Relu": 2, "If": 1}
    assert found["inputs"] == [{"name": "x", "dtype": "FP32", "dims": ["batch", 4]}]


def test_shows_tensors_of_an_onnx_model_where_onnx_is_not_installed(graph, monkeypatch):
    def missing() -> None:
        raise ConfigError("no onnx")

    monkeypatch.setattr(inspect, "require_onnx", missing)
    result = run(str(graph))
    assert result.exit_code == 0
    assert "[batch, 4]" in result.output and "voxrepo[convert]" in result.output


@pytest.mark.parametrize("name", ["a.om", "a.onnx", "a.bin"])
def test_says_what_a_file_is_that_is_no_model(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(pickle.dumps({"weights": [1]}))
    result = run(str(file))
    assert result.exit_code == 1
    assert "pickle" in result.output and "Traceback" not in result.output


def test_says_that_a_file_is_missing_or_a_folder(tmp_path):
    assert "missing" in run(str(tmp_path / "no.om")).output
    assert "is a folder" in run(str(tmp_path)).output


@pytest.mark.timeout(20)
def test_a_pipe_does_not_keep_it_waiting(tmp_path):
    os.mkfifo(tmp_path / "model.om")
    assert "is a pipe or a device" in run(str(tmp_path / "model.om")).output


def test_a_truncated_onnx_model_is_refused(graph):
    graph.write_bytes(graph.read_bytes()[:-20])
    result = run(str(graph))
    assert result.exit_code == 1 and str(graph) in result.output.replace("\n", "")


def test_the_type_of_an_om_is_told_by_its_content_not_its_name(model, tmp_path):
    other = tmp_path / "named.onnx"
    other.write_bytes(model.read_bytes())
    assert "Ascend910B3" in run(str(other)).output


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (1023, "1023 B"), (1 << 20, "1.0 MiB"), (5 << 40, "5120.0 GiB")]
)
def test_sizes_are_shown_in_units_people_read(count, shown):
    assert inspect.size(count) == shown


def test_says_which_operators_a_chip_has_replaces_or_lacks(tmp_path: Path):
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="/net/Relu"),
        helper.make_node("Mish", ["h"], ["y"], name="/net/Mish"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    made = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 18)])
    file = tmp_path / "net.onnx"
    onnx.save(made, file)
    result = run(str(file), "--soc", "Ascend310P3")
    assert result.exit_code == 0, result.output
    assert "1 replaced by rule mish" in result.output
    assert "varies along batch" in result.output
    found = json.loads(run(str(file), "--soc", "Ascend310P3", "--json").output)
    assert found["on_chip"]["opset"] == 18
    assert [use["supported"] for use in found["on_chip"]["operators"]] == [0, 1]


def test_a_graph_that_will_not_compile_names_node_module_and_replacement(tmp_path: Path):
    node = helper.make_node("IsNaN", ["x"], ["y"], name="/enc/attn/IsNaN")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    y = helper.make_tensor_value_info("y", TensorProto.BOOL, [2, 4])
    file = tmp_path / "nan.onnx"
    onnx.save(
        helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 15)]), file
    )
    result = run(str(file), "--soc", "Ascend310P3")
    assert result.exit_code == 1
    for said in ("1 will fail", "node /enc/attn/IsNaN in enc.attn", "use nothing, where", "E19010 IsNaN"):
        assert said in result.output
    assert run(str(file)).exit_code == 0


def test_an_unknown_chip_is_refused(graph: Path):
    result = run(str(graph), "--soc", "Ascend999")
    assert result.exit_code == 1
    assert "E10001" in result.output


def test_a_log_of_the_compiler_is_turned_into_advice(tmp_path: Path):
    log = tmp_path / "decoder.log"
    log.write_text("E10016: Opname [x] specified in [input_shape] is not found in the model.\n", encoding="utf-8")
    result = run(str(log))
    assert result.exit_code == 0, result.output
    assert "E10016" in result.output
    assert "use the exact names" in result.output
    assert json.loads(run(str(log), "--json").output)["advice"][0]["where"] == "x"
    log.write_text("ATC run success, welcome to the next use.\n", encoding="utf-8")
    assert "no error" in run(str(log)).output
    assert run(str(tmp_path / "none.log")).exit_code == 1
