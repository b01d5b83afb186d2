from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import model_config_pb2 as config_pb
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.generate import VOICE_GENERATE_INPUTS, decode_request, encode_response, event, inputs_of_config
from voxrepo_contract.errors import InvalidArgument


def decode(document: object) -> Any:
    return decode_request(json.dumps(document).encode(), "en-test", "", VOICE_GENERATE_INPUTS)


def test_keys_become_inputs_and_the_rest_parameters() -> None:
    message = decode(
        {"id": 4, "text": "hi", "speed": 1.1, "seed": 7, "arm": "stable", "parameters": {"noise_scale": 0.5}}
    )
    assert message.id == "4"
    tensors = {t.name: (t.datatype, list(t.shape)) for t in message.inputs}
    assert tensors == {"text": ("BYTES", [1, 1]), "speed": ("FP32", [1, 1]), "seed": ("INT64", [1, 1])}
    by_name = dict(zip([t.name for t in message.inputs], message.raw_input_contents, strict=True))
    assert by_name["text"] == struct.pack("<I", 2) + b"hi"
    assert by_name["speed"] == struct.pack("<f", 1.1)
    assert by_name["seed"] == struct.pack("<q", 7)
    assert message.parameters["noise_scale"].double_param == 0.5
    assert message.parameters["arm"].string_param == "stable"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"text": None}, "'text' must be a single value"),
        ({"text": {"a": 1}}, "'text' must be a single value"),
        ({"text": [["a"]]}, "flat array"),
        ({"text": 5}, "element 0 is not a string"),
        ({"text": "a", "speed": "fast"}, "'speed': element 0 is not a number"),
        ({"text": "a", "seed": 1.5}, "'seed': element 0 is not a whole number"),
        ({"text": "a", "seed": 2**64}, "'seed': element 0 is out of range"),
        ({"text": "a", "x": {}}, "'x' is an object"),
        ({"text": "a", "parameters": 3}, "parameters must be"),
        ({"text": "a", "x": 1, "parameters": {"x": 1}}, "'x' is given twice"),
        ({"parameters": {"text": "a"}}, "'text' is an input"),
        ({"text": "a", "id": []}, "id must be"),
    ],
)
def test_refuses_what_cannot_be_mapped(document: object, told: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        decode(document)
    assert told in str(caught.value)


def test_reads_the_inputs_of_any_model_from_its_config() -> None:
    config = config_pb.ModelConfig(max_batch_size=0)
    config.input.add(name="x", data_type=config_pb.TYPE_FP32)
    config.input.add(name="name", data_type=config_pb.TYPE_STRING)
    inputs = inputs_of_config(config)
    assert dict(inputs.datatypes) == {"x": "FP32", "name": "BYTES"}
    message = decode_request(b'{"x": [1, 2], "name": "a"}', "m", "", inputs)
    assert [list(t.shape) for t in message.inputs] == [[2], [1]]


def test_answers_single_elements_as_plain_values() -> None:
    message = pb.ModelInferResponse(model_name="m", model_version="1")
    message.outputs.add(name="audio", datatype="INT16", shape=[1, 3])
    message.outputs.add(name="sample_rate", datatype="INT32", shape=[1, 1])
    message.raw_output_contents.append(np.array([1, 2, 3], dtype="<i2").tobytes())
    message.raw_output_contents.append(np.array([22050], dtype="<i4").tobytes())
    message.parameters["seed"].int64_param = 9
    answer = encode_response(message)
    assert json.loads(answer) == {
        "model_name": "m",
        "model_version": "1",
        "seed": 9,
        "audio": [1, 2, 3],
        "sample_rate": 22050,
    }
    assert event(answer) == b"data: " + answer + b"\n\n"
