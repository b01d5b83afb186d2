"""Triton's entry, with stand-ins for the classes that only exist inside Triton's stub process.

The real engine is used by the end-to-end tests; here it is about what ``model.py`` does between Triton and the
front end.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from voxrepo_contract import tensors
from voxrepo_contract.stage import FileEntry, TextFrontendStage, sha256_of, write_stage

from .conftest import BACKEND, options

pytest.importorskip("piper")


@dataclass
class Tensor:
    name: str
    array: Any

    def as_numpy(self):
        return self.array


@dataclass
class TritonError:
    message: str
    code: str
    INVALID_ARG = "INVALID_ARG"
    INTERNAL = "INTERNAL"
    UNAVAILABLE = "UNAVAILABLE"


@dataclass
class InferenceResponse:
    output_tensors: list[Tensor] = field(default_factory=list)
    error: TritonError | None = None


class TritonModelException(Exception):
    pass


class Logger:
    lines: ClassVar[list[str]] = []

    @classmethod
    def log_info(cls, line):
        cls.lines.append(line)

    log_error = log_info


def load_model_file():
    spec = importlib.util.spec_from_file_location("text_frontend_model", BACKEND / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model_file(monkeypatch):
    # as in the stub: the classes appear in the module only after model.py has been imported
    stub = types.ModuleType("triton_python_backend_utils")
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", stub)
    module = load_model_file()
    for thing in (Tensor, TritonError, InferenceResponse, TritonModelException, Logger):
        setattr(stub, thing.__name__, thing)
    stub.get_input_tensor_by_name = lambda request, name: request.get(name)  # type: ignore[attr-defined]
    return module


@pytest.fixture
def repository(tmp_path, piper_config):
    version = tmp_path / "1"
    version.mkdir()
    table = {"phonemes": piper_config["phoneme_id_map"], "bos": "^", "eos": "$", "pad": "_"}
    file = version / "inventory.json"
    file.write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")
    write_stage(version, stage_for(version))
    return tmp_path


def stage_for(version, **changes):
    entry = FileEntry(file="inventory.json", sha256=sha256_of(version / "inventory.json"))
    return TextFrontendStage(
        program="text_frontend", stage="text_frontend", files={"inventory": entry}, options=options(**changes)
    )


def arguments(repository):
    return {"model_repository": str(repository), "model_version": "1", "model_name": "en-joe.text_frontend"}


@pytest.fixture
def model(model_file, repository):
    model = model_file.TritonPythonModel()
    model.initialize(arguments(repository))
    yield model
    model.finalize()


def request(text: bytes = b"Hello.", speed: float = 1.0, speaker: bytes = b"", seed: int = 5):
    values = {
        "text": np.array([[text]], object),
        "speed": np.array([[speed]], np.float32),
        "speaker": np.array([[speaker]], object),
        "seed": np.array([[seed]], np.int64),
    }
    return {name: Tensor(name, array) for name, array in values.items()}


_DTYPES = {"INT64": np.int64, "INT32": np.int32, "FP32": np.float32, "BYTES": np.object_}


def test_outputs_are_those_of_the_contract(model):
    (response,) = model.execute([request("One. Two caf\u00e9s.".encode(), speed=2.0, seed=-3)])
    assert response.error is None
    outputs = {tensor.name: tensor.array for tensor in response.output_tensors}
    contract = tensors.stage_contract("text_frontend", -1).outputs
    assert set(outputs) == {spec.name for spec in contract}
    for spec in contract:
        array = outputs[spec.name]
        assert array.dtype == _DTYPES[spec.dtype], spec.name
        assert array.ndim == 1 + len(spec.dims)
        assert all(want in (-1, got) for want, got in zip((1, *spec.dims), array.shape, strict=True))
    assert outputs["segment_lengths"].sum() == outputs["phoneme_ids"].shape[1]
    assert outputs["pause_ms"].tolist() == [[75, 0]]
    assert outputs["speed"].item() == 2.0
    assert outputs["seed"].item() == -3
    assert json.loads(outputs["dropped"].item()) == {}


def test_counts_what_is_not_spoken(model):
    (response,) = model.execute([request("Two \U0001f600\U0001f600 caf\u00e9s.".encode())])
    outputs = {tensor.name: tensor.array for tensor in response.output_tensors}
    assert json.loads(outputs["dropped"].item()) == {"emoji": 2}


def test_a_bad_request_does_not_touch_its_neighbours(model):
    (alone,) = model.execute([request(b"Good morning.")])
    good, bad, also_good = model.execute([request(b"Good morning."), request(b"\xff"), request(b"Good night.")])
    assert bad.error.code == "INVALID_ARG"
    assert also_good.error is None
    assert np.array_equal(good.output_tensors[0].array, alone.output_tensors[0].array)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": b"ab\xff"}, "text: is not valid UTF-8: byte 0xff at position 2"),
        ({"text": b""}, "text: is empty or blank"),
        ({"speaker": b"\xc3("}, "speaker: is not valid UTF-8"),
        ({"speaker": b"nobody"}, "speaker: 'nobody' is unknown; this voice has: joe"),
        ({"speed": float("nan")}, "speed: nan is out of range"),
    ],
)
def test_bad_values_are_invalid_arguments(model, changes, message):
    (response,) = model.execute([request(**changes)])
    assert response.error.code == "INVALID_ARG"
    assert response.error.message.startswith(message)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("text", np.array([[b"a"], [b"b"]], object), "text: the batch axis is 2; send one text per request"),
        ("text", np.array([[b"a", b"b"]], object), r"text: the shape is [1, 2]; it must be [1, 1]"),
        ("seed", np.array([[1.0]], np.float32), "seed: the data type is float32; it must be INT64"),
        ("seed", None, "seed: the input is missing"),
    ],
)
def test_bad_tensors_are_invalid_arguments(model, name, array, message):
    wrong = request()
    wrong.pop(name)
    if array is not None:
        wrong[name] = Tensor(name, array)
    (response,) = model.execute([wrong])
    assert response.error.code == "INVALID_ARG"
    assert response.error.message == message


class RequestWithParameters(dict):  # type: ignore[type-arg]
    def __init__(self, tensors, parameters: str) -> None:
        super().__init__(tensors)
        self._parameters = parameters

    def parameters(self) -> str:
        return self._parameters


@pytest.mark.parametrize("parameters", ['{"normalise": false}', '{"normalise": "false"}'])
def test_normalisation_is_off_by_a_request_parameter(model, parameters):
    (normalised,) = model.execute([request(b"1/3")])
    (as_written,) = model.execute([RequestWithParameters(request(b"1/3"), parameters)])
    assert as_written.error is None
    assert not np.array_equal(as_written.output_tensors[0].array, normalised.output_tensors[0].array)


def test_a_parameter_that_is_no_switch_is_an_invalid_argument(model):
    (response,) = model.execute([RequestWithParameters(request(b"1/3"), '{"normalise": 3}')])
    assert response.error.code == "INVALID_ARG"
    assert response.error.message == "normalise: 3 is neither true nor false"


def test_a_stub_that_may_have_been_given_up_ends_before_it_answers(model_file, repository, monkeypatch):
    class Left(BaseException):
        """The process would have ended here."""

    def leave(code):
        raise Left(code)

    monkeypatch.setenv("VOXREPO_STUB_PATIENCE_S", "30")
    monkeypatch.setattr("os._exit", leave)
    model = model_file.TritonPythonModel()
    model.initialize(arguments(repository))
    assert len(model.execute([request()])) == 1
    model._heartbeat._last = (model._heartbeat._last[0] - 40, model._heartbeat._last[1])
    with pytest.raises(Left, match="70"):
        model.execute([request()])
    model.finalize()


def test_an_unexpected_fault_is_an_error_of_its_own_request_only(model, monkeypatch):
    run = model._front_end.run
    monkeypatch.setattr(
        model._front_end, "run", lambda text, *rest, **more: 1 // 0 if text == "bad" else run(text, *rest, **more)
    )
    bad, good = model.execute([request(b"bad"), request(b"good")])
    assert bad.error.code == "INTERNAL"
    assert good.error is None


def test_the_phonemizer_ends_with_the_model(model_file, repository):
    model = model_file.TritonPythonModel()
    model.initialize(arguments(repository))
    model.finalize()
    assert model._built.phonemizer.pid is None


def test_a_damaged_inventory_is_refused(model_file, repository):
    (repository / "1" / "inventory.json").write_text("{}", encoding="utf-8")
    with pytest.raises(TritonModelException, match=r"inventory\.json: sha256 is"):
        model_file.TritonPythonModel().initialize(arguments(repository))


def test_an_unlisted_inventory_is_refused(model_file, repository):
    stage = stage_for(repository / "1").model_copy(update={"files": {}})
    write_stage(repository / "1", stage)
    with pytest.raises(TritonModelException, match=r"stage\.yaml: files\.inventory"):
        model_file.TritonPythonModel().initialize(arguments(repository))


def test_a_voice_that_espeak_does_not_have_is_refused(model_file, repository):
    write_stage(repository / "1", stage_for(repository / "1", phonemizer_voice="tlh-x-none"))
    model = model_file.TritonPythonModel()
    with pytest.raises(TritonModelException, match="tlh-x-none"):
        model.initialize(arguments(repository))
    assert not hasattr(model, "_built")


def test_a_wrong_language_tag_is_refused(model_file, repository):
    write_stage(repository / "1", stage_for(repository / "1", language="english please"))
    with pytest.raises(TritonModelException, match=r"stage\.yaml: options\.language: 'english please'"):
        model_file.TritonPythonModel().initialize(arguments(repository))
