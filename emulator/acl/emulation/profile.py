"""How long a run takes on the device, by a profile file. Without one it takes no time.

    device time = share * (base_ms + per_batch_ms * batch) * max(length / reference_length, floor)

times ``beyond.factor`` above ``beyond.batch`` rows; ``batch`` is the first size of the first input of rank 2 or more,
``length`` the last size of that input which is longest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from voxrepo_contract.errors import ConfigError

_KEYS: Final = {"device", "source", "precisions", "default_precision", "length", "beyond", "shares", "default_share"}


@dataclass(frozen=True)
class Cost:
    """Milliseconds of a run of the whole pipeline at the reference length, by batch."""

    base_ms: float
    per_batch_ms: float


@dataclass(frozen=True)
class Profile:
    """Device times.

    Attributes:
        device: chip family the numbers are of; the emulated chip must belong to it.
        source: where the numbers come from.
        precisions: cost by the precision in the model's header.
        default_precision: used for other precisions.
        reference_length: length at which the costs hold.
        length_floor: least factor, since short runs are not free.
        beyond_batch: batches above this are slower by ``beyond_factor``; 0 for no such limit.
        shares: part of the pipeline that a graph is, by the last word of its name.
        default_share: for other graphs.
    """

    device: str = ""
    source: str = ""
    precisions: Mapping[str, Cost] | None = None
    default_precision: str = ""
    reference_length: float = 1.0
    length_floor: float = 0.0
    beyond_batch: int = 0
    beyond_factor: float = 1.0
    shares: Mapping[str, float] | None = None
    default_share: float = 1.0

    def duration_s(self, name: str, precision: str, shapes: Sequence[tuple[int, ...]]) -> float:
        """Seconds of device time of one run of a graph on inputs of these shapes."""
        if not self.precisions:
            return 0.0
        cost = self.precisions.get(precision) or self.precisions[self.default_precision]
        ranked = [shape for shape in shapes if len(shape) >= 2]
        batch = ranked[0][0] if ranked else 1
        length = max((shape[-1] for shape in ranked), default=self.reference_length)
        share = (self.shares or {}).get(name.replace("-", ".").rpartition(".")[2], self.default_share)
        factor = max(length / self.reference_length, self.length_floor)
        if self.beyond_batch and batch > self.beyond_batch:
            factor *= self.beyond_factor
        return share * (cost.base_ms + cost.per_batch_ms * batch) * factor / 1e3

    def check_fits(self, soc: str, path: str | None) -> None:
        """Check that the numbers are of the emulated chip's family.

        Raises:
            ConfigError: they are not.
        """
        if path is not None and not soc.startswith(self.device):
            raise ConfigError(
                f"the profile is of {self.device}, the emulated device is {soc}; choose the profile of that family",
                file=path,
            )

    @staticmethod
    def load(path: str | None) -> Profile:
        """Read a profile file (YAML, or JSON by its suffix).

        Raises:
            ConfigError: it is missing or wrong; names the key.
        """
        if path is None:
            return Profile()
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the device profile cannot be read: {error.strerror}", file=file) from error
        return parse(_decode(text, file), file)


def _decode(text: str, file: Path) -> Any:
    if file.suffix == ".json":
        try:
            return json.loads(text)
        except ValueError as error:
            raise ConfigError(f"not JSON: {error}", file=file) from error
    import yaml  # only here: a worker under CANN's Python may lack it and gets its profile as JSON

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}", file=file) from error


def parse(value: Any, file: Path | None = None) -> Profile:
    """Check a profile.

    Raises:
        ConfigError: names the key at fault.
    """
    reader = _Reader(file)
    top = reader.mapping(value, "the profile", _KEYS)
    precisions = {
        str(name): Cost(
            reader.number(cost, "base_ms", f"precisions.{name}"),
            reader.number(cost, "per_batch_ms", f"precisions.{name}"),
        )
        for name, cost in reader.mapping(top.get("precisions"), "precisions").items()
        if reader.mapping(cost, f"precisions.{name}", {"base_ms", "per_batch_ms"})
    }
    default = reader.text(top, "default_precision")
    if default not in precisions:
        raise ConfigError(f"default_precision: {default!r} is none of {', '.join(sorted(precisions))}", file=file)
    length = reader.mapping(top.get("length", {"reference": 1, "floor": 1}), "length", {"reference", "floor"})
    beyond = reader.mapping(top.get("beyond", {"batch": 0, "factor": 1}), "beyond", {"batch", "factor"})
    shares = reader.mapping(top.get("shares", {}), "shares")
    reference = reader.number(length, "reference", "length")
    if reference <= 0:
        raise ConfigError("length.reference: must be greater than 0", file=file)
    return Profile(
        device=reader.text(top, "device"),
        source=reader.text(top, "source"),
        precisions=precisions,
        default_precision=default,
        reference_length=reference,
        length_floor=reader.number(length, "floor", "length"),
        beyond_batch=int(reader.number(beyond, "batch", "beyond")),
        beyond_factor=reader.number(beyond, "factor", "beyond"),
        shares={str(name): reader.number(shares, name, "shares") for name in shares},
        default_share=reader.number(top, "default_share", "") if "default_share" in top else 1.0,
    )


@dataclass(frozen=True)
class _Reader:
    file: Path | None

    def mapping(self, value: Any, where: str, keys: set[str] | None = None) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: a mapping is expected, got {value!r}", file=self.file)
        for key in value:
            if keys is not None and key not in keys:
                raise ConfigError(f"{where}: unknown key {key!r}; known are {', '.join(sorted(keys))}", file=self.file)
        return value

    def text(self, value: Mapping[str, Any], key: str) -> str:
        found = value.get(key)
        if not isinstance(found, str) or not found:
            raise ConfigError(f"{key}: a text is required, got {found!r}", file=self.file)
        return found

    def number(self, value: Mapping[str, Any], key: str, where: str) -> float:
        name = f"{where}.{key}" if where else key
        found = value.get(key)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found < 1e9:
            raise ConfigError(f"{name}: a number of 0 or more is required, got {found!r}", file=self.file)
        return float(found)
