from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tests.contract.test_foreign import place_om, place_onnx
from voxrepo.repository.check import check_model, take_inventory
from voxrepo.repository.graph_model import served_versions
from voxrepo.repository.layout import Layout
from voxrepo_contract.emulated_om import OmTensor
from voxrepo_contract.errors import ConfigError

from .tiny import make_model, make_python_model, write_stages


def place(layout: Layout, name: str = "m", version: int = 1, width: int = 3) -> Path:
    """A model with nothing but ``model.onnx``; returns its folder."""
    folder = layout.model_repository / name
    place_onnx(folder / str(version), {"x": ["batch", width]}, {"y": ["batch", width]})
    return folder


def configure(folder: Path, text: str) -> None:
    (folder / "config.pbtxt").write_text(text, encoding="utf-8")


def test_a_graph_file_alone_is_a_model_and_nothing_is_written(layout: Layout):
    folder = place(layout)
    before = sorted(folder.rglob("*"))
    checked = check_model(folder)
    assert (checked.config.name, checked.config.backend, checked.config.max_batch_size) == ("m", "ascend_om", 8)
    assert checked.is_completed
    assert (checked.versions, checked.left_out) == ((1,), ())
    assert sorted(folder.rglob("*")) == before


def test_an_om_file_is_a_model_too(layout: Layout):
    folder = layout.model_repository / "m"
    gears = tuple({"x": (batch, 3)} for batch in (1, 16))
    place_om(folder / "1", "batch_gears", [OmTensor("x", "FP32", (-1, 3))], [OmTensor("y", "FP32", (-1, 2))],
             gears=gears)  # fmt: skip
    config = check_model(folder).config
    assert config.max_batch_size == 16
    assert config.HasField("dynamic_batching")


def test_a_configuration_that_is_whole_is_left_to_the_engine(layout: Layout):
    folder = place(layout)
    configure(folder, text_format.MessageToString(check_model(folder).config))
    assert not check_model(folder).is_completed


def test_a_stage_yaml_needs_no_configuration_either(layout: Layout):
    folder = make_model(layout)
    (folder / "config.pbtxt").unlink()
    config = check_model(folder).config
    assert config.max_batch_size == 8
    assert [entry.name for entry in (*config.input, *config.output)] == ["x", "y"]


def test_a_contradiction_is_refused_by_the_name_of_the_file_that_says_it(layout: Layout):
    folder = place(layout)
    configure(folder, 'input { name: "x" dims: [4] }')
    with pytest.raises(ConfigError, match=r"input 'x' has dims \[4\], the graph has \[3\]") as caught:
        check_model(folder)
    assert caught.value.file == folder / "config.pbtxt"


def test_a_program_of_several_graphs_needs_its_configuration(layout: Layout):
    write_stages(layout, "orphan")
    with pytest.raises(ConfigError, match=r"config\.pbtxt: the file is missing; .* names no single graph"):
        check_model(layout.model_repository / "orphan.vocoder")


def test_a_configuration_for_another_backend_is_not_touched(layout: Layout):
    folder = make_python_model(layout)
    assert not check_model(folder).is_completed


# Versions


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("", [9]),
        ("version_policy { latest { } }", [9]),
        ("version_policy { latest { num_versions: 2 } }", [2, 9]),
        ("version_policy { all { } }", [1, 2, 9]),
        ("version_policy { specific { versions: [2, 1] } }", [1, 2]),
    ],
)
def test_the_policy_selects_versions_as_in_triton(policy: str, served: list[int]):
    assert served_versions(text_format.Parse(policy, ModelConfig()), [1, 2, 9], Path("c")) == served


def test_a_policy_that_names_a_missing_version_is_refused():
    config = text_format.Parse("version_policy { specific { versions: [3] } }", ModelConfig())
    with pytest.raises(ConfigError, match=r"there is no version 3; there are \[1, 2\]"):
        served_versions(config, [1, 2], Path("c"))


def test_a_version_that_is_not_served_is_not_looked_at(layout: Layout):
    folder = place(layout, version=2)
    (folder / "1").mkdir()
    (folder / "1" / "model.onnx").write_bytes(b"junk")
    assert check_model(folder).versions == (2,)


def test_versions_with_equal_tensors_are_served_side_by_side(layout: Layout):
    place(layout)
    folder = place(layout, version=2)
    configure(folder, "version_policy { all { } }")
    checked = check_model(folder)
    assert checked.versions == (1, 2)
    assert checked.config.version_policy.HasField("all")


def test_an_odd_version_is_left_out_by_name(layout: Layout):
    place(layout)
    folder = place(layout, version=2, width=4)
    place(layout, version=3)
    configure(folder, "version_policy { all { } }")
    checked = check_model(folder)
    assert checked.versions == (1, 3)
    assert list(checked.config.version_policy.specific.versions) == [1, 3]
    ((version, reason),) = checked.left_out
    assert version == 2
    assert f"{folder / '2' / 'model.onnx'}: its tensors are not those of version 1" in reason
    assert "input 'x' is FP32 [-1, 4] here and FP32 [-1, 3] there" in reason


def test_of_two_that_differ_the_older_stays(layout: Layout):
    place(layout)
    folder = place(layout, version=2, width=4)
    configure(folder, "version_policy { all { } }")
    assert check_model(folder).versions == (1,)


def test_a_broken_version_is_left_out_and_reported(layout: Layout):
    place(layout)
    folder = place(layout, version=2)
    (folder / "2" / "model.onnx").write_bytes(b"")
    configure(folder, "version_policy { all { } }")
    inventory = take_inventory(layout)
    assert inventory.versions["m"] == (1,)
    assert inventory.completed == {"m"}
    (problem,) = inventory.problems
    assert (problem.model, problem.version, problem.subject) == ("m", 2, "m version 2")
    assert "the file is empty" in problem.reason


def test_a_model_without_a_sound_version_is_a_problem_of_its_own(layout: Layout):
    folder = place(layout)
    shutil.copytree(folder / "1", folder / "2")
    (folder / "2" / "model.onnx").write_bytes(b"")
    (problem,) = take_inventory(layout).problems
    # no silent fall back to version 1
    assert (problem.model, problem.version) == ("m", None)
