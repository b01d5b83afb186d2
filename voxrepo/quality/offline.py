"""Stage versions that speak in this process, without a server: the programs that serve them, and their graphs.

Graphs run on the CPU in one thread, so that two runs give the same samples and times can be compared. Of an emulated
OM, the graph inside runs, in the gears that the file was built for; a real OM needs its chip, and is refused.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from voxrepo.repository.layout import backends_folder
from voxrepo_contract import emulated_om
from voxrepo_contract.errors import ConfigError, VoxrepoError
from voxrepo_contract.om.sniff import EMULATED_MAGIC
from voxrepo_contract.stage import (
    STAGE_FILE,
    AnyStage,
    DirectStage,
    GraphSpec,
    LengthRegulatedStage,
    TextFrontendStage,
    WindowedStage,
    read_stage,
    verify_files,
)

if TYPE_CHECKING:
    from om_backend.job import Program
    from text_backend.build import Built

Array = npt.NDArray[Any]
Audio = npt.NDArray[np.int16]

Rounding = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
"""From durations to whole frames."""

_BACKENDS = ("ascend_om", "text_frontend")


def _use_backends() -> None:
    for name in _BACKENDS:
        folder = str(backends_folder() / name)
        if folder not in sys.path:
            sys.path.insert(0, folder)


@dataclass(frozen=True)
class Phonemes:
    """What a front end makes of a text: the inputs of an acoustic stage.

    Attributes:
        ids: INT64 [T].
        segment_lengths: INT32 [S].
        pause_ms: INT32 [S].
        speaker_id: who speaks.
    """

    ids: npt.NDArray[np.int64]
    segment_lengths: npt.NDArray[np.int32]
    pause_ms: npt.NDArray[np.int32]
    speaker_id: int = 0

    def equals(self, other: Phonemes) -> bool:
        """Whether both say the same."""
        return (
            np.array_equal(self.ids, other.ids)
            and np.array_equal(self.segment_lengths, other.segment_lengths)
            and np.array_equal(self.pause_ms, other.pause_ms)
            and self.speaker_id == other.speaker_id
        )


@dataclass(frozen=True)
class Features:
    """What an acoustic stage makes of phonemes: the inputs of a vocoder.

    Attributes:
        values: FP32 [F, C].
        frame_lengths: INT32 [S].
        pause_ms: INT32 [S].
        durations: by ids of a segment, what its encoder said of them: FP32 [T].
    """

    values: npt.NDArray[np.float32]
    frame_lengths: npt.NDArray[np.int32]
    pause_ms: npt.NDArray[np.int32]
    durations: Mapping[bytes, npt.NDArray[np.float32]] = field(default_factory=dict)


class _Measured:
    """A graph that adds up its CPU time, which is this thread's: it runs in no other."""

    def __init__(self, graph: Any, add: Callable[[float], None]) -> None:
        self._graph = graph
        self._add = add
        self.description: Any = graph.description

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run; see :class:`om_backend.runtime.Graph`."""
        before = time.thread_time()
        outputs: dict[str, Array] = self._graph.run(feeds)
        self._add(time.thread_time() - before)
        return outputs

    def release_work_memory(self) -> None:
        """See :class:`om_backend.runtime.Graph`."""
        self._graph.release_work_memory()

    def close(self) -> None:
        """See :class:`om_backend.runtime.Graph`."""
        self._graph.close()


class _Durations(_Measured):
    """An encoder whose durations are noted, or are those that were noted of another one."""

    def __init__(self, graph: Any, add: Callable[[float], None]) -> None:
        super().__init__(graph, add)
        self.noted: dict[bytes, npt.NDArray[np.float32]] = {}
        self.forced: Mapping[bytes, npt.NDArray[np.float32]] | None = None

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run; see :class:`om_backend.runtime.Graph`."""
        outputs = super().run(feeds)
        if "durations" not in outputs:
            return outputs
        durations = np.array(outputs["durations"], np.float32)
        for row, length in enumerate(np.ravel(feeds["lengths"])):
            key = _key(feeds["phoneme_ids"][row, : int(length)])
            if self.forced is None:
                self.noted[key] = durations[row, 0, : int(length)].copy()
            elif int(length):
                durations[row, 0, : int(length)] = self.forced[key]
        return {**outputs, "durations": durations}


class _EmulatedGraph:
    """The graph inside an emulated OM, in this process."""

    description = None

    def __init__(self, file: Path, spec: GraphSpec) -> None:
        self._file = file
        self._outputs = [tensor.name for tensor in spec.outputs]
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_mem_pattern = False
        options.log_severity_level = 3
        try:
            model = emulated_om.read(file).onnx
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except VoxrepoError:
            raise
        except Exception as error:  # the runtime has no public base class for its errors
            raise ConfigError(f"onnxruntime cannot load the graph inside: {error}", file=file) from error

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run; see :class:`om_backend.runtime.Graph`."""
        try:
            values = self._session.run(self._outputs, dict(feeds))
        except Exception as error:
            shapes = {name: list(value.shape) for name, value in feeds.items()}
            raise ConfigError(f"failed on {shapes}: {error}", file=self._file) from error
        return dict(zip(self._outputs, map(np.asarray, values), strict=True))

    def release_work_memory(self) -> None:
        """Nothing grows here that matters."""

    def close(self) -> None:
        """Nothing to give back before the session itself goes."""


def can_run_here(folder: Path, spec: AnyStage) -> bool:
    """Whether all graphs of a version run in this process."""
    return all(graph.device == "cpu" or _is_emulated(folder / graph.file) for graph in spec.graphs.values())


def _is_emulated(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(len(EMULATED_MAGIC)) == EMULATED_MAGIC
    except OSError:
        return False


def _key(ids: Array) -> bytes:
    return np.ascontiguousarray(ids, np.int64).tobytes()


class OfflineStage:
    """A version of the acoustic stage or the vocoder of a voice.

    Args:
        folder: with ``stage.yaml``; its files are verified.

    Attributes:
        spec: its ``stage.yaml``.
        size_bytes: of its graphs.
        cpu_s: CPU time in its graphs so far.

    Raises:
        ConfigError: a file is wrong or damaged, the program is none of a voice's, or a graph needs a chip.
    """

    def __init__(self, folder: Path) -> None:
        self.spec = read_stage(folder)
        self.folder = folder
        verify_files(folder, self.spec)
        is_whole = isinstance(self.spec, DirectStage) and self.spec.stage == "acoustic"
        if not is_whole and not isinstance(self.spec, LengthRegulatedStage | WindowedStage):
            raise ConfigError(
                f"program: {self.spec.program!r} is not one of those whose sound can be compared (length_regulated "
                "and windowed, and direct as an acoustic stage)",
                file=folder / STAGE_FILE,
            )
        if not can_run_here(folder, self.spec):
            raise ConfigError(
                "its graphs are compiled for a chip, and versions are compared on a CPU: compare the version that "
                "they were converted from, or let a rollout with a shadow arm compare them where the chip is",
                file=folder / STAGE_FILE,
            )
        self.size_bytes = sum((folder / graph.file).stat().st_size for graph in self.spec.graphs.values())
        self.cpu_s = 0.0
        self._encoder: _Durations | None = None
        self._program = self._load()

    def _load(self) -> Program:
        _use_backends()
        # parts of the backend, whose folder has only just been put on the path
        from om_backend.programs.direct import DirectProgram
        from om_backend.programs.length_regulated import LengthRegulatedProgram
        from om_backend.programs.windowed import WindowedProgram
        from om_backend.runtime import RuntimeSettings, load_graph

        settings = RuntimeSettings(threads=1, opening_threads=1)
        graphs: dict[str, Any] = {}
        for name, spec in self.spec.graphs.items():
            file = self.folder / spec.file
            graph = _EmulatedGraph(file, spec) if spec.device == "npu" else load_graph(self.folder, spec, settings)
            graphs[name] = (_Durations if name == "encoder" else _Measured)(graph, self._spent)
        # one unit a call: an utterance's samples do not depend on how units were packed, and times compare
        if isinstance(self.spec, LengthRegulatedStage):
            self._encoder = graphs["encoder"]
            return LengthRegulatedProgram(self.spec, graphs, unit_batch=1)
        if isinstance(self.spec, DirectStage):
            return DirectProgram(self.spec, graphs, unit_batch=1)
        assert isinstance(self.spec, WindowedStage)
        return WindowedProgram(self.spec, graphs, unit_batch=1)

    def _spent(self, seconds: float) -> None:
        self.cpu_s += seconds

    def _run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        from om_backend.job import Job

        answers: list[Mapping[str, Array]] = []
        errors: list[VoxrepoError] = []
        self._program.run([Job(inputs, {}, answers.append, errors.append)])
        if errors:
            raise errors[0]
        return answers[0]

    @property
    def takes_durations(self) -> bool:
        """Whether the durations of an acoustic stage can be given; those of one whole graph cannot."""
        return self._encoder is not None

    @property
    def rounding(self) -> Rounding:
        """How an acoustic stage makes whole frames of durations, at its own speed."""
        if not isinstance(self.spec, LengthRegulatedStage):
            return np.rint  # its durations are not known
        options = self.spec.options
        nearest = options.expansion == "repeat"
        scale = np.float32(options.length_scale)
        return lambda durations: np.rint(durations * scale) if nearest else np.ceil(durations * scale)

    def features(
        self, phonemes: Phonemes, seed: int, durations: Mapping[bytes, npt.NDArray[np.float32]] | None = None
    ) -> Features:
        """Speak phonemes, as an acoustic stage.

        Args:
            phonemes: to be spoken.
            seed: of the noise.
            durations: of all segments, instead of the encoder's own; see :class:`Features`. None if the stage does not
                take any.

        Raises:
            VoxrepoError: it cannot.
        """
        encoder = self._encoder
        if encoder is not None:
            encoder.noted, encoder.forced = {}, durations
        else:
            assert durations is None
        outputs = self._run(
            {
                "phoneme_ids": phonemes.ids[np.newaxis],
                "segment_lengths": phonemes.segment_lengths[np.newaxis],
                "pause_ms": phonemes.pause_ms[np.newaxis],
                "speed": np.ones((1, 1), np.float32),
                "speaker_id": np.array([[phonemes.speaker_id]], np.int64),
                "seed": np.array([[seed]], np.int64),
            }
        )
        noted = durations if durations is not None else encoder.noted if encoder is not None else {}
        return Features(outputs["features"][0], outputs["frame_lengths"][0], outputs["pause_ms"][0], dict(noted))

    def audio(self, features: Features) -> Audio:
        """Sound features, as a vocoder: INT16 [N].

        Raises:
            VoxrepoError: it cannot; the audio is silent, for example.
        """
        outputs = self._run(
            {
                "features": features.values[np.newaxis],
                "frame_lengths": features.frame_lengths[np.newaxis],
                "pause_ms": features.pause_ms[np.newaxis],
            }
        )
        audio: Audio = outputs["audio"][0]
        return audio


class OfflineFrontEnd:
    """A version of a voice's text front end; ends with :meth:`close`.

    Args:
        folder: with ``stage.yaml``.

    Raises:
        ConfigError: a file is wrong, or what the front end needs is not installed.
        Unavailable: its phonemizer does not start.
    """

    def __init__(self, folder: Path) -> None:
        _use_backends()
        from text_backend.build import build_front_end

        spec = read_stage(folder)
        if not isinstance(spec, TextFrontendStage):
            raise ConfigError(f"program: is {spec.program!r}, expected 'text_frontend'", file=folder / STAGE_FILE)
        self._built: Built = build_front_end(folder)

    def phonemes(self, text: str, speaker: str) -> Phonemes:
        """Read a text.

        Raises:
            InvalidArgument: the front end refuses it.
            Unavailable: it could not read it.
        """
        said = self._built.front_end.run(text, 1.0, speaker)
        return Phonemes(said.phoneme_ids, said.segment_lengths, said.pause_ms, said.speaker_id)

    def close(self) -> None:
        """End its phonemizer."""
        self._built.close()
