from __future__ import annotations

import pickle
import struct
import zipfile

import pytest

from tests.contract.om import builder
from voxrepo_contract import om
from voxrepo_contract.errors import ConfigError


def refusal(data: bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        om.read(data, "model.om")
    assert str(caught.value).startswith("model.om: ")
    return str(caught.value)


def zipped(tmp_path, *names: str) -> bytes:
    file = tmp_path / "a.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"x")
    data: bytes = file.read_bytes()
    return data


class _Explodes:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_refuses_a_pickle_without_opening_it(protocol):
    data = pickle.dumps(_Explodes(), protocol=protocol)
    assert "pickle" in refusal(data)
    assert om.identify(data) == "pickle"


def test_refuses_the_zip_container_of_newer_tools(tmp_path):
    assert "OM2" in refusal(zipped(tmp_path, "model/manifest.json"))
    assert "PyTorch" in refusal(zipped(tmp_path, "model/data.pkl"))


def test_refuses_an_onnx_model(tmp_path):
    onnx = pytest.importorskip("onnx")
    made = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], []), producer_name="pytorch")
    assert "ONNX" in refusal(made.SerializeToString())
    assert om.identify(made.SerializeToString()) == "onnx"


def test_refuses_a_model_for_the_emulator():
    message = refusal(b"VOXEMUOM" + bytes(64))
    assert "emulator" in message and "--device emulator" in message


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "git lfs pull"),
        (b"../.git/annex/objects/ab".replace(b"../.git", b""), "git-annex"),
        (b"not a model\n", "plain text of 12 bytes that begins with 'not a model'"),
        ("模型".encode(), "plain text"),
        (b"<!DOCTYPE html><title>sign in</title>", "web page"),
        (b"\x7fELF" + bytes(300), "7f 45 4c 46"),
    ],
)
def test_says_what_a_file_is_that_is_no_model(data, said):
    assert said in refusal(data)


def test_refuses_a_file_that_is_too_short():
    assert "too short for an OM: 200 bytes" in refusal(builder.static().write()[:200])


def test_refuses_a_truncated_file_with_both_lengths():
    whole = builder.static().write()
    assert f"promises {len(whole)} bytes, there are {len(whole) - 7}" in refusal(whole[:-7])


def test_refuses_a_file_with_something_appended():
    whole = builder.static().write()
    assert f"is {len(whole) + 1} bytes long, its header says {len(whole)}" in refusal(whole + b"x")


def test_refuses_an_encrypted_file():
    assert "encrypted" in refusal(builder.static(encrypted=1).write())


@pytest.mark.parametrize(
    ("model_type", "said"), [(2, "tiny"), (3, "flow"), (4, "lite"), (5, "bundle"), (99, "type 99")]
)
def test_refuses_other_kinds_of_models(model_type, said):
    message = refusal(builder.static(model_type=model_type).write())
    assert said in message and "byte 82" in message


def test_refuses_a_header_of_another_size():
    assert "512 bytes long" in refusal(builder.static(header={4: struct.pack("<I", 512)}).write())


def test_refuses_a_partition_outside_the_file():
    data = bytearray(builder.static().write())
    struct.pack_into("<Q", data, 256 + 8 + 16, 1 << 40)
    assert "MODEL_DEF would end at byte" in refusal(bytes(data))


@pytest.mark.parametrize("count", [0, 65, 0xFFFFFFFF])
def test_refuses_a_table_with_an_impossible_count(count):
    data = bytearray(builder.static().write())
    struct.pack_into("<I", data, 256, count)
    assert f"lists {count} partitions" in refusal(bytes(data))


def test_refuses_more_sub_models_than_there_are_tables():
    assert "partition table of model 2 of 2" in refusal(builder.static(model_num=2).write())
    assert "says that it holds 4000000000 models" in refusal(builder.static(model_num=4_000_000_000).write())


def test_refuses_a_model_without_a_definition():
    described = builder.inout([builder.Tensor("x", [1])], [builder.Tensor("y", [1])])
    assert "model 1 has no definition" in refusal(builder.Om([[(8, described)]]).write())


def test_refuses_a_model_without_inputs_and_outputs():
    assert "neither inputs nor outputs" in refusal(builder.Om([[(0, builder.definition())]]).write())


def described(content: bytes) -> bytes:
    return builder.Om([[(0, builder.definition()), (8, content)]]).write()


def test_refuses_a_count_of_tensors_that_the_block_has_no_room_for():
    assert "number of inputs is 4294967295" in refusal(described(struct.pack("<III", 0, 4, 0xFFFFFFFF)))


def test_refuses_a_block_longer_than_its_partition():
    assert "block 0 is 400 bytes long, 4 are left" in refusal(described(struct.pack("<III", 0, 400, 0)))


def test_refuses_a_name_longer_than_its_block():
    tensor = struct.pack("<QiiIIII", 4, 2, 0, 90, 8, 8, 0) + b"x"
    block = struct.pack("<I", 1) + tensor
    assert "name needs 90 bytes" in refusal(described(struct.pack("<II", 0, len(block)) + block))


def test_refuses_gears_that_do_not_match_the_varying_dims():
    content = builder.inout([builder.Tensor("x", [1, -1])], [builder.Tensor("y", [1])], dims=[[1, 2]])
    assert "a gear has the sizes [1, 2], but 1 dims" in refusal(described(content))


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (b"\x0a\xff\xff\xff\xff\x0f", "too far"),
        (b"\x80" * 12, "no field begins here"),
        (b"\x0b", "wire type 3"),
        (b"\x00", "no field begins here"),
        (builder.blob(11, b"\x0a\x05abc"), "too far"),
        (builder.blob(1, b"x" * 70_000), "name of the model is 70000 bytes"),
    ],
)
def test_refuses_a_definition_that_breaks_the_wire_format(definition, said):
    content = builder.inout([builder.Tensor("x", [1])], [builder.Tensor("y", [1])])
    assert said in refusal(builder.Om([[(0, definition), (8, content)]]).write())


def test_gives_up_on_a_file_made_of_nothing_but_tiny_fields():
    definition = b"\x10\x01" * 2_100_000
    content = builder.inout([builder.Tensor("x", [1])], [builder.Tensor("y", [1])])
    assert "more than 2000000 items" in refusal(builder.Om([[(0, definition), (8, content)]]).write())


def test_does_not_follow_nested_messages_without_end():
    nested = b""
    for _ in range(5_000):
        nested = builder.blob(1, nested)
    entry = builder.blob(11, builder.blob(1, b"om_info_list") + builder.blob(2, nested))
    content = builder.inout([builder.Tensor("x", [1])], [builder.Tensor("y", [1])])
    assert om.read(builder.Om([[(0, entry), (8, content)]]).write()).attributes.om_info == ()


def test_refuses_paths_that_lead_to_no_file(tmp_path):
    with pytest.raises(ConfigError, match="the file is missing"):
        om.read(tmp_path / "none.om")
    with pytest.raises(ConfigError, match="is a folder"):
        om.read(tmp_path)


def test_refuses_a_list_of_an_attribute_that_would_fill_the_memory():
    texts = builder.blob(2, b"x" * 60_000) * 90
    entry = builder.blob(11, builder.blob(1, b"om_info_list") + builder.blob(2, builder.blob(1, texts)))
    content = builder.inout([builder.Tensor("x", [1])], [builder.Tensor("y", [1])])
    assert "om_info_list: the list is" in refusal(builder.Om([[(0, entry), (8, content)]]).write())
