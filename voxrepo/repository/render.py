"""``config.pbtxt`` files rendered from ``voice.yaml`` and ``stage.yaml``.

They are built as ``inference.ModelConfig`` messages of tritonclient and printed by protobuf's text format, so that a
field that does not exist, or a value of the wrong type, fails here and not in the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2
from tritonclient.grpc.model_config_pb2 import ModelConfig

from voxrepo.repository.cpu_plan import opening_threads, plan_cpu
from voxrepo.repository.voice import StageSettings, VoiceSpec
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.tensors import ENSEMBLE_OUTPUTS, VOICE_INPUTS, TensorSpec, stage_contract

BACKENDS = {"text_frontend": "text_frontend", "acoustic": "ascend_om", "vocoder": "ascend_om"}

MAX_ENSEMBLE_BATCH = 1
"""A voice takes one text per request; the ensemble's batch axis exists because the stages have one."""

_TRITON_TYPES = {"BYTES": "TYPE_STRING"}


def _triton_type(dtype: str) -> int:
    name = _TRITON_TYPES.get(dtype, f"TYPE_{dtype}")
    return int(model_config_pb2.DataType.Value(name))


def _add_input(config: ModelConfig, spec: TensorSpec, ragged: bool) -> None:
    config.input.add(
        name=spec.name,
        data_type=_triton_type(spec.dtype),
        dims=spec.dims,
        allow_ragged_batch=ragged and -1 in spec.dims,
    )


def _add_output(config: ModelConfig, spec: TensorSpec) -> None:
    config.output.add(name=spec.name, data_type=_triton_type(spec.dtype), dims=spec.dims)


def stage_config(
    voice: str,
    stage: str,
    settings: StageSettings,
    *,
    channels: int,
    cores: int,
    on_npu: bool = False,
    arm_versions: Iterable[int] = (),
) -> ModelConfig:
    """Configuration of the model that serves one stage.

    Args:
        voice: the voice's name.
        stage: ``text_frontend``, ``acoustic`` or ``vocoder``.
        settings: from ``voice.yaml``.
        channels: C of ``features``.
        cores: usable cores of this machine, for ``auto``.
        on_npu: whether a graph of the stage asks for an NPU.
        arm_versions: versions that arms of the voice pin, served beside the one of ``settings``.
    """
    parallelism = plan_cpu(stage, settings, cores, on_npu=on_npu)
    config = ModelConfig(
        name=stage_model_name(voice, stage), backend=BACKENDS[stage], max_batch_size=settings.max_batch_size
    )
    contract = stage_contract(stage, channels)
    ragged = settings.max_batch_size > 1
    for spec in contract.inputs:
        _add_input(config, spec, ragged)
    for spec in contract.outputs:
        _add_output(config, spec)
    config.version_policy.specific.versions.extend(sorted({settings.version, *arm_versions}))
    config.instance_group.add(
        count=parallelism.instances, kind=model_config_pb2.ModelInstanceGroup.Kind.Value("KIND_CPU")
    )
    # the queue policy lives in the dynamic batcher, so that block is there at batch size 1 too
    batching = config.dynamic_batching
    batching.max_queue_delay_microseconds = settings.max_queue_delay_us
    policy = batching.default_queue_policy
    policy.timeout_action = model_config_pb2.ModelQueuePolicy.TimeoutAction.Value("REJECT")
    policy.default_timeout_microseconds = settings.queue_timeout_ms * 1000
    policy.max_queue_size = settings.max_queue_size
    config.parameters["threads"].string_value = str(parallelism.threads)
    if stage == "vocoder" and not on_npu:
        config.parameters["opening_threads"].string_value = str(opening_threads(settings, cores))
    config.parameters["unit_batch"].string_value = str(settings.unit_batch)
    if settings.device_ids:
        config.parameters["device_ids"].string_value = ";".join(map(str, settings.device_ids))
    return config


def ensemble_config(
    spec: VoiceSpec, *, name: str | None = None, versions: Mapping[str, int] | None = None
) -> ModelConfig:
    """Configuration of the ensemble that clients call: three steps with pinned versions.

    Args:
        spec: of the voice whose stages it uses.
        name: of the ensemble, if it is an arm's and not the voice's own.
        versions: of each stage, if not those that the voice pins.
    """
    pinned = spec.versions if versions is None else versions
    config = ModelConfig(name=name or spec.voice, platform="ensemble", max_batch_size=MAX_ENSEMBLE_BATCH)
    for tensor in VOICE_INPUTS:
        _add_input(config, tensor, ragged=False)
    for tensor in ENSEMBLE_OUTPUTS:
        _add_output(config, tensor)
    outer_inputs = {tensor.name for tensor in VOICE_INPUTS}
    outer_outputs = {tensor.name for tensor in ENSEMBLE_OUTPUTS}
    made: dict[str, str] = {name: name for name in outer_inputs}
    for stage, _ in spec.stages.items():
        contract = stage_contract(stage, -1)
        step = config.ensemble_scheduling.step.add(
            model_name=stage_model_name(spec.voice, stage), model_version=pinned[stage]
        )
        for tensor in contract.inputs:
            step.input_map[tensor.name] = made[tensor.name]
        for tensor in contract.outputs:
            # an ensemble tensor is written once: `speed` out of the front end is not the client's `speed`
            inner = tensor.name if tensor.name in outer_outputs else f"{stage}.{tensor.name}"
            step.output_map[tensor.name] = inner
            made[tensor.name] = inner
    return config


def render(config: ModelConfig) -> str:
    """Text of a ``config.pbtxt``, parsed back to prove that it says the same."""
    header = "# Rendered from voice.yaml by voxrepo; edit that file, not this one.\n"
    text: str = header + text_format.MessageToString(config)
    if text_format.Parse(text, ModelConfig()) != config:  # pragma: no cover - a fault of protobuf
        raise AssertionError(f"{config.name}: the rendered configuration does not parse back")
    return text
