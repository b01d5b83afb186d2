"""The emulator's own model file."""

from __future__ import annotations

import json
import pickle
import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxrepo_contract import emulated_om, om
from voxrepo_contract.emulated_om import OmHeader, OmTensor
from voxrepo_contract.errors import ConfigError

STATIC = OmHeader(
    name="加法",
    soc="Ascend910B3",
    kind="static",
    inputs=(OmTensor("x", "FP32", (1, 4)),),
    outputs=(OmTensor("y", "FP32", (1, 4)),),
    input_order=("x",),
    weights_bytes=10,
    work_bytes=20,
    conversion="voxrepo convert a.onnx",
)
GEARS = replace(
    STATIC,
    kind="dims_gears",
    inputs=(OmTensor("x", "FP32", (-1, 4)), OmTensor("n", "INT64", (-1,))),
    outputs=(OmTensor("y", "FP32", (-1, 4)),),
    gears=({"x": (1, 4), "n": (1,)}, {"x": (2, 4), "n": (2,)}),
    outputs_by_gear=({"y": (1, 4)}, {"y": (2, 4)}),
    input_order=("n", "x"),
)
RANGE = replace(
    STATIC,
    kind="range",
    inputs=(OmTensor("x", "FP32", (-1, 4), ((1, -1), (4, 4))),),
    outputs=(OmTensor("y", "FP32", (-1, 4), ((1, -1), (4, 4))),),
    unbounded_outputs=True,
)
GRAPH = b"\x08\x08\x12\x00graph"


@pytest.mark.parametrize("header", [STATIC, GEARS, RANGE], ids=lambda header: header.kind)
def test_gives_back_what_was_written(tmp_path: Path, header: OmHeader) -> None:
    file = tmp_path / "m.om"
    emulated_om.write(file, header, GRAPH)
    assert emulated_om.read(file) == emulated_om.EmulatedOm(header, GRAPH)
    assert emulated_om.read(file.read_bytes()).onnx == GRAPH
    assert emulated_om.read_header(file) == emulated_om.read_header(file.read_bytes()) == header
    assert om.identify(file) == "emulated_om"
    assert [path.name for path in tmp_path.iterdir()] == ["m.om"], "nothing is left beside it"


def test_lays_the_file_out_as_documented(tmp_path: Path) -> None:
    emulated_om.write(tmp_path / "m.om", STATIC, GRAPH)
    data = (tmp_path / "m.om").read_bytes()
    magic, version, count = struct.unpack_from("<8sII", data)
    assert (magic, version) == (b"VOXEMUOM", 1)
    assert json.loads(data[16 : 16 + count])["soc"] == "Ascend910B3"
    assert data[16 + count : -32] == GRAPH
    assert len(data) == 16 + count + len(GRAPH) + 32


FOREIGN = {
    "an offline model of Huawei's": b"IMOD" + bytes(252),
    "a ZIP file": b"PK\x03\x04" + bytes(30),
    "a Python pickle": pickle.dumps({"a": 1}),
    "an ONNX graph": b"\x08\x08\x12\x07pytorch",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "a text file": b"hello\n",
    "an empty file": b"",
    "a file of an unknown kind": bytes(range(120, 200)),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_says_what_another_file_is_instead(tmp_path: Path, name: str) -> None:
    file = tmp_path / "m.om"
    file.write_bytes(FOREIGN[name])
    assert om.identify(file) != "emulated_om"
    for read in (emulated_om.read, emulated_om.read_header):
        with pytest.raises(ConfigError, match="not an emulated OM") as caught:
            read(file)
        assert name in str(caught.value)
        assert str(file) in str(caught.value)
        assert "voxrepo convert" in str(caught.value)


def test_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.om: the file is missing"):
        emulated_om.read(tmp_path / "none.om")


def test_refuses_a_newer_format_and_a_damaged_file() -> None:
    data = emulated_om.encode(STATIC, GRAPH)
    newer = data[:8] + struct.pack("<I", 2) + data[12:]
    with pytest.raises(ConfigError, match="format version 2"):
        emulated_om.read(newer)
    with pytest.raises(ConfigError, match="checksum"):
        emulated_om.read(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ConfigError, match=r"checksum|cut off"):
        emulated_om.read(data[:-5])
    with pytest.raises(ConfigError, match="cut off"):
        emulated_om.read_header(data[:30])
    huge = data[:12] + struct.pack("<I", 1 << 31) + data[16:]
    with pytest.raises(ConfigError, match="header of 2147483648 bytes"):
        emulated_om.read(huge)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"kind": "other"}, "kind 'other'"),
        ({"inputs": ()}, "no inputs"),
        ({"inputs": (OmTensor("x", "FP32", (-1, 4)),)}, "static, yet"),
        ({"inputs": (OmTensor("x", "FLOAT", (1, 4)),)}, "unknown dtype 'FLOAT'"),
        ({"inputs": (OmTensor("x", "FP32", (-2,)),)}, "impossible dims"),
        ({"inputs": (OmTensor("x", "FP32", (1, 4)),) * 2}, "one name"),
        ({"inputs": (OmTensor("x", "FP32", (1,), ((1, 1),)),)}, "ranges"),
        ({"input_order": ("y",)}, "input_order"),
        ({"weights_bytes": -1}, "negative"),
        ({"gears": ({"x": (1, 4)},)}, "its kind has none"),
        ({"kind": "batch_gears"}, "no input has a size of -1"),
    ],
)
def test_refuses_a_header_that_contradicts_itself(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    header = replace(STATIC, **change)
    with pytest.raises(ConfigError, match="contradicts itself") as caught:
        emulated_om.write(tmp_path / "m.om", header, GRAPH)
    assert part in str(caught.value)
    assert not (tmp_path / "m.om").exists()
    with pytest.raises(ConfigError, match="contradicts itself"):
        emulated_om.read(emulated_om.encode(header, GRAPH))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"gears": GEARS.gears[:1]}, "1 gears"),
        ({"gears": ({"x": (1, 4)}, {"x": (2, 4)})}, "gear 0 does not name 'n'"),
        ({"gears": (GEARS.gears[0], {"x": (2, 5), "n": (2,)})}, "gear 1 gives 'x' the dims [2, 5]"),
        ({"outputs_by_gear": GEARS.outputs_by_gear[:1]}, "one entry per gear"),
        ({"outputs_by_gear": ({"y": (1, 4)}, {"y": (1,)})}, "outputs of gear 1"),
    ],
)
def test_refuses_gears_that_do_not_fit_the_tensors(tmp_path: Path, change: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        emulated_om.write(tmp_path / "m.om", replace(GEARS, **change), GRAPH)
    assert part in str(caught.value)


def test_reads_files_of_converters_that_do_not_write_outputs_by_gear() -> None:
    value = GEARS.to_json()
    del value["outputs_by_gear"]
    text = json.dumps(value).encode()
    head = struct.pack("<8sII", emulated_om.MAGIC, 1, len(text)) + text
    assert emulated_om.read_header(head).outputs_by_gear == ()


def test_raises_nothing_but_its_own_error_on_mutated_headers() -> None:
    rng = random.Random(7)
    text = json.dumps(GEARS.to_json()).encode()
    snippets = [b"", b"0", b"-1", b"[", b"null", b'"', b"{}", b"1e9"]
    for _ in range(3000):
        changed = bytearray(text)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(changed))
            changed[place : place + rng.randint(0, 3)] = rng.choice(snippets)
        head = struct.pack("<8sII", emulated_om.MAGIC, 1, len(changed)) + bytes(changed)
        try:
            emulated_om.read_header(head)
        except ConfigError:
            continue


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_raises_nothing_but_its_own_error_on_any_bytes(data: bytes) -> None:
    for source in (data, emulated_om.MAGIC + data):
        with pytest.raises(ConfigError):
            emulated_om.read(source)
