"""What a server needs on any machine: Python, engine, onnxruntime, phonemizer, memory and disk."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from pathlib import Path

from voxrepo.doctor.machine import Machine
from voxrepo.doctor.report import Finding, ok, problem, warning
from voxrepo.engine.binary import find_engine
from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import ConfigError

PYTHONS = ((3, 10), (3, 12))
SHM = "/dev/shm"  # noqa: S108  where Linux keeps POSIX shared memory
SHM_NEEDED_BYTES = 128 << 20
"""Docker gives a container 64 MiB, in which the stages' shared memory does not fit."""

SHM_COMFORTABLE_BYTES = 512 << 20
DISK_NEEDED_BYTES = 64 << 20
DISK_COMFORTABLE_BYTES = 1 << 30
ESPEAK_PACKAGE = "piper-tts"


def check_python(version: tuple[int, int] = sys.version_info[:2]) -> list[Finding]:
    """Whether this Python is one that is tested."""
    low, high = PYTHONS
    text = f"Python {version[0]}.{version[1]}."
    if low <= version <= high:
        return [ok("python", text)]
    span = f"{low[0]}.{low[1]} to {high[0]}.{high[1]}"
    return [problem("python", f"{text} voxrepo runs on {span}.", f"Make an environment with a Python from {span}.")]


def check_engine(engine: Path | None) -> list[Finding]:
    """Whether there is a tritonserver."""
    try:
        return [ok("engine", f"tritonserver of {find_engine(engine).source}.")]
    except ConfigError as error:
        return [problem("engine", f"{error.message[:1].upper()}{error.message[1:]}.")]


def check_onnxruntime() -> list[Finding]:
    """Whether CPU graphs can run."""
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError as error:
        advice = "Install it again: pip install 'onnxruntime>=1.23,<1.24'"
        return [problem("onnxruntime", f"onnxruntime does not import: {error}.", advice)]
    providers = ", ".join(runtime.get_available_providers())
    return [ok("onnxruntime", f"onnxruntime {runtime.__version__} ({providers}).")]


def check_espeak(needed_by: list[str]) -> list[Finding]:
    """Whether the phonemizer is there that voices need.

    Args:
        needed_by: names of the voices that need it.
    """
    try:
        version = importlib.metadata.version(ESPEAK_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        if needed_by:
            text = f"The espeak phonemizer is not installed, which {', '.join(needed_by)} cannot speak without."
            return [problem("espeak", text, "Run: pip install 'voxrepo[espeak]'")]
        return [ok("espeak", "The espeak phonemizer is not installed; no voice here needs it.")]
    return [ok("espeak", f"The espeak phonemizer is here ({ESPEAK_PACKAGE} {version}).")]


def check_space(machine: Machine, layout: Layout) -> list[Finding]:
    """Free shared memory, and free disk where the server writes."""
    return [
        _space(
            "shared memory",
            "shared memory",
            machine.free_bytes(machine.at(SHM)),
            SHM_NEEDED_BYTES,
            SHM_COMFORTABLE_BYTES,
            "In a container, give it more: docker run --shm-size=1g.",
        ),
        _space(
            "disk",
            f"disk for {layout.state}",
            machine.free_bytes(layout.state),
            DISK_NEEDED_BYTES,
            DISK_COMFORTABLE_BYTES,
            "Make room, or choose another place with --state-dir.",
        ),
    ]


def _space(check: str, what: str, free: int | None, needed: int, comfortable: int, advice: str) -> Finding:
    if free is None:
        return warning(check, f"How much {what} is free cannot be told.")
    text = f"{free / (1 << 20):.0f} MiB of {what} free"
    if free < needed:
        return problem(check, f"Only {text}; at least {needed >> 20} MiB are needed.", advice)
    if free < comfortable:
        return warning(check, f"Only {text}; {comfortable >> 20} MiB are comfortable.", advice)
    return ok(check, f"{text}.")
