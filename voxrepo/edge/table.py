"""The table of voices: the one file through which the supervisor tells the edge what is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from voxrepo.rollout.route import STABLE_ARM, Route
from voxrepo_contract.errors import ConfigError
from voxrepo_contract.yamlfile import StrictModel, write_text_atomically

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.1
MAX_TABLE_BYTES = 16 * 1024 * 1024


class VoiceEntry(StrictModel):
    """What the edge must know of a voice to check requests and describe it.

    Attributes:
        name: model name that clients call.
        language: language tag of the voice, such as ``en-US``.
        sample_rate_hz: rate of the audio.
        speakers: names that the input ``speaker`` may have, the default first.
        max_text_chars: longest text, in Unicode code points.
        speed_min: slowest accepted ``speed``.
        speed_max: fastest accepted ``speed``.
        versions: version of each stage that the voice's ensemble pins.
        channels: features per frame, between the acoustic stage and the vocoder.
        hop_length_samples: audio samples of a frame.
        window_frames: the vocoder's longest window.
        overlap_frames: frames that it computes and discards at each inner edge of a window.
        first_window_frames: the window that begins a segment; ``window_frames`` where there is no shorter one.
        arm: of the voice that this is; ``stable`` for the voice itself.
        voice: the voice that it is an arm of, whose stages it uses; empty for the voice itself.
        engine_model: the ensemble that makes its audio; empty if it has this entry's name. While a voice is given other
            versions, another ensemble serves it for a moment.
    """

    name: str
    language: str
    sample_rate_hz: Annotated[int, Field(ge=1)]
    speakers: list[str] = Field(min_length=1)
    max_text_chars: Annotated[int, Field(ge=1)]
    speed_min: Annotated[float, Field(gt=0)]
    speed_max: Annotated[float, Field(gt=0)]
    versions: dict[str, int]
    channels: Annotated[int, Field(ge=1)]
    hop_length_samples: Annotated[int, Field(ge=1)]
    window_frames: Annotated[int, Field(ge=1)]
    overlap_frames: Annotated[int, Field(ge=0)]
    first_window_frames: Annotated[int, Field(ge=1)]
    arm: str = STABLE_ARM
    voice: str = ""
    engine_model: str = ""

    @property
    def base(self) -> str:
        """The voice whose stages it uses."""
        return self.voice or self.name

    @property
    def ensemble(self) -> str:
        """The engine's model that makes its audio."""
        return self.engine_model or self.name

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> VoiceEntry:
        if self.speed_min > self.speed_max:
            raise ValueError(f"speed_min {self.speed_min} exceeds speed_max {self.speed_max}")
        return self

    @model_validator(mode="after")
    def _windows_yield_audio(self) -> VoiceEntry:
        if not 2 * self.overlap_frames < self.first_window_frames <= self.window_frames:
            raise ValueError(
                f"first_window_frames {self.first_window_frames} must exceed twice overlap_frames "
                f"({self.overlap_frames}) and be at most window_frames ({self.window_frames})"
            )
        return self


class Problem(StrictModel):
    """A model that is in the repository but not served, and why; with a version, only that one is not."""

    model: str
    reason: str
    version: str = ""


class EdgeTable(StrictModel):
    """All that the edge needs from the supervisor.

    Attributes:
        generation: grows with every change.
        ready: whether everything that can be served is; readiness of the server.
        voices: voices that are served, by name; an arm of a rollout is one more, ``<voice>.<arm>``.
        routes: how requests for a voice are divided among its arms; none for those without a rollout.
        loading: models that are about to be served.
        held: voices that are being recovered; requests for them wait for a while instead of being refused.
        draining: voices whose versions are about to be exchanged: requests that have begun go on, later ones wait.
        reloads: how often the supervisor has loaded a model again because its process had died; calls from before will
            be answered late or never.
        edge_workers: numbers of the edge processes that serve; limits of the server are divided among these.
        engine_calls: calls at a time that keep a model's instances busy; more wait at the edge.
        engine_pools: calls at a time to all models of a voice together, where these share the cores of a CPU.
        problems: what is not served, and why.
        unserved_voices: those of ``loading`` and ``problems`` that are voices, and hence have a stream.
        device: what graphs with ``device: npu`` run on; ``cpu`` if such graphs are refused.
    """

    generation: Annotated[int, Field(ge=0)]
    ready: bool = True
    device: Literal["cpu", "npu", "emulator"] = "cpu"
    voices: dict[str, VoiceEntry] = Field(default_factory=dict)
    routes: dict[str, Route] = Field(default_factory=dict)
    loading: list[str] = Field(default_factory=list)
    held: list[str] = Field(default_factory=list)
    draining: list[str] = Field(default_factory=list)
    reloads: dict[str, int] = Field(default_factory=dict)
    edge_workers: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list)
    engine_calls: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    engine_pools: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    problems: list[Problem] = Field(default_factory=list)
    unserved_voices: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _keys_are_names(self) -> EdgeTable:
        for key, voice in self.voices.items():
            if key != voice.name:
                raise ValueError(f"voices.{key}: the name inside is {voice.name!r}; key and name must be equal")
        return self

    def pool_of(self, model: str) -> str | None:
        """The name in ``engine_pools`` of the places that calls of a voice, of its stages or of an arm's ensemble use.

        A voice that is not served for the moment has no row, but its calls may still run.
        """
        row = self.voices.get(model)
        names = (row.base,) if row is not None else (model, model.rpartition(".")[0])
        return next((name for name in names if name in self.engine_pools), None)


def read_table(file: Path) -> EdgeTable:
    """Read and validate the table.

    Raises:
        ConfigError: missing, unreadable, too large, not JSON, or outside the schema.
    """
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"the table cannot be read: {error.strerror}", file=file) from error
    if len(raw) > MAX_TABLE_BYTES:
        raise ConfigError(f"{len(raw)} bytes; the limit is {MAX_TABLE_BYTES}", file=file)
    try:
        return EdgeTable.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConfigError(f"{where}: {first['msg']}", file=file) from error


def write_table(file: Path, table: EdgeTable) -> None:
    """Replace the table in one step; edges notice within :data:`POLL_INTERVAL_S`."""
    write_text_atomically(file, table.model_dump_json(indent=1))


class TableWatcher:
    """Holds the current table and follows changes of its file.

    Args:
        file: the table.
        interval_s: seconds between looks at the file.

    Raises:
        ConfigError: the table cannot be read at the start.
    """

    def __init__(self, file: Path, interval_s: float = POLL_INTERVAL_S) -> None:
        self._file = file
        self._interval_s = interval_s
        self._stamp = self._stamp_of_file()
        self.table = read_table(file)

    def _stamp_of_file(self) -> tuple[int, int, int] | None:
        try:
            status = self._file.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def refresh(self) -> bool:
        """Re-read the table if its file changed. A bad file is logged once and the table in use is kept.

        Returns:
            whether a new table was taken.
        """
        stamp = self._stamp_of_file()
        if stamp == self._stamp:
            return False
        self._stamp = stamp  # before the read: a replacement during the read shows as a change next time
        try:
            table = read_table(self._file)
        except ConfigError as error:
            log.error("the new table is not used, generation %d stays: %s", self.table.generation, error)
            return False
        log.info("table generation %d: %d voices", table.generation, len(table.voices))
        self.table = table
        return True

    async def follow(self, taken: Callable[[EdgeTable], None] = lambda table: None) -> None:
        """Look at the file for ever, off the event loop's thread; tell ``taken`` of every new table."""
        while True:
            await asyncio.sleep(self._interval_s)
            if await asyncio.to_thread(self.refresh):
                taken(self.table)
