"""Pure: how models look to clients, and protobuf messages as plain JSON values."""

from __future__ import annotations

import base64
import json
from importlib import metadata
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.arm_models import is_unlisted
from voxrepo.edge.table import EdgeTable, VoiceEntry
from voxrepo_contract.names import STREAM_SUFFIX
from voxrepo_contract.tensors import DROPPED, TEXT

SERVER_NAME = "voxrepo"
EXTENSIONS = ("binary_tensor_data", "generate", "model_configuration", "parameters", "statistics")
"""Protocol extensions that this server offers; others are refused, so they are not announced."""


def server_version() -> str:
    """Version of the installed package."""
    return metadata.version("voxrepo")


def server_metadata() -> Any:
    """``ServerMetadataResponse`` of this server, not of the engine behind it."""
    return pb.ServerMetadataResponse(name=SERVER_NAME, version=server_version(), extensions=EXTENSIONS)


def hide_inner_outputs(outputs: Any) -> None:
    """Leave out what the ensemble gives to the edge alone; ``outputs`` is the list of a message."""
    kept = [output for output in outputs if output.name != DROPPED.name]
    del outputs[:]
    outputs.extend(kept)


def hide_unlisted(models: Any, table: EdgeTable) -> None:
    """Leave out the engine's models that clients cannot call; ``models`` is the list of a message."""
    kept = [model for model in models if not is_unlisted(table, model.name)]
    del models[:]
    models.extend(kept)


def describe_voice(response: Any, voice: VoiceEntry) -> None:
    """Turn the engine's ``ModelConfigResponse`` of an ensemble into what clients of the voice may rely on.

    The engine needs every input; the edge fills in all but the text, so clients see the others as optional; what
    the edge takes for itself is left out. The voice's properties are added as ``voxrepo.*`` parameters.
    """
    hide_inner_outputs(response.config.output)
    for tensor in response.config.input:
        tensor.optional = tensor.name != TEXT.name
    properties = {
        "language": voice.language,
        "sample_rate_hz": str(voice.sample_rate_hz),
        "speakers": json.dumps(voice.speakers, ensure_ascii=False),
        "max_text_chars": str(voice.max_text_chars),
        "versions": json.dumps(voice.versions),
    }
    for name, value in properties.items():
        response.config.parameters[f"voxrepo.{name}"].string_value = value


def describe_stream(config: Any, voice: str) -> None:
    """Turn a voice's ``ModelConfig`` into that of its stream: the same tensors, any number of answers to a request."""
    config.name = voice + STREAM_SUFFIX
    config.ClearField("ensemble_scheduling")
    config.platform, config.backend = "", SERVER_NAME
    config.model_transaction_policy.decoupled = True


def correct_index(index: Any, table: EdgeTable, *, ready_only: bool) -> None:
    """Put what is not served, whatever the engine thinks of it, into its ``RepositoryIndexResponse``.

    The engine has not seen what was refused before it loaded, and holds a voice for ready before it has spoken.
    """
    hide_unlisted(index.models, table)
    unserved = dict.fromkeys(table.loading, ("LOADING", ""))
    unserved |= {problem.model: ("UNAVAILABLE", problem.reason) for problem in table.problems if not problem.version}
    for name, (state, reason) in unserved.items():
        for entry in [entry for entry in index.models if entry.name == name] or [index.models.add(name=name)]:
            entry.state, entry.reason = state, reason
    voices = {*table.voices, *table.unserved_voices}
    for entry in [entry for entry in index.models if entry.name in voices]:
        # a voice's stream stands and falls with the voice
        stream = index.models.add()
        stream.CopyFrom(entry)
        stream.name += STREAM_SUFFIX
    for problem in table.problems:
        if problem.version:
            index.models.add(name=problem.model, version=problem.version, state="UNAVAILABLE", reason=problem.reason)
    if ready_only:
        ready = [entry for entry in index.models if entry.state == "READY"]
        del index.models[:]
        index.models.extend(ready)


def plain(message: Any) -> dict[str, Any]:
    """A protobuf message as JSON values the way Triton's HTTP front writes them.

    Field names as in the protocol, defaults included, 64-bit integers as numbers, enums by name, bytes in base64.
    Message fields and members of a ``oneof`` that are not set are left out.
    """
    result: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            value_field = field.message_type.fields_by_name["value"]
            result[field.name] = {str(key): _plain_value(value_field, item) for key, item in value.items()}
        elif field.is_repeated:
            result[field.name] = [_plain_value(field, item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            result[field.name] = _plain_value(field, value)
    return result


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def _plain_value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value


def plain_settings(response: Any) -> dict[str, Any]:
    """``TraceSettingResponse`` or ``LogSettingsResponse`` as Triton's HTTP front writes it."""
    settings: dict[str, Any] = {}
    for name in sorted(response.settings):
        value = response.settings[name]
        if hasattr(value, "WhichOneof") and value.DESCRIPTOR.oneofs:
            settings[name] = getattr(value, value.WhichOneof("parameter_choice"))
        else:
            values = list(value.value)
            settings[name] = values if name == "trace_level" or len(values) != 1 else values[0]
    return settings
