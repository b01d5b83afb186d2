"""What a request of a voice under a rollout leaves behind, to be written down and perhaps spoken again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from voxrepo.edge.assigning import Assignment
from voxrepo.edge.validation import VoiceCall
from voxrepo.metrics.accounting import RequestRecord
from voxrepo.quality.levels import measure_levels
from voxrepo.rollout.plan import RequestSeen

Samples = bytes | npt.NDArray[np.int16]


@dataclass
class Seen:
    """One request on its way.

    Attributes:
        assignment: who serves it.
        streamed: whether it is a stream.
        call: the request once it has been checked.
        audio: what was answered so far, INT16.
    """

    assignment: Assignment
    streamed: bool
    call: VoiceCall | None = None
    audio: list[Samples] = field(default_factory=list)


def joined(audio: list[Samples]) -> npt.NDArray[np.int16]:
    """All of the audio, INT16 [N]."""
    parts = [np.frombuffer(part, "<i2") if isinstance(part, bytes) else part for part in audio]
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)


@dataclass(frozen=True)
class Ended:
    """A request that has ended, as the event loop leaves it; the rest is worked out elsewhere.

    Attributes:
        facts: of :class:`RequestSeen`, but those of the audio.
        audio: what was answered, INT16; nothing if that is not known.
        sample_rate_hz: of it.
    """

    facts: dict[str, Any]
    audio: list[Samples]
    sample_rate_hz: int

    @property
    def audio_bytes(self) -> int:
        """Memory that it holds."""
        return sum(len(part) if isinstance(part, bytes) else part.nbytes for part in self.audio)

    def measured(self) -> RequestSeen:
        """With the measures of its audio; takes about a millisecond for 10 s of it."""
        facts = dict(self.facts)
        if self.audio:
            levels = measure_levels(joined(self.audio), self.sample_rate_hz)
            facts |= {
                "audio_s": levels.duration_s,
                "level_dbfs": levels.level_dbfs,
                "peak_dbfs": levels.peak_dbfs,
                "clipped_ratio": levels.clipped_ratio,
                "silence_ratio": levels.silence_ratio,
            }
        return RequestSeen(**facts)


def ended(seen: Seen, record: RequestRecord, seconds: float, copy_of: str = "") -> Ended:
    """What is kept of a request.

    Args:
        seen: the request.
        record: its account.
        seconds: that it took.
        copy_of: arm of the original, if it is a copy.
    """
    assignment = seen.assignment
    facts = {
        "at": time.time(),
        "rollout": assignment.route.rollout if assignment.route is not None else "",
        "voice": assignment.entry.base,
        "arm": assignment.arm,
        "outcome": record.outcome,
        "copy_of": copy_of,
        "pinned": assignment.pinned,
        "streamed": seen.streamed,
        "text_chars": record.text_chars,
        "latency_s": seconds,
        "first_piece_s": record.first_piece_s,
        "engine_s": record.engine_s,
        "underruns": record.underruns,
        "audio_s": record.audio_s,
    }
    # of an answer that did not go through, the audio is no measure of the arm
    return Ended(facts, list(seen.audio) if record.outcome == "ok" else [], assignment.entry.sample_rate_hz)
