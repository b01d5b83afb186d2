"""The configuration of a voice of any make: whatever keys its training left, found by their usual names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from voxrepo.importers.generic_source import Source
from voxrepo_contract.errors import ConfigError

MAX_FILE_BYTES = 4 << 20
_MAX_DEPTH = 4

SAMPLE_RATE, HOP, BANDS = "sample_rate_hz", "hop_length_samples", "channels"
_KEYS: dict[str, tuple[str, ...]] = {
    SAMPLE_RATE: ("sample_rate_hz", "sample_rate", "sampling_rate", "samplerate", "fs", "sr"),
    HOP: ("hop_length_samples", "hop_length", "hop_size", "n_shift"),
    BANDS: ("channels", "num_mels", "n_mels", "n_mel_channels", "n_feats"),
    "noise_scale": ("noise_scale", "temperature"),
    "noise_w": ("noise_w", "noise_scale_w", "noise_scale_dur"),
    "length_scale": ("length_scale",),
    "speakers": ("speakers",),
    "num_speakers": ("num_speakers", "n_speakers", "n_spks", "spk_num"),
    "mel_scale": ("mel_scale",),
    "mel_shift": ("mel_shift",),
}


@dataclass(frozen=True)
class Said:
    """A value and who says it, for messages."""

    value: Any
    where: str


class VoiceFacts:
    """What files say of a voice: the configuration, and the graphs' own metadata.

    Args:
        config: file in YAML or JSON; ``None`` if there is none.
        graphs: acoustic graph and vocoder.

    Raises:
        ConfigError: the file cannot be read.
    """

    def __init__(self, config: Path | None, graphs: Mapping[str, Source]) -> None:
        self._said: dict[str, list[Said]] = {}
        if config is not None:
            for key, value in _walk(_read(config), 0):
                self._note(key.rsplit(".", maxsplit=1)[-1], value, f"{config.name}: {key}")
        for what, source in graphs.items():
            for name, value in source.metadata.items():
                self._note(name, value, f"the {what}'s own {name}")

    def _note(self, key: str, value: Any, where: str) -> None:
        for fact, names in _KEYS.items():
            if key.lower() in names and value is not None:
                self._said.setdefault(fact, []).append(Said(value, where))

    def number(self, fact: str, low: float, high: float) -> Said | None:
        """A number that all files agree on, ``None`` if none says it.

        Raises:
            ConfigError: two files differ, or it is out of its range.
        """
        found: Said | None = None
        for said in self._said.get(fact, []):
            try:
                value = float(said.value)
            except (TypeError, ValueError):
                if fact == "speakers":
                    continue
                raise ConfigError(f"{said.where} is {said.value!r}; a number is expected") from None
            if not low <= value <= high:
                raise ConfigError(f"{said.where} is {value:g}; it must be from {low:g} to {high:g}")
            if found is not None and found.value != value:
                raise ConfigError(
                    f"{found.where} is {found.value:g} and {said.where} is {value:g}; acoustic graph and vocoder must "
                    "be made for the same one, and a configuration that holds both must be given without the wrong one"
                )
            found = found or Said(value, said.where)
        return found

    def names(self) -> list[str] | None:
        """Names of speakers, if a file lists them."""
        for said in self._said.get("speakers", []):
            if isinstance(said.value, list) and all(isinstance(name, str) and name for name in said.value):
                return list(said.value)
        return None


def _read(file: Path) -> Any:
    try:
        raw = file.read_bytes()
        if len(raw) > MAX_FILE_BYTES:
            raise ConfigError(f"{len(raw)} bytes; the limit is {MAX_FILE_BYTES}", file=file)
        data = yaml.safe_load(raw.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=file) from error
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"not valid YAML or JSON: {error}", file=file) from error
    if not isinstance(data, dict):
        raise ConfigError("must hold keys and values", file=file)
    return data


def _walk(data: Mapping[Any, Any], depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            for inner, found in _walk(value, depth + 1):
                yield f"{key}.{inner}", found
        else:
            yield str(key), value
