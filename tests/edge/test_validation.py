from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from voxrepo.edge.validation import check_voice_request
from voxrepo_contract.errors import InvalidArgument, NotFound, VoxrepoError

from .harness import voice

VOICE = voice("en-test", speakers=["joe", "ann"], max_text_chars=20, speed_min=0.7, speed_max=2.0)


def element(raw: bytes) -> bytes:
    return struct.pack("<I", len(raw)) + raw


def request(text: bytes = b"hello", **others: bytes) -> Any:
    message = pb.ModelInferRequest(model_name="en-test")
    datatypes = {"text": "BYTES", "speaker": "BYTES", "speed": "FP32", "seed": "INT64"}
    for name, raw in {"text": text, **others}.items():
        message.inputs.add(name=name, datatype=datatypes[name], shape=[1, 1])
        message.raw_input_contents.append(element(raw) if datatypes[name] == "BYTES" else raw)
    return message


def check(message: Any) -> Any:
    return check_voice_request(message, VOICE, lambda: 77)


def refusal(message: Any, kind: type[VoxrepoError] = InvalidArgument) -> str:
    with pytest.raises(kind) as caught:
        check(message)
    assert type(caught.value) is kind
    return str(caught.value)


def test_fills_in_the_optional_inputs_in_the_order_of_the_contract() -> None:
    call = check(request())
    assert [(i.name, i.datatype, list(i.shape)) for i in call.request.inputs] == [
        ("text", "BYTES", [1, 1]),
        ("speed", "FP32", [1, 1]),
        ("speaker", "BYTES", [1, 1]),
        ("seed", "INT64", [1, 1]),
    ]
    raw = list(call.request.raw_input_contents)
    assert raw == [element(b"hello"), struct.pack("<f", 1.0), element(b""), struct.pack("<q", 77)]
    assert (call.text, call.seed) == ("hello", 77)


def test_takes_given_inputs_in_any_order() -> None:
    message = pb.ModelInferRequest(model_name="en-test")
    for name, datatype, raw in (
        ("seed", "INT64", struct.pack("<q", 5)),
        ("speaker", "BYTES", element(b"ann")),
        ("text", "BYTES", element("héllo".encode())),
        ("speed", "FP32", struct.pack("<f", 1.5)),
    ):
        message.inputs.add(name=name, datatype=datatype, shape=[1, 1])
        message.raw_input_contents.append(raw)
    complete = list(check(message).request.raw_input_contents)
    assert complete == [element("héllo".encode()), struct.pack("<f", 1.5), element(b"ann"), struct.pack("<q", 5)]


def test_takes_typed_contents_like_raw_ones() -> None:
    message = pb.ModelInferRequest(model_name="en-test")
    message.inputs.add(name="text", datatype="BYTES", shape=[1, 1]).contents.bytes_contents.append(b"hello")
    message.inputs.add(name="speed", datatype="FP32", shape=[1, 1]).contents.fp32_contents.append(1.5)
    message.inputs.add(name="seed", datatype="INT64", shape=[1, 1]).contents.int64_contents.append(9)
    expected = request(speed=struct.pack("<f", 1.5), seed=struct.pack("<q", 9))
    assert check(message).request == check(expected).request


def test_does_not_change_the_clients_message() -> None:
    message = request()
    before = message.SerializeToString(deterministic=True)
    check(message)
    assert message.SerializeToString(deterministic=True) == before


@given(st.binary(max_size=40))
def test_any_text_bytes_are_either_spoken_unchanged_or_refused(raw: bytes) -> None:
    try:
        call = check(request(raw))
    except InvalidArgument as error:
        assert "'text'" in str(error)
        with pytest.raises((UnicodeDecodeError, ValueError)):
            text = raw.decode("utf-8")
            if not text.strip() or "\0" in text or len(text) > VOICE.max_text_chars:
                raise ValueError from error
    else:
        assert call.request.raw_input_contents[0] == element(raw)


@given(st.lists(st.binary(max_size=12), max_size=5), st.lists(st.sampled_from(["text", "speed", "x"]), max_size=4))
def test_garbage_is_refused_with_our_own_error(contents: list[bytes], names: list[str]) -> None:
    message = pb.ModelInferRequest(model_name="en-test", raw_input_contents=contents)
    for name in names:
        message.inputs.add(name=name, datatype="BYTES" if name == "text" else "FP32", shape=[1, 1])
    try:
        check(message)
    except InvalidArgument:
        return
    assert "text" in names


def test_limits_that_fp32_cannot_hold_are_still_inside() -> None:
    assert check(request(speed=struct.pack("<f", 0.7))).request.raw_input_contents[1] == struct.pack("<f", 0.7)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", ["'text' is empty", "1 to 20"]),
        (b" \n\t ", ["'text' is blank", "1 to 20"]),
        (b"x" * 21, ["21 characters", "limit", "20"]),
        ("é".encode() * 21, ["21 characters", "20"]),
        (b"good \xff bad", ["'text'", "UTF-8", "byte 5", "0xff"]),
        (b"a\0b", ["NUL", "character 1"]),
        ("\ud800".encode("utf-8", "surrogatepass"), ["UTF-8", "byte 0"]),
    ],
)
def test_refuses_texts_that_cannot_be_spoken(text: bytes, told: list[str]) -> None:
    message = refusal(request(text))
    assert all(part in message for part in told), message


def test_counts_characters_and_not_bytes() -> None:
    assert check(request("é".encode() * 20)).text == "é" * 20


@pytest.mark.parametrize("speed", [0.69, 2.01, 0.0, -1.0, math.nan, math.inf, -math.inf])
def test_refuses_speeds_out_of_range(speed: float) -> None:
    message = refusal(request(speed=struct.pack("<f", speed)))
    assert "'speed'" in message
    assert "0.7 to 2" in message


def test_refuses_an_unknown_speaker_and_lists_twenty_names() -> None:
    names = [f"s{n:02}" for n in range(25)]
    crowd = voice("en-test", speakers=names)
    with pytest.raises(InvalidArgument) as caught:
        check_voice_request(request(speaker=b"bob"), crowd)
    assert "'bob'" in str(caught.value)
    assert "s19 and 5 more" in str(caught.value)
    assert "s20" not in str(caught.value)


def test_names_the_only_speaker_of_a_voice() -> None:
    with pytest.raises(InvalidArgument, match="unknown speaker 'bob'; voice 'en-test' has: default"):
        check_voice_request(request(speaker=b"bob"), voice("en-test"))


def test_refuses_a_negative_seed() -> None:
    assert "-1" in refusal(request(seed=struct.pack("<q", -1)))


def _change(edit: Callable[[Any], object]) -> Any:
    message = request()
    edit(message)
    return message


def _input(message: Any, **fields: object) -> None:
    for name, value in fields.items():
        if name == "shape":
            del message.inputs[0].shape[:]
            message.inputs[0].shape.extend(value)
        else:
            setattr(message.inputs[0], name, value)


def _raw(message: Any, *contents: bytes) -> object:
    del message.raw_input_contents[:]
    return message.raw_input_contents.extend(contents)


STRUCTURAL: list[tuple[str, Callable[[Any], object], list[str]]] = [
    ("batch", lambda m: _input(m, shape=[3, 1]), ["'text'", "batch of 3", "limit is 1"]),
    ("no batch axis", lambda m: _input(m, shape=[1]), ["'text'", "[1]", "expected [1, 1]"]),
    ("two columns", lambda m: _input(m, shape=[1, 2]), ["[1, 2]", "expected [1, 1]"]),
    ("negative", lambda m: _input(m, shape=[-1, 1]), ["[-1, 1]", "expected [1, 1]"]),
    ("datatype", lambda m: _input(m, datatype="FP32"), ["'text'", "'FP32'", "expected BYTES"]),
    ("unknown input", lambda m: _input(m, name="txt"), ["unknown input 'txt'", "text, speed, speaker, seed"]),
    ("twice", lambda m: (m.inputs.add().CopyFrom(m.inputs[0]), _raw(m, element(b"a"), element(b"b"))), ["twice"]),
    ("no text", lambda m: (m.inputs.pop(), _raw(m)), ["'text' is missing"]),
    ("too many contents", lambda m: _raw(m, element(b"a"), element(b"b")), ["2 entries for 1 inputs"]),
    ("cut prefix", lambda m: _raw(m, b"ab"), ["2 bytes", "4-byte length"]),
    ("long prefix", lambda m: _raw(m, struct.pack("<I", 9) + b"abc"), ["9 bytes", "3 follow"]),
    ("two elements", lambda m: _raw(m, element(b"a") + element(b"b")), ["1 bytes", "6 follow"]),
    ("neither", _raw, ["0 elements"]),
    ("both", lambda m: m.inputs[0].contents.bytes_contents.append(b"x"), ["both typed contents"]),
    (
        "wrong field",
        lambda m: (_raw(m), m.inputs[0].contents.fp32_contents.append(1)),
        ["fp32_contents", "bytes_contents"],
    ),
    (
        "shared memory input",
        lambda m: m.inputs[0].parameters["shared_memory_region"].MergeFrom(pb.InferParameter(string_param="r")),
        ["'text'", "shared memory"],
    ),
    (
        "input parameter",
        lambda m: m.inputs[0].parameters["what"].MergeFrom(pb.InferParameter(string_param="r")),
        ["'text'", "'what'"],
    ),
    ("unknown output", lambda m: m.outputs.add(name="wav"), ["unknown output 'wav'", "audio, sample_rate"]),
    (
        "output twice",
        lambda m: (m.outputs.add(name="audio"), m.outputs.add(name="audio")),
        ["'audio' is requested twice"],
    ),
    (
        "classification",
        lambda m: m.outputs.add(name="audio").parameters["classification"].MergeFrom(pb.InferParameter(int64_param=3)),
        ["'audio'", "classification"],
    ),
    (
        "shared memory output",
        lambda m: (
            m.outputs.add(name="audio")
            .parameters["shared_memory_region"]
            .MergeFrom(pb.InferParameter(string_param="r"))
        ),
        ["'audio'", "shared memory"],
    ),
]


@pytest.mark.parametrize(("edit", "told"), [case[1:] for case in STRUCTURAL], ids=[c[0] for c in STRUCTURAL])
def test_refuses_wrongly_built_requests(edit: Callable[[Any], object], told: list[str]) -> None:
    message = refusal(_change(edit))
    assert all(part in message for part in told), message


@pytest.mark.parametrize("version", ["2", "-1", "abc"])
def test_refuses_versions_of_a_voice(version: str) -> None:
    message = request()
    message.model_version = version
    assert repr(version) in refusal(message, NotFound)


def parameter(name: str, **value: object) -> Any:
    message = request()
    message.parameters[name].MergeFrom(pb.InferParameter(**value))
    return message


def test_forwards_noise_scales_and_nothing_else() -> None:
    message = parameter("noise_scale", int64_param=1)
    for name, value in {
        "noise_w_scale": pb.InferParameter(double_param=0.5),
        "timeout": pb.InferParameter(int64_param=2000),
        "routing_key": pb.InferParameter(string_param="user-7"),
        "arm": pb.InferParameter(string_param="stable"),
        "priority": pb.InferParameter(uint64_param=0),
        "binary_data_output": pb.InferParameter(bool_param=True),
        "triton_enable_empty_final_response": pb.InferParameter(bool_param=False),
    }.items():
        message.parameters[name].CopyFrom(value)
    call = check(message)
    forwarded = {name: value.double_param for name, value in call.request.parameters.items()}
    assert forwarded == {"noise_scale": 1.0, "noise_w_scale": 0.5}
    assert (call.parameters.timeout_us, call.parameters.routing_key) == (2000, "user-7")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("noise_scale", {"double_param": 2.1}, "0 to 2"),
        ("noise_scale", {"double_param": math.nan}, "0 to 2"),
        ("noise_w_scale", {"string_param": "1"}, "number from 0 to 2"),
        ("noise_scale", {"bool_param": True}, "number from 0 to 2"),
        ("timeout", {"int64_param": -1}, "microseconds"),
        ("timeout", {"string_param": "5"}, "microseconds"),
        ("timeout", {"double_param": 5.0}, "microseconds"),
        ("routing_key", {"string_param": ""}, "1 to 256"),
        ("routing_key", {"int64_param": 4}, "1 to 256"),
        ("priority", {"uint64_param": 2}, "'priority'"),
        ("binary_data_output", {"bool_param": False}, "binary"),
        ("sequence_id", {"int64_param": 2}, "unknown parameter 'sequence_id'"),
        ("pitch", {"double_param": 2.0}, "unknown parameter 'pitch'"),
        ("arm", {"int64_param": 2}, "'arm'"),
        ("arm", {"string_param": ""}, "'arm'"),
        ("normalise", {"int64_param": 0}, "true or false"),
        ("normalise", {"string_param": "false"}, "true or false"),
    ],
)
def test_refuses_parameters_that_would_be_ignored_or_are_out_of_range(
    name: str, value: dict[str, object], told: str
) -> None:
    message = refusal(parameter(name, **value))
    assert told in message
    assert name in message


def test_zero_timeout_means_none() -> None:
    assert check(parameter("timeout", int64_param=0)).parameters.timeout_us is None


@pytest.mark.parametrize("value", [True, False])
def test_forwards_whether_to_normalise_as_a_bool(value: bool) -> None:
    forwarded = check(parameter("normalise", bool_param=value)).request.parameters["normalise"]
    assert forwarded.WhichOneof("parameter_choice") == "bool_param"
    assert forwarded.bool_param is value


def test_asks_the_engine_for_what_was_dropped_whenever_outputs_are_named() -> None:
    message = request()
    assert not check(message).request.outputs
    message.outputs.add(name="sample_rate")
    assert [output.name for output in check(message).request.outputs] == ["sample_rate", "dropped"]


def test_clients_cannot_ask_for_what_the_edge_takes_for_itself() -> None:
    message = request()
    message.outputs.add(name="dropped")
    assert "unknown output 'dropped'" in refusal(message)
