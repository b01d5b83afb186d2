from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.convert.atc.helpers import atc, one_node
from tests.convert.graphs import decoder, save
from voxrepo.convert.atc.advice import advice_from, known_errors

BASE = ["--framework=5", "--output=out", "--soc_version=Ascend310P3", "--input_format=ND"]
SHAPE = "--input_shape=latent:-1,4,-1;mask:-1,1,-1"
MODEL = "--model=m.onnx"


def many(count: int) -> str:
    return ";".join(f"1,{size},1,{size}" for size in range(1, count + 1))


REFUSALS: list[tuple[list[str], str, str, str]] = [
    # arguments, code, where, what to do
    ([MODEL, *BASE, SHAPE, "--dynamic_dim=1,1,1,1;2,2,2,2"], "E10001", "dynamic_dim", "read the reason"),
    ([MODEL, *BASE[:2], "--soc_version=Ascend911", SHAPE], "E10001", "soc_version=Ascend911", "full name"),
    ([MODEL, *BASE, "--input_shape=latent=1,4,8"], "E10002", "input_shape=latent=1,4,8", "quote it"),
    ([MODEL, *BASE, SHAPE, "--precision_mode_v2="], "E10004", "precision_mode_v2", "give it a value"),
    ([MODEL, *BASE, SHAPE, "--enable_single_stream=1"], "E10005", "enable_single_stream=1", "true or false"),
    ([*BASE, SHAPE], "E10007", "model", "always needed"),
    ([MODEL, *BASE, SHAPE, "--dynamic_batch_size=1,2", "--dynamic_dims=1,1,1,1;2,2,2,2"], "E10009", "", "keep one of"),
    ([MODEL, *BASE, SHAPE, "--log=loud"], "E10010", "log=loud", "debug, info"),
    ([MODEL, *BASE, SHAPE], "E10011", "input_shape", "give gears"),
    ([MODEL, *BASE, "--input_shape=latent:1,4,8;maks:1,1,8"], "E10016", "maks", "exact names"),
    ([MODEL, *BASE, SHAPE, "--dynamic_batch_size=1,2"], "E10018", "", "use --dynamic_dims"),
    ([MODEL, "--framework=5", "--output=here/", BASE[2], SHAPE], "E10022", "output", "end in a name"),
    ([MODEL, *BASE, SHAPE, "--dynamic_dims=1,8,1,8"], "E10035", "", "two or more"),
    ([MODEL, *BASE, SHAPE, f"--dynamic_dims={many(101)}"], "E10036", "", "voxrepo gears"),
    ([MODEL, *BASE, SHAPE, "--dynamic_dims=1,8,1,8;1,8,1"], "E10037", "", "each -1"),
    ([MODEL, *BASE, SHAPE, "--dynamic_dims=1,8,1,8;1,0,1,0"], "E10038", "", "sizes from 1"),
    ([MODEL, *BASE, SHAPE, "--dynamic_dims=1,8,1,8;1,8,1,8"], "E10039", "", "every gear once"),
    ([MODEL, *BASE, "--input_shape=latent:1,4,8;mask:1,1,8", "--dynamic_dims=1;2"], "E10040", "", "write -1"),
    ([MODEL, *BASE, "--input_shape=latent:1~2,4,8;mask:1,1,8", "--dynamic_dims=1;2"], "E10040", "", "gears or ranges"),
    (["--model=text.onnx", *BASE, SHAPE], "E10041", "text.onnx", "above 2 GB"),
    ([MODEL, "--framework=3", *BASE[1:], SHAPE], "E10041", "m.onnx", "--framework is 5"),
    ([MODEL, *BASE, SHAPE, "--dynamic_dims=1,8;2,16"], "E10045", "", "in the order of"),
    ([MODEL, *BASE, "--input_shape=latent:1,4,-1;mask:1,1,8", "--dynamic_dims=1,8;2,16"], "E10046", "", "in the order"),
    (
        [MODEL, *BASE, SHAPE, "--precision_mode=force_fp16", "--precision_mode_v2=fp16"],
        "E10047",
        "precision_mode",
        "second",
    ),
    ([MODEL, *BASE, "--input_shape=latent:1,4;mask:1,1,8"], "E10049", "input_shape", "one size for each axis"),
    ([MODEL, *BASE, SHAPE, "--keep_dtype=none.cfg"], "E10410", "none.cfg", "beside the script"),
    (["--model=none.onnx", *BASE, SHAPE], "E13000", "none.onnx", "check the path"),
    ([MODEL, *BASE[:3], SHAPE, "--dynamic_dims=1,8,1,8;2,16,2,16"], "E10001", "input_format=NCHW", "read the reason"),
    ([MODEL, *BASE, SHAPE, "--precision_mode_v2=mixed_bfloat16"], "E10001", "mixed_bfloat16", "read the reason"),
    (
        [MODEL, *BASE, SHAPE, "--op_select_implmode=high_precision", "--op_precision_mode=m.onnx"],
        "E10056",
        "op_select_implmode",
        "keep one",
    ),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(decoder(), tmp_path / "m.onnx")
    (tmp_path / "text.onnx").write_text("no model", encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("atc")
@pytest.mark.parametrize(
    ("arguments", "code", "where", "to_do"), REFUSALS, ids=[f"{r[1]}-{i}" for i, r in enumerate(REFUSALS)]
)
def test_a_refusal_leads_to_advice(folder: Path, arguments: list[str], code: str, where: str, to_do: str):
    (found,) = advice_from(atc(*arguments, folder=folder))
    assert found.code == code
    assert where in found.where
    assert to_do in found.what_to_do
    assert found.text


@pytest.mark.usefixtures("atc")
@pytest.mark.parametrize(
    ("model", "soc", "code", "where", "to_do"),
    [
        (one_node("Mish", opset=18), "Ascend310P3", "E19010", "operator Mish, node /dec/block/op", "makes it Softplus"),
        (one_node("IsNaN"), "Ascend310P3", "E19010", "operator IsNaN, node /dec/block/op", "use nothing, where"),
        (one_node("Relu", opset=20), "Ascend310P3", "E19010", "operator Relu", "lower the operator set"),
        (one_node("Det"), "Ascend310P3", "EZ3003", "operator Det, node /dec/block/op", "another precision"),
    ],
)
def test_an_operator_that_is_refused_is_named_with_its_replacement(
    tmp_path: Path, model: onnx.ModelProto, soc: str, code: str, where: str, to_do: str
):
    save(model, tmp_path / "m.onnx")
    output = atc(MODEL, *BASE[:2], f"--soc_version={soc}", "--input_shape=x:2,4,4", folder=tmp_path)
    (found,) = advice_from(output)
    assert found.code == code
    assert where in found.where
    assert to_do in found.what_to_do


@pytest.mark.usefixtures("atc")
@pytest.mark.parametrize(
    ("wish", "code", "where", "to_do"),
    [
        ("no_opp", "E10501", "operator Conv2D, node /enc/Conv", "set_env.sh"),
        ("no_decorator", "E40021", "operator StridedSliceD, node /dec/Slice_3, gear 6", "fewer gears"),
        ("inner", "EZ9999", "", "plog"),
        ("disk_full", "E13004", "out.om", "free space"),
        ("unknown_code", "E77777", "", "look the code up"),
    ],
)
def test_a_failure_of_the_machine_leads_to_advice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wish: str, code: str, where: str, to_do: str
):
    monkeypatch.setenv("FAKE_ATC", wish)
    import shutil
    import subprocess

    arguments = [MODEL, *BASE, "--input_shape=latent:1,4,8;mask:1,1,8"]
    done = subprocess.run(
        [str(shutil.which("atc")), *arguments], cwd=folder, check=False, capture_output=True, text=True
    )
    (found,) = advice_from(done.stdout)
    assert found.code == code
    assert where in found.where
    assert to_do in found.what_to_do
    if wish == "unknown_code":
        assert "The moon is in the wrong quarter" in found.what


def test_every_operator_of_a_trace_is_told_once():
    output = """ATC start working now, please wait for a moment...
ATC run failed, Please check the detail log, Try 'atc --help' for more information
E19010: 2024-06-26-16:57:38.215.381 No parser is registered for Op [/a/FindMax, optype [ai.onnx::11::FindMax]].
        Solution: Check the version of the installation package.
        TraceBack (most recent call last):
        No parser is registered for Op [/b/Einsum, optype [ai.onnx::11::Einsum]].
        No parser is registered for Op [/a/FindMax, optype [ai.onnx::11::FindMax]].
"""
    places = [entry.where for entry in advice_from(output)]
    assert places == ["operator FindMax, node /a/FindMax", "operator Einsum, node /b/Einsum"]
    assert "MatMul" in advice_from(output)[1].what_to_do


def test_lines_of_the_log_are_read_too():
    line = (
        "[ERROR] GE(15,atc.bin):2025-02-25-05:12:33.1 [err.cc:21]15 Report: ErrorNo: 1(failed) [E10016] "
        "Opname [nosuch] specified in [--out_nodes] is not found"
    )
    (found,) = advice_from(line)
    assert (found.code, found.where) == ("E10016", "nosuch")


def test_both_forms_of_older_and_newer_releases_are_read():
    old = "E10016: Opname [x] specified in [input_shape] is not found in the model."
    new = "E10016: [PID: 77] 2025-02-25-14:07:19.774.362 Opname x specified in --input_shape is not found in the model."
    assert [advice_from(text)[0].where for text in (old, new)] == ["x", "x"]


def test_output_without_a_code_keeps_its_last_words():
    (found,) = advice_from("starting\nSegmentation fault (core dumped)\n")
    assert found.code == ""
    assert "Segmentation fault" in found.sentence()


def test_success_and_silence_need_no_advice():
    assert advice_from("ATC start working now\nATC run success, welcome to the next use.\n") == []
    assert advice_from("") == []


def test_at_least_forty_codes_are_known_and_say_what_to_do():
    errors = known_errors()
    assert len(errors) >= 40
    assert {"E10001", "E10016", "E10049", "E10501", "E19010", "EZ3002", "EZ3003", "E40021", "EZ9999"} <= set(errors)
    assert all(entry.what[0].islower() or entry.what[0] in "-AO" for entry in errors.values())


def test_advice_has_no_characters_that_steer_a_terminal():
    found = advice_from("noise \x1b[2J\x07\x9b31m\nlast \x1b]0;title\x07 line")
    assert found
    assert not any(character in found[0].sentence() for character in "\x1b\x07\x9b")
