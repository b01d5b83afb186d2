from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.openinference import OutputForm, decode_request, encode_response
from voxrepo_contract.errors import InvalidArgument

TEXT = {"name": "text", "shape": [1, 1], "datatype": "BYTES", "data": ["hi"]}


def decode(document: object, tail: bytes = b"", header: str | None = None) -> tuple[Any, OutputForm]:
    head = document if isinstance(document, bytes) else json.dumps(document).encode()
    if header is None and tail:
        header = str(len(head))
    return decode_request(head + tail, header, "en-test", "")


def refusal(document: object, tail: bytes = b"", header: str | None = None) -> str:
    with pytest.raises(InvalidArgument) as caught:
        decode(document, tail, header)
    return str(caught.value)


def test_json_and_binary_tensors_make_the_same_message() -> None:
    raw = struct.pack("<I", 2) + b"hi"
    speed = {"name": "speed", "shape": [1, 1], "datatype": "FP32", "data": [1.5]}
    as_json, _ = decode({"id": "a", "inputs": [TEXT, speed]})
    binary = {
        "id": "a",
        "inputs": [
            {"name": "text", "shape": [1, 1], "datatype": "BYTES", "parameters": {"binary_data_size": len(raw)}},
            {"name": "speed", "shape": [1, 1], "datatype": "FP32", "parameters": {"binary_data_size": 4}},
        ],
    }
    as_binary, _ = decode(binary, raw + struct.pack("<f", 1.5))
    assert as_json == as_binary
    assert list(as_json.raw_input_contents) == [raw, struct.pack("<f", 1.5)]


def test_parameters_keep_their_kinds() -> None:
    parameters = {"a": True, "b": -3, "c": 0.5, "d": "x", "e": 2**63}
    message, _ = decode({"inputs": [TEXT], "parameters": parameters})
    kinds = {name: value.WhichOneof("parameter_choice") for name, value in message.parameters.items()}
    assert kinds == {
        "a": "bool_param",
        "b": "int64_param",
        "c": "double_param",
        "d": "string_param",
        "e": "uint64_param",
    }


def test_the_form_of_outputs_is_taken_out_of_the_parameters() -> None:
    message, form = decode(
        {
            "inputs": [TEXT],
            "parameters": {"binary_data_output": True},
            "outputs": [{"name": "audio", "parameters": {"binary_data": False}}, {"name": "sample_rate"}],
        }
    )
    assert not message.parameters
    assert [output.name for output in message.outputs] == ["audio", "sample_rate"]
    assert not message.outputs[0].parameters
    assert not form.is_binary("audio")
    assert form.is_binary("sample_rate")


def test_nested_data_is_flattened() -> None:
    x = {"name": "x", "shape": [2, 2], "datatype": "INT32", "data": [[1, 2], [3, 4]]}
    message, _ = decode({"inputs": [x]})
    assert message.raw_input_contents[0] == np.arange(1, 5, dtype="<i4").tobytes()


def changed(**fields: object) -> dict[str, object]:
    return {"inputs": [{**TEXT, **fields}]}


def tensor(datatype: str, *data: object) -> dict[str, object]:
    return {"inputs": [{"name": "x", "shape": [len(data)], "datatype": datatype, "data": list(data)}]}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (b"", "empty"),
        (b"{", "not JSON"),
        (b'"x"', "a string"),
        (b"[1]", "an array"),
        (b"\xff{}", "UTF-8: byte 0"),
        (b'{"inputs": [], "inputs": []}', "'inputs' twice"),
        (b'{"inputs": ' + b"[" * 100_000, "nested too deep"),
        (b'{"parameters": {"a": NaN}}', "NaN"),
        (b'{"parameters": {"a": ' + b"9" * 6000 + b"}}", "too many digits"),
        ({}, "no inputs"),
        ({"inputs": {}}, "inputs must be a JSON array"),
        ({"inputs": [3]}, "inputs[0] must be a JSON object"),
        ({"inputs": [TEXT], "outputs": [3]}, "outputs[0] must be"),
        ({"inputs": [TEXT], "input": 1}, "unknown key 'input'"),
        ({"inputs": [TEXT], "id": 5}, "id must be a string"),
        ({"inputs": [TEXT], "parameters": {"a": [1]}}, "'a' is an array"),
        ({"inputs": [TEXT], "parameters": {"a": None}}, "'a' is null"),
        ({"inputs": [TEXT], "parameters": {"a": 2**70}}, "64-bit"),
        ({"inputs": [TEXT], "parameters": {"binary_data_output": 1}}, "binary_data_output"),
        ({"inputs": [TEXT], "outputs": [{"name": "a", "parameters": {"binary_data": 1}}]}, "binary_data"),
        (changed(name=7), "inputs[0].name"),
        (changed(shape=[1, -1]), "inputs[0].shape"),
        (changed(shape=[1, True]), "inputs[0].shape"),
        (changed(shape=[2**70]), "inputs[0].shape"),
        (changed(shape=[1] * 33), "inputs[0].shape has 33 dims; the limit is 32"),
        (changed(shape=[1, 3]), "1 elements; its shape [1, 3] needs 3"),
        (changed(data=[5]), "element 0 is not a string"),
        (changed(data=["\ud800"]), "surrogate"),
        (changed(dta=["x"]), "unknown key 'dta'"),
        (changed(datatype="FOO"), "'FOO'"),
        (changed(parameters={"binary_data_size": 3}), "both data and binary_data_size"),
        (tensor("INT32", 1.5), "element 0 is not a whole number"),
        (tensor("INT32", True), "element 0 is not a whole number"),
        (tensor("INT8", 1, 200), "element 1 is out of range"),
        (tensor("UINT8", -1), "element 0 is out of range"),
        (tensor("FP32", "1"), "element 0 is not a number"),
        (tensor("BOOL", 1), "element 0 is not true or false"),
        (tensor("FP64", 10**400), "out of range"),
        (tensor("BF16", 1.0), "binary data"),
    ],
)
def test_refuses_malformed_bodies_in_a_sentence(document: object, told: str) -> None:
    assert told in refusal(document)


@pytest.mark.parametrize("header", ["-1", "x", "", "1e3", "٣", "9" * 30])
def test_refuses_header_lengths_that_are_no_numbers(header: str) -> None:
    assert "Inference-Header-Content-Length" in refusal({"inputs": [TEXT]}, header=header)


def test_refuses_a_header_length_beyond_the_body() -> None:
    assert "only" in refusal({"inputs": [TEXT]}, header="5000")


def test_refuses_a_header_length_of_zero() -> None:
    assert "without JSON" in refusal({"inputs": [TEXT]}, header="0")


@pytest.mark.parametrize(("size", "told"), [(7, "only 6 bytes"), (5, "1 bytes more"), (-1, "whole number")])
def test_refuses_binary_sizes_that_do_not_fit_the_body(size: int, told: str) -> None:
    entry = {"name": "text", "shape": [1, 1], "datatype": "BYTES", "parameters": {"binary_data_size": size}}
    assert told in refusal({"inputs": [entry]}, struct.pack("<I", 2) + b"hi")


@given(st.binary(max_size=200))
def test_any_body_is_decoded_or_refused(body: bytes) -> None:
    with contextlib.suppress(InvalidArgument):
        decode_request(body, None, "en-test", "")


def response(datatype: str, raw: bytes, shape: list[int]) -> Any:
    message = pb.ModelInferResponse(model_name="m", model_version="1", id="q")
    message.outputs.add(name="y", datatype=datatype, shape=shape)
    message.raw_output_contents.append(raw)
    message.parameters["seed"].int64_param = 5
    return message


def test_writes_outputs_as_json() -> None:
    audio = np.array([[1, -2, 3]], dtype="<i2")
    body, length = encode_response(response("INT16", audio.tobytes(), [1, 3]), OutputForm())
    assert length is None
    assert json.loads(body) == {
        "model_name": "m",
        "model_version": "1",
        "id": "q",
        "parameters": {"seed": 5},
        "outputs": [{"name": "y", "datatype": "INT16", "shape": [1, 3], "data": [1, -2, 3]}],
    }


def test_writes_outputs_as_raw_bytes_after_the_json() -> None:
    audio = np.arange(100, dtype="<i2").tobytes()
    body, length = encode_response(response("INT16", audio, [1, 100]), OutputForm(binary_by_default=True))
    assert length is not None
    assert json.loads(body[:length])["outputs"] == [
        {"name": "y", "datatype": "INT16", "shape": [1, 100], "parameters": {"binary_data_size": 200}}
    ]
    assert body[length:] == audio


def test_json_has_no_nan_but_its_name() -> None:
    raw = np.array([np.nan, np.inf, 1], dtype="<f4").tobytes()
    body, _ = encode_response(response("FP32", raw, [3]), OutputForm())
    assert json.loads(body)["outputs"][0]["data"] == ["NaN", "Infinity", 1]


def test_bytes_that_are_not_utf8_are_refused_as_json() -> None:
    with pytest.raises(InvalidArgument, match="binary"):
        encode_response(response("BYTES", struct.pack("<I", 1) + b"\xff", [1]), OutputForm())
