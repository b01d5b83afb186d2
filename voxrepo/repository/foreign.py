"""Configurations of models that come with a graph file and little or nothing else.

What ``config.pbtxt`` leaves out is completed from the file; what it says is kept where it agrees with the file and
refused where it does not. Pure functions; nothing is written, the engine is handed the result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tritonclient.grpc import model_config_pb2
from tritonclient.grpc.model_config_pb2 import ModelConfig

from voxrepo_contract.errors import ConfigError
from voxrepo_contract.foreign import OM_FILE, ONNX_FILE, ForeignGraph, ForeignTensor

BACKEND = "ascend_om"
DEFAULT_MAX_BATCH = 8
"""Where the graph itself sets no limit: larger batches gain nothing on a CPU and multiply the memory of a call."""
MAX_INSTANCES = 1024
"""As for a voice's stages. Each is a process, and the engine starts as many as it is told."""
MAX_THREADS = 2
"""Most threads of an instance that names none: such a model has one instance, and two shorten a call."""

_TRITON_TYPES = {"BYTES": "TYPE_STRING"}
_COMMENT_OR_STRING = re.compile(r"#[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_ZERO_BATCH = re.compile(r"(?<![\w.])max_batch_size\s*:\s*0+(?![\w.])")
_DEVICE_IDS = re.compile(r"\A\d+(\s*[;,]\s*\d+)*\Z")


def says_no_batch(text: str) -> bool:
    """Whether a ``config.pbtxt`` says ``max_batch_size: 0`` in so many words; parsed, that equals saying nothing."""
    return _ZERO_BATCH.search(_COMMENT_OR_STRING.sub(" ", text)) is not None


def triton_type(dtype: str) -> int:
    """Triton's number for an Open Inference Protocol data type."""
    return int(model_config_pb2.DataType.Value(_TRITON_TYPES.get(dtype, f"TYPE_{dtype}")))


def complete(given: ModelConfig, graph: ForeignGraph, *, text: str = "", cores: int = 1) -> ModelConfig:
    """The whole configuration of a model.

    Args:
        given: what ``config.pbtxt`` says, empty if there is none.
        graph: what the graph file says.
        text: the text of ``config.pbtxt``.
        cores: usable cores of this machine.

    Raises:
        ConfigError: the two contradict each other; both values are in the text. The file is left to the caller.
    """
    config = ModelConfig()
    config.CopyFrom(given)
    _check_backend(config)
    config.backend = BACKEND
    batched = _is_batched(config, graph, no_batch=says_no_batch(text))
    if batched and config.max_batch_size == 0:
        config.max_batch_size = graph.max_batch or DEFAULT_MAX_BATCH
    for listed, tensors, side in (
        (config.input, graph.inputs, "input"),
        (config.output, graph.outputs, "output"),
    ):
        _complete_tensors(listed, tensors, side, batched=batched, ragged=config.max_batch_size > 1)
    if config.max_batch_size > 1 and config.WhichOneof("scheduling_choice") is None:
        config.dynamic_batching.SetInParent()
    _translate_instances(config)
    if graph.device == "cpu" and "threads" not in config.parameters:
        instances = sum(group.count for group in config.instance_group)
        config.parameters["threads"].string_value = str(max(1, min(MAX_THREADS, cores // instances)))
    return config


def _check_backend(config: ModelConfig) -> None:
    for key in ("backend", "platform"):
        value = getattr(config, key)
        if value and not (key == "backend" and value == BACKEND):
            raise ConfigError(
                f'{key}: is "{value}", but this engine runs {ONNX_FILE} and {OM_FILE} through backend "{BACKEND}"; '
                "remove the line"
            )
    name = config.default_model_filename
    if name not in ("", ONNX_FILE, OM_FILE):
        raise ConfigError(
            f'default_model_filename: is "{name}", and only {ONNX_FILE} and {OM_FILE} are looked for; rename the file, '
            "or name it in a stage.yaml"
        )
    if config.model_warmup:
        raise ConfigError(
            f"model_warmup: the engine can crash of a warm-up that fails, and {BACKEND} warms up its graphs by itself; "
            "remove it"
        )


def _is_batched(config: ModelConfig, graph: ForeignGraph, *, no_batch: bool) -> bool:
    tensors = [*graph.inputs, *graph.outputs]
    if config.max_batch_size < 0:
        raise ConfigError(f"max_batch_size: is {config.max_batch_size}; it must be 0 (no batch axis) or more")
    if config.max_batch_size > 0:
        for tensor in tensors:
            if tensor.dims is not None and not (tensor.dims and isinstance(tensor.dims[0], str)):
                raise ConfigError(
                    f"max_batch_size: is {config.max_batch_size}, but {tensor.name!r} has the dims "
                    f"{shown(tensor.dims)}, so the graph has no batch axis; remove the line, or export the graph "
                    "with a first axis that varies"
                )
        if graph.max_batch is not None and config.max_batch_size > graph.max_batch:
            raise ConfigError(
                f"max_batch_size: is {config.max_batch_size}, but {graph.file} takes at most {graph.max_batch}; lower "
                "it or build the file with a larger batch"
            )
        return True
    if no_batch or graph.joinable == "no":
        return False
    # dims that include the first axis say that the caller gives it, too
    ranks = {tensor.name: len(tensor.dims) for tensor in tensors if tensor.dims is not None}
    listed = [*config.input, *config.output]
    return not any(len(entry.dims) == ranks.get(entry.name) and entry.dims for entry in listed)


def shown(dims: Sequence[int | str] | None) -> str:
    """Dims as configurations write them: -1 where a size varies."""
    if dims is None:
        return "of no known shape"
    return str([dim if isinstance(dim, int) else -1 for dim in dims])


def _complete_tensors(listed: Any, tensors: Sequence[ForeignTensor], side: str, *, batched: bool, ragged: bool) -> None:
    known = {tensor.name: tensor for tensor in tensors}
    given: dict[str, Any] = {}
    for entry in listed:
        if entry.name not in known:
            raise ConfigError(f"{side} {entry.name!r} is not in the graph; its {side}s are {', '.join(known)}")
        if entry.name in given:
            raise ConfigError(f"{side} {entry.name!r} is listed twice; remove one")
        given[entry.name] = entry
    for tensor in tensors:
        entry = given.get(tensor.name)
        if entry is None:
            entry = listed.add(name=tensor.name)
        elif getattr(entry, "optional", False):
            raise ConfigError(f"{side} {tensor.name!r} is called optional, but the graph needs it; remove that")
        _complete_type(entry, tensor, side)
        if entry.dims or tensor.dims is None:
            _check_dims(entry, tensor, side, batched=batched)
            continue
        dims = tensor.dims[1:] if batched else tensor.dims
        entry.dims.extend([dim if isinstance(dim, int) else -1 for dim in dims] or [1])
        if batched and not dims:
            # one number per row: a configuration cannot say that in dims alone
            entry.reshape.SetInParent()
        if side == "input" and ragged and -1 in entry.dims:
            # requests of unequal lengths are handed over together and sorted by the backend
            entry.allow_ragged_batch = True


def _complete_type(entry: Any, tensor: ForeignTensor, side: str) -> None:
    want = triton_type(tensor.dtype)
    if entry.data_type not in (0, want):
        raise ConfigError(
            f"{side} {tensor.name!r} is {model_config_pb2.DataType.Name(entry.data_type)}, the graph has "
            f"{model_config_pb2.DataType.Name(want)}; correct it, or remove data_type"
        )
    entry.data_type = want


def _check_dims(entry: Any, tensor: ForeignTensor, side: str, *, batched: bool) -> None:
    which = f"{side} {tensor.name!r}"
    if tensor.dims is None:
        if not entry.dims:
            raise ConfigError(
                f"{which} has no shape in the graph file; give its dims in config.pbtxt, or run "
                "onnx.shape_inference.infer_shapes over the model and save it"
            )
        return
    given = list(entry.reshape.shape if entry.HasField("reshape") else entry.dims)
    want = list(tensor.dims[1:] if batched else tensor.dims)
    if not want and not batched and given == [1]:
        return
    if len(given) == len(want) and all(
        isinstance(axis, str) or axis == size for axis, size in zip(want, given, strict=True)
    ):
        return
    hint = ""
    if batched and len(given) == len(tensor.dims):
        hint = " (where max_batch_size is above 0, the first axis is left out)"
    raise ConfigError(f"{which} has dims {given}, the graph has {shown(want)}{hint}; correct it, or remove dims")


def _translate_instances(config: ModelConfig) -> None:
    """One group of kind CPU, as this engine knows no other; devices go into the parameter ``device_ids``."""
    kinds = model_config_pb2.ModelInstanceGroup.Kind
    count = 0
    devices: list[int] = []
    for group in config.instance_group:
        for key in ("profile", "passive", "secondary_devices"):
            if getattr(group, key):
                raise ConfigError(f"instance_group.{key}: backend {BACKEND} has no such thing; remove it")
        per_device = max(group.count, 1)
        if group.kind == kinds.Value("KIND_CPU") and group.gpus:
            raise ConfigError(
                f"instance_group: is KIND_CPU and lists the devices {list(group.gpus)}; remove one of the two"
            )
        # as in Triton, the count is per device
        count += per_device * max(len(group.gpus), 1)
        if group.count < 0 or count > MAX_INSTANCES:
            raise ConfigError(
                f"instance_group: asks for {group.count if group.count < 0 else count} instances; it must be from 1 to "
                f"{MAX_INSTANCES}, and each is a process"
            )
        devices += [device for device in group.gpus for _ in range(per_device)]
    given = config.parameters["device_ids"].string_value if "device_ids" in config.parameters else ""
    if given and not _DEVICE_IDS.match(given):
        raise ConfigError(f'parameter device_ids: is "{given}"; write numbers with semicolons between, such as "0;1"')
    listed = [int(part) for part in re.split(r"[;,]", given)] if given else []
    if devices and listed and set(devices) != set(listed):
        raise ConfigError(
            f"instance_group lists the devices {sorted(set(devices))}, the parameter device_ids {listed}; keep one"
        )
    rate_limiters = [group.rate_limiter for group in config.instance_group if group.HasField("rate_limiter")]
    names = [group.name for group in config.instance_group]
    del config.instance_group[:]
    made = config.instance_group.add(count=count or max(len(listed), 1), kind=kinds.Value("KIND_CPU"))
    if len(names) == 1:
        made.name = names[0]
        if rate_limiters:
            made.rate_limiter.CopyFrom(rate_limiters[0])
    if devices and not listed:
        config.parameters["device_ids"].string_value = ";".join(map(str, devices))
