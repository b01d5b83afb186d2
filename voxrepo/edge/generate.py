"""Pure: the generate extension: one flat JSON object in, one out.

Keys that name an input become that tensor, other keys become request parameters; a nested object ``parameters`` may
hold parameters too. The answer holds every output under its name, a single element as a plain value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge import jsonbody, tensordata
from voxrepo.edge.openinference import json_number, raw_outputs
from voxrepo.edge.parameters import plain_value, set_value, shown
from voxrepo_contract.errors import InvalidArgument
from voxrepo_contract.tensors import VOICE_INPUTS


@dataclass(frozen=True)
class GenerateInputs:
    """What must be known of a model to map keys to tensors.

    Attributes:
        datatypes: datatype per input.
        batched: whether shapes start with a batch axis.
    """

    datatypes: Mapping[str, str]
    batched: bool


VOICE_GENERATE_INPUTS = GenerateInputs({spec.name: spec.dtype for spec in VOICE_INPUTS}, batched=True)


def inputs_of_config(config: Any) -> GenerateInputs:
    """The inputs of a ``ModelConfig`` message."""
    datatypes: dict[str, str] = {}
    for tensor in config.input:
        name = type(tensor).DESCRIPTOR.fields_by_name["data_type"].enum_type.values_by_number[tensor.data_type].name
        datatypes[tensor.name] = "BYTES" if name == "TYPE_STRING" else name.removeprefix("TYPE_")
    return GenerateInputs(datatypes, config.max_batch_size > 0)


def _parameters(document: dict[str, Any], inputs: GenerateInputs) -> dict[str, Any]:
    nested = document.get("parameters", {})
    if not isinstance(nested, dict):
        raise InvalidArgument("parameters must be a JSON object")
    merged = dict(nested)
    for key, value in document.items():
        if key in inputs.datatypes or key in ("id", "parameters"):
            continue
        if key in merged:
            raise InvalidArgument(f"parameter {shown(key)} is given twice, inside and outside of 'parameters'")
        merged[key] = value
    for key in merged:
        if key in inputs.datatypes:
            raise InvalidArgument(f"{shown(key)} is an input; give it outside of 'parameters'")
    return merged


def decode_request(body: bytes, model: str, version: str, inputs: GenerateInputs) -> Any:
    """The ``ModelInferRequest`` in a generate body.

    Raises:
        InvalidArgument: saying which key is wrong and why.
    """
    document = jsonbody.parse_object(body)
    identity = document.get("id", "")
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise InvalidArgument("id must be a string or a whole number")
    request = pb.ModelInferRequest(model_name=model, model_version=version)
    try:
        request.id = str(identity)
    except ValueError as error:
        raise InvalidArgument("id is not valid Unicode") from error
    for name, datatype in inputs.datatypes.items():
        if name not in document:
            continue
        value = document[name]
        if isinstance(value, dict) or value is None or (isinstance(value, list) and _is_nested(value)):
            raise InvalidArgument(f"{name!r} must be a single value or a flat array")
        values = value if isinstance(value, list) else [value]
        shape = [1, len(values)] if inputs.batched else [len(values)]
        request.inputs.add(name=name, datatype=datatype, shape=shape)
        request.raw_input_contents.append(tensordata.encode(values, datatype, name))
    for name, value in _parameters(document, inputs).items():
        try:
            target = request.parameters[name]
        except (UnicodeEncodeError, ValueError) as error:
            raise InvalidArgument("a parameter's name is not valid Unicode") from error
        set_value(target, value, name)
    return request


def _is_nested(values: list[Any]) -> bool:
    return any(isinstance(item, list | dict) for item in values)


def encode_response(response: Any) -> bytes:
    """The generate answer of a ``ModelInferResponse``, as JSON.

    Raises:
        InvalidArgument: an output cannot be written as JSON.
        Internal: the engine's answer is incomplete.
    """
    document: dict[str, Any] = {"model_name": response.model_name, "model_version": response.model_version}
    if response.id:
        document["id"] = response.id
    for name, parameter in response.parameters.items():
        document[name] = plain_value(parameter)
    for output, raw in zip(response.outputs, raw_outputs(response), strict=True):
        values = tensordata.decode(raw, output.datatype, output.name)
        if output.datatype.startswith("FP"):
            values = [json_number(value) for value in values]
        document[output.name] = values[0] if len(values) == 1 else values
    return jsonbody.dump(document)


def event(answer: bytes) -> bytes:
    """One server-sent event."""
    return b"data: " + answer + b"\n\n"
