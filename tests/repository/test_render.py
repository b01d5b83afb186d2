from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from voxrepo.repository.render import ensemble_config, render, stage_config
from voxrepo.repository.voice import StageSettings
from voxrepo_contract.names import VOICE_STAGES
from voxrepo_contract.tensors import ENSEMBLE_OUTPUTS, VOICE_INPUTS, stage_contract

from .tiny import CHANNELS, voice_spec

TRITON_TYPES = {
    "BYTES": "TYPE_STRING",
    "FP32": "TYPE_FP32",
    "INT64": "TYPE_INT64",
    "INT32": "TYPE_INT32",
    "INT16": "TYPE_INT16",
}


def rendered(stage: str, **settings: Any) -> ModelConfig:
    """The configuration as the engine reads it."""
    config = stage_config(
        "tiny", stage, StageSettings.model_validate({"version": 7, **settings}), channels=CHANNELS, cores=4
    )
    return text_format.Parse(render(config), ModelConfig())


def ensemble() -> ModelConfig:
    spec = voice_spec(
        stages={"text_frontend": {"version": 3}, "acoustic": {"version": 12}, "vocoder": {"version": 999_999_999}}
    )
    return text_format.Parse(render(ensemble_config(spec)), ModelConfig())


@pytest.mark.parametrize("stage", VOICE_STAGES)
def test_a_stage_has_the_tensors_of_its_contract(stage: str):
    config = rendered(stage)
    contract = stage_contract(stage, CHANNELS)
    for tensors, specs in ((config.input, contract.inputs), (config.output, contract.outputs)):
        assert [(t.name, DataType.Name(t.data_type), tuple(t.dims)) for t in tensors] == [
            (spec.name, TRITON_TYPES[spec.dtype], spec.dims) for spec in specs
        ]


@pytest.mark.parametrize(
    ("stage", "backend"), [("text_frontend", "text_frontend"), ("acoustic", "ascend_om"), ("vocoder", "ascend_om")]
)
def test_a_stage_names_its_backend_and_pins_its_version(stage: str, backend: str):
    config = rendered(stage)
    assert config.name == f"tiny.{stage}"
    assert config.backend == backend
    assert list(config.version_policy.specific.versions) == [7]


def test_without_batches_nothing_is_ragged():
    assert not any(tensor.allow_ragged_batch for tensor in rendered("vocoder", max_batch_size=1).input)


def test_with_batches_what_varies_in_length_is_ragged_and_nothing_else():
    config = rendered("acoustic", max_batch_size=8)
    assert config.max_batch_size == 8
    assert {tensor.name for tensor in config.input if tensor.allow_ragged_batch} == {
        "phoneme_ids",
        "segment_lengths",
        "pause_ms",
    }


def test_queue_limits_reject_instead_of_waiting():
    batching = rendered("vocoder", max_queue_size=5, queue_timeout_ms=250, max_queue_delay_us=700).dynamic_batching
    assert batching.max_queue_delay_microseconds == 700
    policy = batching.default_queue_policy
    assert policy.max_queue_size == 5
    assert policy.default_timeout_microseconds == 250_000
    assert policy.TimeoutAction.Name(policy.timeout_action) == "REJECT"


def test_queue_limits_hold_without_batches_too():
    config = rendered("vocoder", max_batch_size=1, max_queue_size=5)
    assert config.HasField("dynamic_batching")
    assert config.dynamic_batching.default_queue_policy.max_queue_size == 5


def test_instances_and_threads_are_those_asked_for():
    config = rendered("vocoder", instances=3, threads=2, unit_batch=4)
    (group,) = config.instance_group
    assert group.count == 3
    assert group.Kind.Name(group.kind) == "KIND_CPU"
    assert config.parameters["threads"].string_value == "2"
    assert config.parameters["unit_batch"].string_value == "4"


def test_the_unit_batch_is_left_to_measurement_unless_given():
    assert rendered("vocoder").parameters["unit_batch"].string_value == "auto"


def test_an_ensemble_takes_and_gives_what_clients_are_promised():
    config = ensemble()
    assert config.platform == "ensemble"
    assert [tensor.name for tensor in config.input] == [spec.name for spec in VOICE_INPUTS]
    assert [tensor.name for tensor in config.output] == [spec.name for spec in ENSEMBLE_OUTPUTS]


def test_an_ensemble_pins_the_version_of_each_step():
    steps = ensemble().ensemble_scheduling.step
    assert [(step.model_name, step.model_version) for step in steps] == [
        ("tiny.text_frontend", 3),
        ("tiny.acoustic", 12),
        ("tiny.vocoder", 999_999_999),
    ]


def test_every_step_of_an_ensemble_is_fed_by_something_made_before_it():
    config = ensemble()
    made = {tensor.name for tensor in config.input}
    for step, stage in zip(config.ensemble_scheduling.step, VOICE_STAGES, strict=True):
        assert set(step.input_map) == {spec.name for spec in stage_contract(stage, -1).inputs}
        assert set(step.input_map.values()) <= made
        made |= set(step.output_map.values())
    assert {tensor.name for tensor in config.output} <= made


def test_every_tensor_of_an_ensemble_is_written_once():
    config = ensemble()
    written = [tensor.name for tensor in config.input]
    written += [name for step in config.ensemble_scheduling.step for name in step.output_map.values()]
    assert len(written) == len(set(written))


def test_a_later_stage_gets_the_value_that_the_stage_before_passed_on():
    acoustic = ensemble().ensemble_scheduling.step[1]
    vocoder = ensemble().ensemble_scheduling.step[2]
    assert acoustic.input_map["speed"] == "text_frontend.speed"
    assert vocoder.input_map["pause_ms"] == "acoustic.pause_ms"


def test_the_file_says_that_it_is_made():
    first = render(ensemble_config(voice_spec())).splitlines()[0]
    assert first.startswith("#")
    assert "voice.yaml" in first


def test_a_field_that_does_not_exist_fails_here_and_not_in_the_engine():
    with pytest.raises(ValueError, match="Protocol message ModelConfig has no"):
        ModelConfig(name="x", batching=True)


def test_devices_are_handed_to_the_backend_and_get_an_instance_each():
    settings = StageSettings(version=1, device_ids=[0, 2])
    config = stage_config("v", "vocoder", settings, channels=8, cores=64, on_npu=True)
    assert config.parameters["device_ids"].string_value == "0;2"
    assert config.instance_group[0].count == 2
    assert "device_ids" not in stage_config("v", "vocoder", StageSettings(version=1), channels=8, cores=2).parameters
