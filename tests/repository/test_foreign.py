from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from voxrepo.repository.foreign import DEFAULT_MAX_BATCH, complete, says_no_batch
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.foreign import ForeignGraph, ForeignTensor


def graph(**changes: Any) -> ForeignGraph:
    """A classifier of images: a batch axis, sizes that vary, one number per row."""
    facts: dict[str, Any] = {
        "file": "model.onnx",
        "device": "cpu",
        "inputs": (ForeignTensor("image", "FP32", ("n", 3, "height", "width")),),
        "outputs": (ForeignTensor("chances", "FP32", ("n", 10)), ForeignTensor("label", "INT64", ("n",))),
        "joinable": "yes",
    }
    return ForeignGraph(**{**facts, **changes})


def om(**changes: Any) -> ForeignGraph:
    facts: dict[str, Any] = {"file": "model.om", "device": "npu", "max_batch": 8}
    return graph(**{**facts, **changes})


UNJOINED = graph(joinable="no", outputs=(ForeignTensor("chances", "FP32", ("m", 10)),))


def completed(text: str = "", facts: ForeignGraph | None = None, cores: int = 4) -> ModelConfig:
    return complete(text_format.Parse(text, ModelConfig()), facts or graph(), text=text, cores=cores)


def tensor(config: ModelConfig, name: str) -> Any:
    return next(entry for entry in (*config.input, *config.output) if entry.name == name)


def refusal(text: str, facts: ForeignGraph | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        completed(text, facts)
    return caught.value.problem


# Without a configuration


def test_everything_is_completed_from_the_graph():
    config = completed()
    assert config == text_format.Parse(
        """
        backend: "ascend_om" max_batch_size: 8
        input { name: "image" data_type: TYPE_FP32 dims: [3, -1, -1] allow_ragged_batch: true }
        output { name: "chances" data_type: TYPE_FP32 dims: [10] }
        output { name: "label" data_type: TYPE_INT64 dims: [1] reshape { } }
        instance_group { count: 1 kind: KIND_CPU }
        dynamic_batching { }
        parameters { key: "threads" value { string_value: "2" } }
        """,
        ModelConfig(),
    )


def test_the_largest_gear_is_the_largest_batch_and_a_device_needs_no_threads():
    config = completed(facts=om(max_batch=32))
    assert config.max_batch_size == 32
    assert "threads" not in config.parameters


def test_without_a_batch_axis_requests_stay_apart():
    config = completed(facts=UNJOINED)
    assert config.max_batch_size == 0
    assert not config.HasField("dynamic_batching")
    assert list(tensor(config, "image").dims) == [-1, 3, -1, -1]
    assert not tensor(config, "image").allow_ragged_batch


def test_a_tensor_without_axes_is_asked_for_as_one_number():
    facts = graph(joinable="no", inputs=(ForeignTensor("x", "FP32", ()),), outputs=(ForeignTensor("y", "FP32", (2,)),))
    config = completed(facts=facts)
    assert list(config.input[0].dims) == [1]
    # the engine has no scalars outside of a batch
    assert not config.input[0].HasField("reshape")


def test_strings_have_tritons_name():
    facts = graph(inputs=(ForeignTensor("text", "BYTES", ("n", 1)),))
    assert completed(facts=facts).input[0].data_type == tensor_type("TYPE_STRING")


def tensor_type(name: str) -> int:
    from tritonclient.grpc import model_config_pb2

    return int(model_config_pb2.DataType.Value(name))


@pytest.mark.parametrize(("cores", "instances", "threads"), [(1, 1, "1"), (64, 1, "2"), (4, 4, "1"), (2, 8, "1")])
def test_threads_fit_the_cores(cores: int, instances: int, threads: str):
    config = completed(f"instance_group {{ count: {instances} kind: KIND_CPU }}", cores=cores)
    assert config.parameters["threads"].string_value == threads


# With a minimal one


def test_what_the_configuration_says_is_kept():
    text = """
    max_batch_size: 4
    dynamic_batching { max_queue_delay_microseconds: 500 preferred_batch_size: [2, 4] }
    parameters { key: "threads" value { string_value: "3" } }
    version_policy { all { } }
    """
    config = completed(text)
    assert config.max_batch_size == 4
    assert config.dynamic_batching.max_queue_delay_microseconds == 500
    assert config.parameters["threads"].string_value == "3"
    assert config.version_policy.HasField("all")
    assert [entry.name for entry in config.input] == ["image"]


def test_some_tensors_may_be_listed_and_some_parts_of_them():
    config = completed('output { name: "label" } input { name: "image" dims: [3, 224, 224] }')
    assert list(tensor(config, "image").dims) == [3, 224, 224]
    assert tensor(config, "image").data_type == tensor_type("TYPE_FP32")
    assert not tensor(config, "image").allow_ragged_batch
    assert {entry.name for entry in config.output} == {"label", "chances"}


def test_completing_twice_changes_nothing():
    once = completed()
    assert complete(once, graph(), text=text_format.MessageToString(once), cores=4) == once


def test_dims_with_the_first_axis_mean_no_batch():
    config = completed('input { name: "image" dims: [1, 3, -1, -1] }')
    assert config.max_batch_size == 0
    assert list(tensor(config, "chances").dims) == [-1, 10]


def test_dims_without_the_first_axis_mean_a_batch():
    assert completed('input { name: "image" dims: [3, -1, -1] }').max_batch_size == DEFAULT_MAX_BATCH


@pytest.mark.parametrize("text", ["max_batch_size: 0", "max_batch_size:0 # none", 'name: "m"\nmax_batch_size : 0\n'])
def test_a_batch_size_of_zero_means_no_batch(text: str):
    assert completed(text).max_batch_size == 0


@pytest.mark.parametrize(
    "text", ["", "# max_batch_size: 0", 'name: "max_batch_size: 0"', "max_batch_size: 04", "max_batch_size: 10"]
)
def test_saying_nothing_is_not_saying_zero(text: str):
    assert not says_no_batch(text)


def test_a_batch_may_be_declared_where_every_first_axis_varies():
    config = completed("max_batch_size: 2", UNJOINED)
    assert config.max_batch_size == 2
    assert list(tensor(config, "image").dims) == [3, -1, -1]


def test_a_batch_of_one_needs_no_batching():
    assert not completed("max_batch_size: 1").HasField("dynamic_batching")


def test_an_output_of_no_known_shape_needs_its_dims():
    facts = graph(joinable="no", outputs=(ForeignTensor("boxes", "FP32", None),))
    assert "output 'boxes' has no shape in the graph file; give its dims in config.pbtxt" in refusal("", facts)
    config = completed('output { name: "boxes" dims: [-1, 4] }', facts)
    assert list(config.output[0].dims) == [-1, 4]
    assert config.output[0].data_type == tensor_type("TYPE_FP32")


def test_a_reshape_is_compared_with_what_the_graph_gets():
    text = 'input { name: "image" dims: [-1, -1] reshape { shape: [3, -1, -1] } }'
    assert list(completed(text).input[0].dims) == [-1, -1]


# Contradictions


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('input { name: "picture" }', ("input 'picture' is not in the graph", "its inputs are image")),
        ('output { name: "image" }', ("output 'image' is not in the graph", "chances, label")),
        ('input { name: "image" data_type: TYPE_UINT8 }', ("'image' is TYPE_UINT8", "the graph has TYPE_FP32")),
        ('input { name: "image" dims: [1, -1, -1] }', ("has dims [1, -1, -1]", "the graph has [3, -1, -1]")),
        ('input { name: "image" dims: [-1, -1, -1] }', ("has dims [-1, -1, -1]", "the graph has [3, -1, -1]")),
        ('input { name: "image" dims: [3] }', ("has dims [3]", "[3, -1, -1]")),
        ('output { name: "chances" dims: [11] }', ("output 'chances' has dims [11]", "the graph has [10]")),
        ('output { name: "label" } output { name: "label" }', ("output 'label' is listed twice",)),
        ('input { name: "image" optional: true }', ("input 'image' is called optional",)),
        (
            'max_batch_size: 4 input { name: "image" dims: [-1, 3, 8, 8] }',
            ("where max_batch_size is above 0, the first axis is left out",),
        ),
        ('backend: "onnxruntime"', ('backend: is "onnxruntime"', "remove the line")),
        ('platform: "onnxruntime_onnx"', ('platform: is "onnxruntime_onnx"', "remove the line")),
        ('default_model_filename: "resnet.onnx"', ('is "resnet.onnx"', "rename the file")),
        ('model_warmup { name: "w" batch_size: 1 }', ("model_warmup: the engine can crash",)),
        ("instance_group { count: 1 kind: KIND_CPU gpus: [0] }", ("KIND_CPU and lists the devices [0]",)),
        ("instance_group { passive: true }", ("instance_group.passive",)),
        (
            'instance_group { gpus: [0, 1] } parameters { key: "device_ids" value { string_value: "2" } }',
            ("lists the devices [0, 1]", "the parameter device_ids [2]"),
        ),
        ('parameters { key: "device_ids" value { string_value: "one" } }', ('device_ids: is "one"',)),
    ],
)
def test_a_contradiction_is_refused_with_both_values(text: str, says: tuple[str, ...]):
    problem = refusal(text)
    assert all(part in problem for part in says), problem


def test_a_batch_over_the_largest_gear_is_refused():
    assert "max_batch_size: is 16, but model.om takes at most 8" in refusal("max_batch_size: 16", om())


def test_a_batch_where_the_graph_has_none_is_refused():
    facts = graph(joinable="no", outputs=(ForeignTensor("chances", "FP32", (1, 10)),))
    problem = refusal("max_batch_size: 4", facts)
    assert "max_batch_size: is 4, but 'chances' has the dims [1, 10], so the graph has no batch axis" in problem


# Instances and devices


@pytest.mark.parametrize(
    "text",
    [
        "instance_group { count: 100000 kind: KIND_CPU }",
        "instance_group { count: 1000 gpus: [0, 1] }",
        "instance_group { count: 600 } instance_group { count: 600 }",
        "instance_group { count: -1 }",
    ],
)
def test_a_number_of_instances_that_no_machine_holds_is_refused(text: str):
    assert "it must be from 1 to 1024, and each is a process" in refusal(text)


def test_a_negative_batch_size_is_refused():
    assert "max_batch_size: is -3; it must be 0 (no batch axis) or more" in refusal("max_batch_size: -3")


@pytest.mark.parametrize(
    ("text", "count", "devices"),
    [
        ("instance_group { count: 2 kind: KIND_GPU gpus: [0, 1] }", 4, "0;0;1;1"),
        ("instance_group { gpus: [3] }", 1, "3"),
        ("instance_group { count: 2 gpus: [0] } instance_group { count: 1 gpus: [1] }", 3, "0;0;1"),
        ("instance_group { count: 3 kind: KIND_GPU }", 3, None),
        ("instance_group { count: 2 kind: KIND_MODEL }", 2, None),
        ('parameters { key: "device_ids" value { string_value: "0;2" } }', 2, "0;2"),
        (
            'instance_group { count: 4 } parameters { key: "device_ids" value { string_value: "0;2" } }',
            4,
            "0;2",
        ),
        ("", 1, None),
    ],
)
def test_devices_become_a_parameter_and_instances_of_the_only_kind_there_is(text: str, count: int, devices: str | None):
    config = completed(text, om())
    (group,) = config.instance_group
    assert (group.count, list(group.gpus)) == (count, [])
    assert group.kind == group.Kind.Value("KIND_CPU")
    given = config.parameters["device_ids"].string_value if "device_ids" in config.parameters else None
    assert given == devices
