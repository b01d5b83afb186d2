"""Texts longer than one request may be: cut at the best places, spoken in order, joined.

The server takes ``max_text_chars`` characters per request and splits sentences itself; cutting here serves whole
documents only. Nothing but white space at the cuts is left out.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from voxrepo_client.errors import InvalidRequest
from voxrepo_client.speech import Speech, join
from voxrepo_client.streaming import SpeechStream
from voxrepo_client.voice import Voice

DEFAULT_MAX_TEXT_CHARS = 4096
"""Limit of a server that does not say its own."""

PARAGRAPH_PAUSE_MS = 400
SENTENCE_PAUSE_MS = 150
"""Silence at a cut, at speed 1: what voices use by default between the parts of one request. After the last sentence
of a request the server adds none, so that it falls to whoever joins."""

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE = re.compile(r"""[.!?…]+["'”’»)\]]*\s+|[。！？]+[”’」』）]*\s*""")
_CLAUSE = re.compile(r"[,;:–—][\"'”’»)\]]*\s+|[，、；：]\s*")
_WORD = re.compile(r"\s+")
# "Dr. ", "J. ", "U.S. ": rarely the end of a sentence
_ABBREVIATION = re.compile(r"(?:\b[A-Z][a-z]{0,2}|\b(?:\w\.)+\w)\.\s+\Z")
_BOUNDARIES: tuple[tuple[re.Pattern[str], int], ...] = (
    (_PARAGRAPH, PARAGRAPH_PAUSE_MS),
    (_SENTENCE, SENTENCE_PAUSE_MS),
    (_CLAUSE, 0),
    (_WORD, 0),
)


@dataclass(frozen=True)
class Piece:
    """A part of a text.

    Attributes:
        text: without white space at its ends.
        pause_ms: silence after it, at speed 1.
    """

    text: str
    pause_ms: int


def _cut(text: str, start: int, limit: int) -> tuple[int, int]:
    # the last paragraph end in the window, else the last sentence end, and so on; a boundary in the first quarter
    # is left to the next kind, so that a title line does not become a request of its own
    window = text[start : start + limit]
    for pattern, pause_ms in _BOUNDARIES:
        ends = [
            match.end()
            for match in pattern.finditer(window)
            if match.end() > limit // 4 and not (pattern is _SENTENCE and _ABBREVIATION.search(window, 0, match.end()))
        ]
        if ends:
            return start + ends[-1], pause_ms
    end = start + limit
    # a combining mark stays with its letter
    while end > start + 1 and unicodedata.combining(text[end]):
        end -= 1
    return end, 0


def split_text(text: str, limit: int) -> list[Piece]:
    """Cut ``text`` into pieces of at most ``limit`` characters.

    Cuts fall at the ends of paragraphs, else of sentences, clauses, words, else anywhere.

    Returns:
        The pieces in order; none of them blank, hence none at all for a blank text.

    Raises:
        InvalidRequest: ``limit`` is not positive.
    """
    if limit < 1:
        raise InvalidRequest(f"the limit is {limit} characters; it must be at least 1")
    pieces: list[Piece] = []
    start = len(text) - len(text.lstrip())
    text = text.rstrip()
    while start < len(text):
        end, pause_ms = (len(text), 0) if len(text) - start <= limit else _cut(text, start, limit)
        piece = text[start:end].strip()
        if piece:
            pieces.append(Piece(piece, pause_ms))
        start = end + (len(text[end:]) - len(text[end:].lstrip()))
    return pieces


def plan_requests(
    voice: Voice, text: str, *, max_text_chars: int | None, seed: int | None, timeout_s: float | None
) -> tuple[list[Piece], int | None]:
    """The requests that a text takes, and the seed that all of them use.

    A text that fits into one request is sent as it is. A seed is drawn where several requests must share one.

    Raises:
        VoxrepoClientError: the voice's limit is not given and cannot be asked.
    """
    if max_text_chars is None:
        max_text_chars = voice.info(timeout_s).max_text_chars or DEFAULT_MAX_TEXT_CHARS
    # an empty list only for a blank text: the server's own words for it are the best ones
    pieces = [Piece(text, 0)] if len(text) <= max_text_chars else split_text(text, max_text_chars)
    pieces = pieces or [Piece(text, 0)]
    if len(pieces) > 1 and seed is None:
        seed = secrets.randbelow(2**31)
    return pieces, seed


def synthesize_long(
    voice: Voice,
    text: str,
    *,
    max_text_chars: int | None = None,
    speed: float = 1.0,
    speaker: str | None = None,
    seed: int | None = None,
    noise_scale: float | None = None,
    noise_w_scale: float | None = None,
    normalise: bool | None = None,
    timeout_s: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Speech, list[Speech]]:
    """Speak a text of any length, in as many requests as it takes, one after the other.

    All requests use one seed. A text that fits into one request is sent as it is.

    Args:
        voice: who speaks.
        text: of any length.
        max_text_chars: limit of one request; asked from the server where not given.
        speed: as of :meth:`Voice.synthesize`.
        speaker: as of :meth:`Voice.synthesize`.
        seed: as of :meth:`Voice.synthesize`; drawn here where several requests must share it.
        noise_scale: as of :meth:`Voice.synthesize`.
        noise_w_scale: as of :meth:`Voice.synthesize`.
        normalise: as of :meth:`Voice.synthesize`.
        timeout_s: limit for each request.
        on_progress: called with (characters done, characters in all) before the first request and after each.

    Returns:
        The joined speech, and the parts it was joined from.

    Raises:
        VoxrepoClientError: of the first request that fails; nothing is returned then.
    """
    pieces, seed = plan_requests(voice, text, max_text_chars=max_text_chars, seed=seed, timeout_s=timeout_s)
    total = sum(len(piece.text) for piece in pieces)
    done = 0
    parts: list[Speech] = []
    for piece in pieces:
        if on_progress is not None:
            on_progress(done, total)
        parts.append(
            voice.synthesize(
                piece.text,
                speed=speed,
                speaker=speaker,
                seed=seed,
                noise_scale=noise_scale,
                noise_w_scale=noise_w_scale,
                normalise=normalise,
                timeout_s=timeout_s,
            )
        )
        done += len(piece.text)
    if on_progress is not None:
        on_progress(done, total)
    return join(parts, [piece.pause_ms / speed for piece in pieces]), parts


def stream_long(
    voice: Voice,
    text: str,
    *,
    max_text_chars: int | None = None,
    speed: float = 1.0,
    speaker: str | None = None,
    seed: int | None = None,
    noise_scale: float | None = None,
    noise_w_scale: float | None = None,
    normalise: bool | None = None,
    timeout_s: float | None = None,
) -> Generator[tuple[SpeechStream, npt.NDArray[np.int16]], None, None]:
    """Stream a text of any length, in as many requests as it takes, one after the other.

    Joined, the pieces are what :func:`synthesize_long` returns. Arguments are as there; ``timeout_s`` limits each
    request. Closing the iterator ends the request in flight.

    Yields:
        Each piece with the stream that it came from; the silence between two requests counts to the first.

    Raises:
        VoxrepoClientError: of the first request that fails; ``received`` holds what came of that request.
    """
    pieces, seed = plan_requests(voice, text, max_text_chars=max_text_chars, seed=seed, timeout_s=timeout_s)
    for index, part in enumerate(pieces):
        with voice.stream(
            part.text,
            speed=speed,
            speaker=speaker,
            seed=seed,
            noise_scale=noise_scale,
            noise_w_scale=noise_w_scale,
            normalise=normalise,
            timeout_s=timeout_s,
        ) as stream:
            for samples in stream:
                yield stream, samples
        if index < len(pieces) - 1 and part.pause_ms:
            yield stream, np.zeros(round(part.pause_ms / speed * (stream.sample_rate_hz or 0) / 1000), np.int16)
