"""Settings of the emulator, from the JSON file that ``VOXREPO_EMULATOR_SETTINGS`` names."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from voxrepo_contract import environment as variables
from voxrepo_contract.errors import ConfigError

_GIB: Final = 1 << 30
_MEMORY_BYTES: Final = {
    "Ascend310B": 8 * _GIB,
    "Ascend310P": 24 * _GIB,
    "Ascend910B4": 32 * _GIB,
    "Ascend910A": 32 * _GIB,
}
_DEFAULT_MEMORY_BYTES: Final = 64 * _GIB

_TYPES: Final = {"str": (str,), "int": (int,), "bool": (bool,), "str | None": (str, type(None))}


@dataclass(frozen=True)
class Settings:
    """What the emulated machine is like.

    Attributes:
        soc: chip name, as ``acl.get_soc_name`` gives it.
        device_count: number of devices.
        device_memory_bytes: memory of each; 0 takes that of the chip.
        memory_file: file in which the emulator's processes on this machine count the memory that they take of the
            devices; without one each process has the devices to itself.
        old_cann: leave out the functions that older CANN versions lack.
        strict: record as violations also what the real runtime lets pass, e.g. a memcpy kind that is not that of the
            addresses.
        profile: file with device times, see ``profile.py``; without one a run takes no device time.
        report_dir: directory for one JSON-lines file per process; without one violations go to stderr.
        fault_dir: directory watched for injected faults.
        compute: run the graphs; otherwise outputs are a ramp of the right shape, for measuring host cost only.
        run_mode: 1 host with a card, 0 device side: host and device memory are the same.
        vnpu: the device is a slice of a chip, which runs only files built for slices.
        opp_version: operator package, which a range model must match.
        cann_version: as ``acl.get_cann_version`` gives it.
        already_initialised: another library of the process has called ``acl.init`` before.
    """

    soc: str = "Ascend910B3"
    device_count: int = 1
    device_memory_bytes: int = 0
    memory_file: str | None = None
    old_cann: bool = False
    strict: bool = True
    profile: str | None = None
    report_dir: str | None = None
    fault_dir: str | None = None
    compute: bool = True
    run_mode: int = 1
    vnpu: bool = False
    opp_version: str = "8.2.RC1"
    cann_version: str = "8.2.RC1"
    already_initialised: bool = False

    @property
    def capacity_bytes(self) -> int:
        """Memory of each device."""
        if self.device_memory_bytes:
            return self.device_memory_bytes
        return next(
            (size for prefix, size in _MEMORY_BYTES.items() if self.soc.startswith(prefix)), _DEFAULT_MEMORY_BYTES
        )


def parse(value: Any, file: Path | None = None) -> Settings:
    """Check the settings of a JSON object.

    Raises:
        ConfigError: an unknown key, or a value of a wrong type or out of range.
    """
    if not isinstance(value, Mapping):
        raise ConfigError("the emulator's settings must be a JSON object", file=file)
    known = {item.name: str(item.type) for item in fields(Settings)}
    for key, found in value.items():
        if key not in known:
            raise ConfigError(f"{key!r} is no setting of the emulator; known are {', '.join(sorted(known))}", file=file)
        kinds = _TYPES[known[key]]
        if not isinstance(found, kinds) or (isinstance(found, bool) and bool not in kinds):
            raise ConfigError(f"{key}: {known[key]} expected, got {found!r}", file=file)
    settings = Settings(**value)
    if settings.device_count < 0 or settings.device_memory_bytes < 0:
        raise ConfigError("device_count and device_memory_bytes cannot be negative", file=file)
    if settings.run_mode not in (0, 1):
        raise ConfigError(f"run_mode: 0 (device) or 1 (host) expected, got {settings.run_mode}", file=file)
    return settings


def load() -> Settings:
    """The settings of this process; defaults where the environment names no file.

    Raises:
        ConfigError: the file is missing or wrong.
    """
    name = os.environ.get(variables.EMULATOR_SETTINGS, "")
    if not name:
        return Settings()
    file = Path(name)
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the emulator's settings cannot be read: {error.strerror}", file=file) from error
    except ValueError as error:
        raise ConfigError(f"the emulator's settings are not JSON: {error}", file=file) from error
    return parse(value, file)
