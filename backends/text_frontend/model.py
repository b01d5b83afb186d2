"""Triton's entry to the ``text_frontend`` backend; one file serves every voice.

The work is done in the package ``text_backend`` beside this file. Triton puts this directory first on ``sys.path``
of the stub process, whose Python is locked to ASCII: nothing non-ASCII is printed and every file is opened with
its encoding.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils
from text_backend import memory
from text_backend.build import Built, build_front_end

from voxrepo_contract import tensors
from voxrepo_contract.errors import InvalidArgument, VoxrepoError
from voxrepo_contract.heartbeat import Heartbeat
from voxrepo_contract.stub_identity import identify


class TritonPythonModel:
    """One instance of one version of one voice's front end."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the version's files, start the phonemizer and run a first text through it.

        Raises:
            TritonModelException: one sentence that says which file is wrong or what is not installed.
        """
        identify(args["model_name"], args["model_version"])
        version_dir = Path(args["model_repository"]) / args["model_version"]
        self._name = args["model_name"]
        try:
            heartbeat = Heartbeat.of_environment()
            self._load(version_dir)
        except VoxrepoError as error:
            self.finalize()
            raise pb_utils.TritonModelException(error.message) from error
        except BaseException:
            self.finalize()
            raise
        self._heartbeat = heartbeat.start()

    def _load(self, version_dir: Path) -> None:
        self._built = build_front_end(version_dir)
        self._front_end = self._built.front_end
        pb_utils.Logger.log_info(f"{self._name}: {self._built.description}")

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request by itself: one that fails does not touch the others of its batch."""
        begun = self._heartbeat.mark()
        answers = [self._answer(request) for request in requests]
        self._heartbeat.leave_if_given_up(begun, self._name)
        return answers

    def finalize(self) -> None:
        """End the phonemizer."""
        heartbeat: Heartbeat | None = getattr(self, "_heartbeat", None)
        if heartbeat is not None:
            heartbeat.close()
        built: Built | None = getattr(self, "_built", None)
        if built is not None:
            built.close()

    def _answer(self, request: Any) -> Any:
        try:
            return pb_utils.InferenceResponse(self._run(request))
        except VoxrepoError as error:
            # looked up here: the stub adds the class after this module was imported
            code = getattr(pb_utils.TritonError, error.triton_code)
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(error.message, code))
        except Exception as error:
            pb_utils.Logger.log_error(f"{self._name}: {error!a}")
            message = f"text_frontend: {type(error).__name__}: {error}"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, pb_utils.TritonError.INTERNAL))

    def _run(self, request: Any) -> list[Any]:
        text, speed, speaker, seed = (_single(request, spec) for spec in tensors.VOICE_INPUTS)
        written = _utf8(tensors.TEXT.name, text.item())
        try:
            utterance = self._front_end.run(
                written,
                float(speed.item()),
                _utf8(tensors.SPEAKER.name, speaker.item()),
                normalise=_normalise(request),
            )
        finally:
            memory.give_back_after(len(written))
        outputs = {
            tensors.PHONEME_IDS.name: utterance.phoneme_ids[np.newaxis],
            tensors.SEGMENT_LENGTHS.name: utterance.segment_lengths[np.newaxis],
            tensors.PAUSE_MS.name: utterance.pause_ms[np.newaxis],
            tensors.SPEED.name: speed,
            tensors.SPEAKER_ID.name: np.asarray([[utterance.speaker_id]], np.int64),
            tensors.SEED.name: seed,
            tensors.DROPPED.name: np.asarray([[json.dumps(utterance.dropped).encode()]], np.object_),
        }
        return [pb_utils.Tensor(name, array) for name, array in outputs.items()]


_DTYPES: dict[str, Any] = {"BYTES": np.object_, "FP32": np.float32, "INT64": np.int64}


def _single(request: Any, spec: tensors.TensorSpec) -> npt.NDArray[Any]:
    """The [1, 1] array of an input.

    Raises:
        InvalidArgument: it is missing, holds more than one value, or is of another type.
    """
    tensor = pb_utils.get_input_tensor_by_name(request, spec.name)
    if tensor is None:
        raise InvalidArgument(f"{spec.name}: the input is missing")
    array: npt.NDArray[Any] = tensor.as_numpy()
    if array.ndim and array.shape[0] > 1:
        raise InvalidArgument(f"{spec.name}: the batch axis is {array.shape[0]}; send one text per request")
    if array.shape != (1, 1):
        raise InvalidArgument(f"{spec.name}: the shape is {list(array.shape)}; it must be [1, 1]")
    if array.dtype != _DTYPES[spec.dtype]:
        raise InvalidArgument(f"{spec.name}: the data type is {array.dtype}; it must be {spec.dtype}")
    return array


def _normalise(request: Any) -> bool:
    """The request parameter ``normalise``, on where it is not given.

    Raises:
        InvalidArgument: it is neither true nor false.
    """
    read = getattr(request, "parameters", None)
    parameters = json.loads(read() or "{}") if read is not None else {}
    value = parameters.get("normalise", True)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        value = value.lower() == "true"
    if not isinstance(value, bool):
        raise InvalidArgument(f"normalise: {value!r} is neither true nor false")
    return value


def _utf8(name: str, value: Any) -> str:
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"{name}: is not valid UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start}"
        ) from error
