"""Triton's entry to the ``text_frontend`` backend; one file serves every voice.

The work is done in the package ``text_backend`` beside this file. Triton puts this directory first on ``sys.path``
of the stub process, whose Python is locked to ASCII: nothing non-ASCII is printed and every file is opened with
its encoding.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils
from text_backend.espeak import EspeakClient
from text_backend.frontend import FrontEnd
from text_backend.inventory import read_inventory
from text_backend.languages import find_language

from voxrepo_contract import tensors
from voxrepo_contract.errors import ConfigError, InvalidArgument, VoxrepoError
from voxrepo_contract.stage import STAGE_FILE, TextFrontendStage, read_stage, verify_files

_WARM_UP = "Hello. This is a first sentence, spoken to no one."


class TritonPythonModel:
    """One instance of one version of one voice's front end."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the version's files, start the phonemizer and run a first text through it.

        Raises:
            TritonModelException: one sentence that says which file is wrong or what is not installed.
        """
        version_dir = Path(args["model_repository"]) / args["model_version"]
        self._name = args["model_name"]
        try:
            self._load(version_dir)
        except VoxrepoError as error:
            self.finalize()
            raise pb_utils.TritonModelException(error.message) from error
        except BaseException:
            self.finalize()
            raise

    def _load(self, version_dir: Path) -> None:
        stage = read_stage(version_dir)
        if not isinstance(stage, TextFrontendStage):
            raise ConfigError(
                f"program: the backend text_frontend cannot run {stage.program!r}", file=version_dir / STAGE_FILE
            )
        verify_files(version_dir, stage)
        if "inventory" not in stage.files:
            raise ConfigError("files.inventory: required key is missing", file=version_dir / STAGE_FILE)
        inventory = read_inventory(version_dir / stage.files["inventory"].file)
        try:
            language = find_language(stage.options.language)
        except ValueError as error:
            raise ConfigError(f"options.language: {error}", file=version_dir / STAGE_FILE) from error
        self._phonemizer = EspeakClient(stage.options.phonemizer_voice)
        version = self._phonemizer.start()
        self._front_end = FrontEnd(stage.options, inventory, language, self._phonemizer)
        if language.code == "en":
            self._front_end.run(_WARM_UP, 1.0, "")
        pb_utils.Logger.log_info(
            f"{self._name}: {language.name}, espeak voice {stage.options.phonemizer_voice} (piper-tts {version}, "
            f"process {self._phonemizer.pid}), {len(stage.options.speakers)} speakers"
        )

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request by itself: one that fails does not touch the others of its batch."""
        return [self._answer(request) for request in requests]

    def finalize(self) -> None:
        """End the phonemizer."""
        phonemizer: EspeakClient | None = getattr(self, "_phonemizer", None)
        if phonemizer is not None:
            phonemizer.close()

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
        utterance = self._front_end.run(
            _utf8(tensors.TEXT.name, text.item()),
            float(speed.item()),
            _utf8(tensors.SPEAKER.name, speaker.item()),
        )
        outputs = {
            tensors.PHONEME_IDS.name: utterance.phoneme_ids[np.newaxis],
            tensors.SEGMENT_LENGTHS.name: utterance.segment_lengths[np.newaxis],
            tensors.PAUSE_MS.name: utterance.pause_ms[np.newaxis],
            tensors.SPEED.name: speed,
            tensors.SPEAKER_ID.name: np.asarray([[utterance.speaker_id]], np.int64),
            tensors.SEED.name: seed,
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


def _utf8(name: str, value: Any) -> str:
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(
            f"{name}: is not valid UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start}"
        ) from error
