from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.om import builder
from voxrepo_contract import om


@pytest.mark.parametrize("wide", [True, False], ids=["64-bit tables", "32-bit tables"])
def test_reads_tensors_and_gears_in_the_order_of_the_input_shape_option(wide):
    read = om.read(builder.dims_gears(wide).write())
    assert [(tensor.name, tensor.dtype, tensor.dims, tensor.format) for tensor in read.inputs] == [
        ("latent", "FP32", (1, 192, -1), "ND"),
        ("mask", "FP32", (1, 1, -1), "ND"),
    ]
    assert read.outputs == (om.OmTensor("features:0", "FP32", (1, 80, 128), "ND", 40960),)
    assert read.gear_input is not None and read.gear_input.size_bytes == 16
    assert read.kind == "dims_gears"
    assert read.gears == (
        {"mask": (1, 1, 64), "latent": (1, 192, 64)},
        {"mask": (1, 1, 128), "latent": (1, 192, 128)},
    )
    assert read.shape_order == ("mask", "latent")
    assert read.header.wide_tables is wide


def test_gives_each_value_of_a_gear_to_the_dim_that_the_order_names():
    described = builder.inout(
        [builder.Tensor("a", [-1, 2]), builder.Tensor("b", [3, -1])],
        [builder.Tensor("y", [1])],
        dims=[[10, 20], [30, 40]],
        order=["b", "a"],
    )
    read = om.read(builder.Om([[(0, builder.definition()), (8, described)]]).write())
    assert read.gears == ({"b": (3, 10), "a": (20, 2)}, {"b": (3, 30), "a": (40, 2)})


def test_reads_batch_gears():
    read = om.read(builder.batch_gears().write())
    assert read.kind == "batch_gears"
    assert [gear["x"] for gear in read.gears] == [(1, 80), (4, 80), (8, 80)]


def test_reads_image_gears():
    read = om.read(builder.image_gears().write())
    assert read.kind == "image_gears"
    assert [gear["image"] for gear in read.gears] == [(1, 3, 224, 224), (1, 3, 448, 448)]


def test_reads_a_range_model_with_several_sub_models():
    read = om.read(builder.ranged().write())
    assert read.kind == "range" and read.gears == ()
    assert read.inputs[0].ranges == ((1, 1), (1, 512))
    assert read.outputs[0].ranges[1] == (1, -1)
    assert [sub.name for sub in read.sub_models] == ["decoder", "sub", "sub"]
    assert [sub.size_of("WEIGHTS") for sub in read.sub_models] == [0, 16, 16]
    assert read.memory_bytes == (1 << 20) + 2 * 10240
    assert read.weight_bytes == 4096 + 16 + 16
    assert read.header.runs_dynamic


def test_reads_a_static_model():
    read = om.read(builder.static().write())
    assert read.kind == "static"
    assert read.inputs == (om.OmTensor("x", "FP16", (1, 80), "ND", 160),)
    assert not read.header.runs_dynamic


def test_a_static_graph_inside_the_dynamic_executor_counts_as_range():
    assert om.read(builder.static(dynamic=1).write()).kind == "range"


def test_a_model_whose_output_size_is_not_known_counts_as_range():
    described = builder.inout([builder.Tensor("x", [1, 4])], [builder.Tensor("y", [-1])])
    assert om.read(builder.Om([[(0, builder.definition()), (8, described)]]).write()).kind == "range"


def test_reads_inputs_from_the_graph_where_old_files_do_not_describe_them():
    read = om.read(builder.undescribed().write())
    assert [(tensor.name, tensor.dtype, tensor.dims) for tensor in read.inputs] == [
        ("first", "INT64", (1, 4)),
        ("second", "FP32", (1, 64)),
    ]
    assert [(tensor.name, tensor.dtype, tensor.dims) for tensor in read.outputs] == [("output_0_add_0", "FP16", (1, 9))]
    assert read.kind == "static" and read.inputs[0].size_bytes == 32


def test_reads_gears_from_the_graph_where_old_files_do_not_describe_them():
    read = om.read(builder.undescribed(gears=True).write())
    assert read.kind == "dims_gears"
    assert [gear["second"] for gear in read.gears] == [(1, 32), (1, 64)]
    assert read.gears[0]["first"] == (1, 4)


def test_takes_the_names_of_outputs_that_the_builder_wrote():
    operators = [
        builder.operator("x", "Data", inputs=[builder.Tensor("", [1])]),
        builder.operator("out", "NetOutput", inputs=[builder.Tensor("", [1])], sources=["add"]),
    ]
    named = builder.definition(values={"attr_model_out_nodes_name": ["audio"]}, operators=operators)
    assert om.read(builder.Om([[(0, named)]]).write()).outputs[0].name == "audio:0"


def test_reads_what_the_builder_wrote_about_the_model():
    read = om.read(builder.dims_gears().write())
    attributes = read.attributes
    assert attributes.soc_version == read.soc == "Ascend910B3"
    assert (attributes.opp_version, attributes.atc_version) == ("7.6.0.1.220", "8.0.RC3")
    assert attributes.atc_cmdline == builder.COMMAND
    assert (attributes.memory_bytes, attributes.weight_bytes, attributes.stream_count) == (1 << 20, 4096, 2)
    assert attributes.om_info == (4096, 1000, 0, 500, 0)
    assert [(part.name, part.size_bytes) for part in read.sub_models[0].partitions][2:] == [
        ("WEIGHTS", 4096),
        ("TASK_INFO", 5),
    ]


def test_keeps_control_characters_of_a_file_away_from_the_terminal():
    read = om.read(builder.dims_gears(soc_version="Ascend\x1b[31m").write())
    assert read.soc == "Ascend\ufffd[31m"


def test_skips_blocks_and_attributes_of_newer_versions():
    described = builder.inout([builder.Tensor("x", [1])], [builder.Tensor("y", [1])], extra=[(40, b"new")])
    definition = builder.definition() + builder.number(90, 7) + builder.blob(91, b"new") + b"\xe5\x05abcd"
    assert om.read(builder.Om([[(0, definition), (8, described), (77, b"new")]]).write()).inputs[0].name == "x"


def test_reads_a_file_without_reading_its_weights(tmp_path):
    model = builder.dims_gears().write()
    file = tmp_path / "model.om"
    file.write_bytes(model)
    read = om.read(file)
    weights = next(part for part in read.sub_models[0].partitions if part.name == "WEIGHTS")
    # the same file with 3 GB of weights in a hole
    grown = builder.dims_gears()
    size = 3 << 30
    content = bytearray(grown.write())
    shift = size - weights.size_bytes
    entry = content.index(weights.size_bytes.to_bytes(8, "little"), 256)
    content[entry : entry + 8] = size.to_bytes(8, "little")
    tasks = content.index((weights.offset - 256 - 8 - 4 * 24 + weights.size_bytes).to_bytes(8, "little"), 256)
    old = int.from_bytes(content[tasks : tasks + 8], "little")
    content[tasks : tasks + 8] = (old + shift).to_bytes(8, "little")
    content[184:192] = (len(model) - 256 + shift).to_bytes(8, "little")
    with file.open("wb") as stream:
        stream.write(content[: weights.offset])
        stream.truncate(len(model) + shift)
    read = om.read(file)
    assert read.weight_bytes == size and len(read.gears) == 2


def test_names_the_file_in_its_result(tmp_path: Path):
    file = tmp_path / "model.om"
    file.write_bytes(builder.static().write())
    assert om.read(str(file)).file == str(file)
    assert om.read(file.read_bytes(), "decoder.om").file == "decoder.om"


def test_gives_everything_as_json():
    import json

    value = json.loads(json.dumps(om.read(builder.dims_gears().write()).to_json()))
    assert value["soc"] == "Ascend910B3" and value["weight_bytes"] == 4096
    assert value["gears"][1] == {"mask": [1, 1, 128], "latent": [1, 192, 128]}


@pytest.mark.parametrize(
    ("command", "precision", "is_default", "virtual"),
    [
        ("atc --model=a.onnx --precision_mode_v2=mixed_float16", "mixed_float16", False, False),
        ("atc --model a.onnx --precision_mode must_keep_origin_dtype --virtual_type 1", "origin", False, True),
        ("atc --precision_mode=force_fp16 --virtual_type=0", "fp16", False, False),
        ("atc --model=a.onnx --input_shape=x:1,2;y:3 --framework=5", "fp16", True, False),
        ("", "", False, None),
    ],
)
def test_tells_the_precision_from_the_command(command, precision, is_default, virtual):
    read = om.read(builder.dims_gears(atc_cmdline=command).write())
    assert (read.precision, read.precision_is_default, read.virtual_type) == (precision, is_default, virtual)


def test_tells_weights_kept_in_other_files():
    assert om.read(builder.dims_gears(atc_cmdline="atc --external_weight=1").write()).external_weights
    assert not om.read(builder.dims_gears().write()).external_weights


def test_an_old_file_that_hides_which_gears_it_has_is_not_taken_for_static():
    hidden = builder.operator("ascend_mbatch_shape_data", "Data", inputs=[builder.Tensor("", [1], "INT64")])
    data = builder.operator("x", "Data", inputs=[builder.Tensor("", [1, 128])])
    case = builder.operator("case", "Case", attributes={"\x01": 2})
    out = builder.operator("out", "NetOutput", inputs=[builder.Tensor("", [1, 9])], sources=["case"])
    values = builder.decoder_values(om_compress_version=1)
    read = om.read(builder.Om([[(0, builder.definition("old", values, [data, hidden, case, out]))]]).write())
    assert (read.kind, read.gears) == ("dims_gears", ())
    assert read.gear_input is not None and read.attributes.compressed_attributes
