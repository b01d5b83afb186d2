"""Which of a server's models are voices, and what is known about them: pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from voxrepo_client.errors import BadResponse
from voxrepo_client.protocol import parse_versions

PARAMETER_PREFIX = "voxrepo."
"""Details of a voice are parameters of its model configuration, under this prefix."""


@dataclass(frozen=True)
class VoiceInfo:
    """A voice as its server describes it; what the server does not say is ``None`` or empty.

    Attributes:
        name: model name, what :class:`~voxrepo_client.Voice` takes.
        language: BCP 47 tag, e.g. ``en-US``.
        sample_rate_hz: of the audio.
        speakers: names, the default first.
        max_text_chars: longest text of one request, in characters.
        versions: version of each stage.
    """

    name: str
    language: str | None = None
    sample_rate_hz: int | None = None
    speakers: tuple[str, ...] = ()
    max_text_chars: int | None = None
    versions: dict[str, int] = field(default_factory=dict)


def ready_names(index: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of the models of a repository index that have a version in state READY, sorted."""
    return sorted({str(entry["name"]) for entry in index if entry.get("state") == "READY" and "name" in entry})


def is_voice(metadata: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether a model is called as voices are: text in, audio and its sample rate out, one answer per request."""
    inputs = {tensor.get("name") for tensor in metadata.get("inputs", [])}
    outputs = {tensor.get("name") for tensor in metadata.get("outputs", [])}
    decoupled = (config.get("model_transaction_policy") or {}).get("decoupled", False)
    return "text" in inputs and {"audio", "sample_rate"} <= outputs and not decoupled


def _integer(name: str, value: str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except ValueError as error:
        raise BadResponse(f"{PARAMETER_PREFIX}{name} is {value!r}; expected an integer") from error


def voice_info(name: str, config: Mapping[str, Any]) -> VoiceInfo:
    """The details in a voice's model configuration.

    Raises:
        BadResponse: a parameter is not of its documented form.
    """
    values: dict[str, str] = {
        key.removeprefix(PARAMETER_PREFIX): str((value or {}).get("string_value", ""))
        for key, value in (config.get("parameters") or {}).items()
        if key.startswith(PARAMETER_PREFIX)
    }
    try:
        speakers = json.loads(values.get("speakers", "[]"))
    except ValueError:
        speakers = None
    if not isinstance(speakers, list) or not all(isinstance(speaker, str) for speaker in speakers):
        raise BadResponse(f"{PARAMETER_PREFIX}speakers is {values.get('speakers')!r}; expected a JSON list of names")
    return VoiceInfo(
        name=name,
        language=values.get("language") or None,
        sample_rate_hz=_integer("sample_rate_hz", values.get("sample_rate_hz")),
        speakers=tuple(speakers),
        max_text_chars=_integer("max_text_chars", values.get("max_text_chars")),
        versions=parse_versions(values.get("versions")),
    )
