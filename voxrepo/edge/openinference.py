"""Pure: bodies of the Open Inference HTTP protocol to and from protobuf messages.

A body is JSON, optionally followed by raw tensors in the order in which the JSON lists them; then the header
``Inference-Header-Content-Length`` holds the length of the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge import jsonbody, tensordata
from voxrepo.edge.parameters import INT64_MAX, plain_value, set_value, shown
from voxrepo_contract.errors import Internal, InvalidArgument

HEADER_LENGTH = "Inference-Header-Content-Length"

MAX_RANK = 32
"""Dims of a shape, as many as numpy knows. The product of a million of them would take minutes."""

_REQUEST_KEYS = {"id", "inputs", "outputs", "parameters"}
_INPUT_KEYS = {"name", "shape", "datatype", "data", "parameters"}
_OUTPUT_KEYS = {"name", "parameters"}


@dataclass(frozen=True)
class OutputForm:
    """How the caller wants the outputs.

    Attributes:
        binary_by_default: for outputs that are not in ``by_name``.
        by_name: per output, whether raw bytes are wanted.
    """

    binary_by_default: bool = False
    by_name: Mapping[str, bool] = field(default_factory=dict)

    def is_binary(self, name: str) -> bool:
        """Whether output ``name`` is wanted as raw bytes."""
        return self.by_name.get(name, self.binary_by_default)


def json_length(header: str | None, body_bytes: int) -> int:
    """Length of the JSON part of a body.

    Args:
        header: value of ``Inference-Header-Content-Length``, None if absent.
        body_bytes: length of the whole body.

    Raises:
        InvalidArgument: not a number, or beyond the body, or 0.
    """
    if header is None:
        return body_bytes
    if not (header.isascii() and header.isdigit() and len(header) <= 18):
        raise InvalidArgument(
            f"header {HEADER_LENGTH} is {shown(header)}; it must be the length of the JSON part in bytes"
        )
    length = int(header)
    if length > body_bytes:
        raise InvalidArgument(f"header {HEADER_LENGTH} is {length}, but the body has only {body_bytes} bytes")
    if length == 0:
        raise InvalidArgument(f"header {HEADER_LENGTH} is 0; bodies without JSON are not supported")
    return length


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{where} must be a JSON object")
    return value


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidArgument(f"{where} must be a JSON array")
    return value


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{where} must be a string")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{where} is not valid Unicode") from error
    return value


def _known_keys(entry: dict[str, Any], known: set[str], where: str) -> None:
    for key in entry:
        if key not in known:
            raise InvalidArgument(f"{where} has an unknown key {shown(key)}; known: {', '.join(sorted(known))}")


def _bool(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{where} is {shown(value)}; it must be true or false")
    return value


def _shape(value: object, where: str) -> list[int]:
    dims = _list(value, f"{where}.shape")
    for dim in dims:
        if isinstance(dim, bool) or not isinstance(dim, int) or not 0 <= dim <= INT64_MAX:
            raise InvalidArgument(f"{where}.shape is {shown(dims)}; it must hold whole numbers from 0")
    if len(dims) > MAX_RANK:
        raise InvalidArgument(f"{where}.shape has {len(dims)} dims; the limit is {MAX_RANK}")
    return dims


def _fill_parameters(target: Any, source: dict[str, Any]) -> None:
    for name, value in source.items():
        set_value(target[_string(name, "a parameter's name")], value, name)


class _RawTensors:
    """Hands out the bytes after the JSON, in order."""

    def __init__(self, body: bytes, at: int) -> None:
        self._body = body
        self._at = at

    def take(self, size: object, name: str) -> bytes:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise InvalidArgument(
                f"input {name!r}: binary_data_size is {shown(size)}; it must be a whole number of bytes"
            )
        left = len(self._body) - self._at
        if size > left:
            raise InvalidArgument(
                f"input {name!r}: binary_data_size is {size}, but only {left} bytes of the body are left"
            )
        raw = self._body[self._at : self._at + size]
        self._at += size
        return raw

    def finish(self) -> None:
        left = len(self._body) - self._at
        if left:
            raise InvalidArgument(f"the body has {left} bytes more than its inputs' binary_data_size add up to")


def _add_input(request: Any, entry: dict[str, Any], where: str, tensors: _RawTensors) -> None:
    _known_keys(entry, _INPUT_KEYS, where)
    name = _string(entry.get("name"), f"{where}.name")
    datatype = _string(entry.get("datatype"), f"{where}.datatype")
    shape = _shape(entry.get("shape"), where)
    parameters = dict(_object(entry.get("parameters", {}), f"{where}.parameters"))
    if "binary_data_size" in parameters:
        if "data" in entry:
            raise InvalidArgument(f"input {name!r} has both data and binary_data_size; give one of them")
        raw = tensors.take(parameters.pop("binary_data_size"), name)
    elif "data" in entry:
        values = tensordata.flatten(entry["data"], name)
        count = tensordata.element_count(shape)
        if len(values) != count:
            raise InvalidArgument(f"input {name!r} has {len(values)} elements; its shape {shown(shape)} needs {count}")
        raw = tensordata.encode(values, datatype, name)
    elif any(key.startswith("shared_memory_") for key in parameters):
        raw = b""  # refused with its own message by the data plane
    else:
        raise InvalidArgument(f"input {name!r} has neither data nor binary_data_size")
    tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
    _fill_parameters(tensor.parameters, parameters)
    request.raw_input_contents.append(raw)


def decode_request(body: bytes, header: str | None, model: str, version: str) -> tuple[Any, OutputForm]:
    """The ``ModelInferRequest`` in a body.

    Args:
        body: decompressed body.
        header: value of ``Inference-Header-Content-Length``, None if absent.
        model: model name from the path.
        version: version from the path, empty if none.

    Returns:
        the request, all tensors raw, and the form in which its outputs are wanted.

    Raises:
        InvalidArgument: saying what is wrong and where.
    """
    length = json_length(header, len(body))
    document = jsonbody.parse_object(body[:length] if length < len(body) else body)
    _known_keys(document, _REQUEST_KEYS, "the request")
    request = pb.ModelInferRequest(model_name=model, model_version=version, id=_string(document.get("id", ""), "id"))
    tensors = _RawTensors(body, length)
    if "inputs" not in document:
        raise InvalidArgument("the request has no inputs")
    for index, item in enumerate(_list(document["inputs"], "inputs")):
        where = f"inputs[{index}]"
        _add_input(request, _object(item, where), where, tensors)
    tensors.finish()
    parameters = dict(_object(document.get("parameters", {}), "parameters"))
    default = _bool(parameters.pop("binary_data_output", False), "parameters.binary_data_output")
    _fill_parameters(request.parameters, parameters)
    by_name: dict[str, bool] = {}
    for index, item in enumerate(_list(document.get("outputs", []), "outputs")):
        where = f"outputs[{index}]"
        entry = _object(item, where)
        _known_keys(entry, _OUTPUT_KEYS, where)
        name = _string(entry.get("name"), f"{where}.name")
        options = dict(_object(entry.get("parameters", {}), f"{where}.parameters"))
        if "binary_data" in options:
            by_name[name] = _bool(options.pop("binary_data"), f"{where}.parameters.binary_data")
        _fill_parameters(request.outputs.add(name=name).parameters, options)
    return request, OutputForm(default, by_name)


def raw_outputs(response: Any) -> list[bytes]:
    """Raw contents of a ``ModelInferResponse``, one per output.

    Raises:
        Internal: the engine did not send them.
    """
    raw = list(response.raw_output_contents)
    if len(raw) != len(response.outputs):
        raise Internal(f"the engine sent {len(raw)} raw tensors for {len(response.outputs)} outputs")
    return raw


def json_number(value: Any) -> Any:
    """``value``, or its name where JSON has no number for it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def encode_response(response: Any, form: OutputForm) -> tuple[bytes, int | None]:
    """The HTTP body of a ``ModelInferResponse``.

    Returns:
        the body, and the length of its JSON part where raw tensors follow it, else None.

    Raises:
        InvalidArgument: an output cannot be written as JSON.
        Internal: the engine's answer is incomplete.
    """
    document: dict[str, Any] = {"model_name": response.model_name, "model_version": response.model_version}
    if response.id:
        document["id"] = response.id
    parameters = {name: plain_value(value) for name, value in response.parameters.items()}
    if parameters:
        document["parameters"] = parameters
    outputs: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for output, raw in zip(response.outputs, raw_outputs(response), strict=True):
        entry: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": list(output.shape),
        }
        if form.is_binary(output.name):
            entry["parameters"] = {"binary_data_size": len(raw)}
            parts.append(raw)
        else:
            values = tensordata.decode(raw, output.datatype, output.name)
            entry["data"] = [json_number(v) for v in values] if output.datatype.startswith("FP") else values
        outputs.append(entry)
    document["outputs"] = outputs
    head = jsonbody.dump(document)
    if not parts:
        return head, None
    return b"".join((head, *parts)), len(head)
