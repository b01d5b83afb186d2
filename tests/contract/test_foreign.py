from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.contract.om import builder
from voxrepo_contract import emulated_om
from voxrepo_contract.emulated_om import OmHeader, OmTensor
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.foreign import (
    ForeignGraph,
    ForeignTensor,
    find_graph_file,
    graph_of_stage,
    graph_spec_of,
    read_foreign,
)
from voxrepo_contract.foreign_om import RawTensor, named
from voxrepo_contract.stage import sha256_of

Shape = Sequence[str | int | None] | None


def place_onnx(folder: Path, inputs: dict[str, Shape], outputs: dict[str, Shape], **more: Any) -> Path:
    """``model.onnx`` with the given shapes; returns its folder."""
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Identity", [next(iter(inputs))], [next(iter(outputs))])],
            "g",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
            more.get("initializer"),
        )
    )
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(folder / "model.onnx"), **more.get("save", {}))
    return folder


def place_om(folder: Path, kind: str, inputs: Sequence[OmTensor], outputs: Sequence[OmTensor], **more: Any) -> Path:
    """``model.om`` for the emulator; returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    header = OmHeader("m", "Ascend910B3", kind, tuple(inputs), tuple(outputs), **more)
    emulated_om.write(folder / "model.om", header, b"graph")
    return folder


# Which axis is a batch


@pytest.mark.parametrize(
    ("inputs", "outputs", "joinable"),
    [
        ({"x": ["batch", 3]}, {"y": ["batch", 3]}, "yes"),
        ({"x": ["batch_size", 3], "n": ["batch_size"]}, {"y": ["batch_size"]}, "yes"),
        ({"x": ["N", 3, 224, 224]}, {"y": ["N", 1000]}, "yes"),
        ({"x": ["unk__12", 3]}, {"y": ["unk__12", 2]}, "maybe"),
        ({"x": ["s0", 3]}, {"y": ["s0", 2]}, "maybe"),
        # one symbol in front of everything, which is a length by its name, or since the inputs are mere lists
        ({"x": ["seq_len", 80]}, {"y": ["seq_len", 80]}, "no"),
        ({"x": ["time", 80]}, {"y": ["time", 2]}, "no"),
        ({"x": ["T", 80]}, {"y": ["T", 80]}, "no"),
        ({"x": ["n"]}, {"y": ["n"]}, "no"),
        # symbols that differ, or none
        ({"x": ["a", 3]}, {"y": ["b", 3]}, "no"),
        ({"x": ["batch", 3], "scale": [1]}, {"y": ["batch", 3]}, "no"),
        ({"x": ["batch", 3], "scale": []}, {"y": ["batch", 3]}, "no"),
        ({"x": [None, 3]}, {"y": [None, 3]}, "no"),
        ({"x": [1, 3]}, {"y": [1, 3]}, "no"),
        ({"x": ["batch", 3]}, {"y": None}, "no"),
    ],
)
def test_the_batch_axis_is_told_by_its_symbol(
    tmp_path: Path, inputs: dict[str, Shape], outputs: dict[str, Shape], joinable: str
):
    assert read_foreign(place_onnx(tmp_path, inputs, outputs)).joinable == joinable


def test_an_onnx_file_runs_on_the_cpu_and_its_unnamed_axes_get_names(tmp_path: Path):
    graph = read_foreign(place_onnx(tmp_path, {"x": ["batch", None, 3]}, {"y": ["batch", 2]}))
    assert (graph.file, graph.device, graph.gears, graph.max_batch) == ("model.onnx", "cpu", (), None)
    assert graph.inputs == (ForeignTensor("x", "FP32", ("batch", "x.1", 3)),)


# Which file


def test_two_graph_files_are_refused_and_a_stage_yaml_asked_for(tmp_path: Path):
    place_onnx(tmp_path, {"x": [1]}, {"y": [1]})
    (tmp_path / "model.om").write_bytes(b"IMOD")
    with pytest.raises(ConfigError, match=r"has both model.om and model.onnx; .* stage.yaml"):
        find_graph_file(tmp_path)


def test_a_folder_without_a_graph_says_what_it_may_hold(tmp_path: Path):
    (tmp_path / "labels.txt").write_text("a", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"holds neither model.onnx nor model.om nor a stage.yaml$"):
        find_graph_file(tmp_path)
    (tmp_path / "resnet.ONNX").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"; rename resnet\.ONNX"):
        find_graph_file(tmp_path)


def test_links_and_files_beside_the_graph_are_fine(tmp_path: Path):
    place_onnx(tmp_path / "elsewhere", {"x": [1]}, {"y": [1]})
    folder = tmp_path / "1"
    folder.mkdir()
    (folder / "labels.txt").write_text("a", encoding="utf-8")
    (folder / "model.onnx").symlink_to(tmp_path / "elsewhere" / "model.onnx")
    assert read_foreign(folder).inputs[0].name == "x"


def test_a_link_to_nothing_is_named(tmp_path: Path):
    (tmp_path / "model.onnx").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match=r"model.onnx: is a link to a file that is not there"):
        read_foreign(tmp_path)


def test_a_pipe_in_the_place_of_a_graph_does_not_keep_the_reader_waiting(tmp_path: Path):
    os.mkfifo(tmp_path / "model.onnx")
    with pytest.raises(ConfigError, match="is no file"):
        read_foreign(tmp_path)


@pytest.mark.parametrize("shape", [[2**40, 2**40], [1, 60_000, 60_000], ["n", 1 << 28, 2]])
def test_a_tensor_that_no_request_could_carry_is_refused_with_its_size(tmp_path: Path, shape: list[str | int]):
    with pytest.raises(ConfigError, match=r"input 'x' has the shape .*, which takes \d+ bytes; a request can carry"):
        read_foreign(place_onnx(tmp_path, {"x": shape}, {"y": shape}))


def test_a_tensor_of_the_largest_size_is_read(tmp_path: Path):
    assert read_foreign(place_onnx(tmp_path, {"x": ["n", 1 << 28]}, {"y": ["n", 1 << 28]})).inputs


def test_a_pickle_named_om_is_never_unpickled(tmp_path: Path):
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "exploded"),)

    (tmp_path / "model.om").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ConfigError, match="is a Python pickle, not an OM; it is never unpickled"):
        read_foreign(tmp_path)
    assert not (tmp_path / "exploded").exists()


def test_an_onnx_file_named_om_is_told_by_its_content(tmp_path: Path):
    place_onnx(tmp_path, {"x": [1]}, {"y": [1]})
    (tmp_path / "model.onnx").rename(tmp_path / "model.om")
    with pytest.raises(ConfigError, match=r"is an ONNX model, not an OM; name it \.onnx"):
        read_foreign(tmp_path)


# Weights beside the graph


def place_external(folder: Path, location: str = "weights.bin") -> Path:
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    options = {"save_as_external_data": True, "location": location, "size_threshold": 0}
    return place_onnx(folder, {"x": ["n", 64]}, {"y": ["n", 64]}, initializer=[weight], save=options)


def test_weights_in_another_file_must_be_there(tmp_path: Path):
    place_external(tmp_path)
    assert read_foreign(tmp_path).device == "cpu"
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ConfigError, match=r"keeps weights in 'weights.bin', which is not there; copy that file"):
        read_foreign(tmp_path)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "a/../../b", ""])
def test_weights_outside_of_the_folder_are_refused(tmp_path: Path, location: str):
    place_external(tmp_path / "1")
    file = tmp_path / "1" / "model.onnx"
    model = onnx.load(str(file), load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    file.write_bytes(model.SerializeToString())
    with pytest.raises(ConfigError, match="which is outside of its folder"):
        read_foreign(tmp_path / "1")


# OM


def gears(*batches: int) -> tuple[dict[str, tuple[int, ...]], ...]:
    return tuple({"x": (batch, 3)} for batch in batches)


def test_batch_gears_give_a_batch_axis_and_its_largest_size(tmp_path: Path):
    place_om(tmp_path, "batch_gears", [OmTensor("x", "FP32", (-1, 3))], [OmTensor("y", "FP16", (-1, 2))],
             gears=gears(1, 4, 8))  # fmt: skip
    graph = read_foreign(tmp_path)
    assert (graph.device, graph.joinable, graph.max_batch, graph.soc) == ("npu", "yes", 8, "Ascend910B3")
    assert graph.inputs == (ForeignTensor("x", "FP32", ("batch", 3)),)
    assert graph.outputs == (ForeignTensor("y", "FP16", ("batch", 2)),)
    assert graph.gears == ({"batch": 1}, {"batch": 4}, {"batch": 8})


def test_a_static_om_has_no_batch_axis(tmp_path: Path):
    place_om(tmp_path, "static", [OmTensor("x", "FP32", (1, 3))], [OmTensor("y", "FP32", (1, 2))])
    graph = read_foreign(tmp_path)
    assert (graph.joinable, graph.gears, graph.inputs[0].dims) == ("no", (), (1, 3))


def raw(name: str, *dims: int, ranges: Sequence[tuple[int, int]] = (), dtype: str = "FP32") -> RawTensor:
    return RawTensor(name, dtype, dims, tuple(ranges))


def test_joint_gears_name_every_axis_that_varies():
    facts = named(
        Path("m.om"),
        "dims_gears",
        [raw("x", -1, -1), raw("m", -1, 1, -1)],
        [raw("y", -1, -1, 80)],
        [{"x": (b, t), "m": (b, 1, t)} for b, t in ((1, 64), (4, 64), (1, 128))],
        "Ascend910B3",
    )
    assert (facts.has_batch, facts.max_batch) == (True, 4)
    assert facts.inputs[1].dims == ("batch", 1, "m.2")
    assert facts.outputs[0].dims == ("batch", "y.1", 80)
    assert facts.gears[2] == {"batch": 1, "x.1": 128, "m.2": 128}


def test_gears_over_a_length_in_front_are_no_batch():
    facts = named(Path("m.om"), "dims_gears", [raw("x", -1, 80)], [raw("y", -1, 80)],
                  [{"x": (64, 80)}, {"x": (128, 80)}], "")  # fmt: skip
    assert not facts.has_batch
    assert facts.gears == ({"x.0": 64}, {"x.0": 128})


def test_inputs_whose_first_axes_differ_have_no_common_batch():
    facts = named(Path("m.om"), "dims_gears", [raw("x", -1, 3), raw("z", -1, 3)], [raw("y", -1, 3)],
                  [{"x": (1, 3), "z": (2, 3)}, {"x": (2, 3), "z": (2, 3)}], "")  # fmt: skip
    assert not facts.has_batch


@pytest.mark.parametrize(("highest", "limit"), [(8, 8), (-1, None)])
def test_a_range_gives_the_batch_its_bound(highest: int, limit: int | None):
    facts = named(Path("m.om"), "range", [raw("x", -1, 3, ranges=[(1, highest), (3, 3)])], [raw("y", -1, 3)], [], "")
    assert (facts.has_batch, facts.max_batch) == (True, limit)


@pytest.mark.parametrize(
    ("kind", "inputs", "says"),
    [
        ("image_gears", [raw("x", -1, 3)], "built with --dynamic_image_size, which is not supported"),
        ("static", [raw("x", 1, 3, dtype="BF16")], "input 'x' has the data type BF16, which no request can carry"),
        ("static", [raw("x", 0, 3)], r"input 'x' has the shape \[0, 3\]"),
        ("static", [], "has no inputs"),
    ],
)
def test_what_cannot_be_served_of_an_om_is_refused(kind: str, inputs: list[RawTensor], says: str):
    with pytest.raises(ConfigError, match=rf"m\.om: .*{says}"):
        named(Path("m.om"), kind, inputs, [raw("y", 1)], [], "")


def test_a_file_of_huaweis_with_batch_gears_joins_requests(tmp_path: Path):
    (tmp_path / "model.om").write_bytes(builder.batch_gears().write())
    graph = read_foreign(tmp_path)
    assert (graph.device, graph.joinable, graph.max_batch) == ("npu", "yes", 8)
    assert [tensor.dims for tensor in (*graph.inputs, *graph.outputs)] == [("batch", 80), ("batch", 4)]


def test_a_file_of_huaweis_with_joint_gears_does_not_say_which_output_sizes_vary(tmp_path: Path):
    (tmp_path / "model.om").write_bytes(builder.dims_gears().write())
    graph = read_foreign(tmp_path)
    assert (graph.joinable, graph.max_batch) == ("no", None)
    assert graph.inputs[0] == ForeignTensor("latent", "FP32", (1, 192, "latent.2"))
    assert graph.outputs == (ForeignTensor("features:0", "FP32", ("features:0.0", "features:0.1", "features:0.2")),)
    assert graph.gears == ({"latent.2": 64, "mask.2": 64}, {"latent.2": 128, "mask.2": 128})


# To and from stage.yaml


def test_the_description_of_a_stage_says_the_same_again(tmp_path: Path):
    place_om(tmp_path, "batch_gears", [OmTensor("x", "FP32", (-1, 3))], [OmTensor("y", "FP32", (-1, 2))],
             gears=gears(1, 4))  # fmt: skip
    graph = read_foreign(tmp_path)
    spec = graph_spec_of(tmp_path, graph, joined=True)
    assert spec.sha256 == sha256_of(tmp_path / "model.om")
    again = graph_of_stage(spec)
    assert again.signature == graph.signature
    assert (again.joinable, again.max_batch, again.gears, again.device) == ("yes", 4, graph.gears, "npu")


def test_an_axis_named_batch_is_renamed_where_requests_are_not_joined(tmp_path: Path):
    place_onnx(tmp_path, {"x": ["batch", 3], "s": [1]}, {"y": ["batch", 3]})
    spec = graph_spec_of(tmp_path, read_foreign(tmp_path), joined=False)
    assert [tensor.dims for tensor in (*spec.inputs, *spec.outputs)] == [["rows", 3], [1], ["rows", 3]]


def test_a_first_axis_is_the_batch_where_the_configuration_says_so(tmp_path: Path):
    place_onnx(tmp_path, {"x": ["a", 3]}, {"y": ["b", 3]})
    spec = graph_spec_of(tmp_path, read_foreign(tmp_path), joined=True)
    assert [tensor.dims for tensor in (*spec.inputs, *spec.outputs)] == [["batch", 3], ["batch", 3]]


def test_the_signature_takes_no_notice_of_axis_names_and_order():
    def graph(first: str, *names: str) -> ForeignGraph:
        tensors = tuple(ForeignTensor(name, "FP32", (first, 3)) for name in names)
        return ForeignGraph("model.onnx", "cpu", tensors, tensors)

    assert graph("batch", "a", "b").signature == graph("n", "b", "a").signature
    assert graph("batch", "a").signature != graph("batch", "b").signature
