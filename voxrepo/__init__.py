"""A versioned Triton model repository for text-to-speech."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("voxrepo")
except PackageNotFoundError:  # pragma: no cover - a source tree without an installation
    __version__ = "0+unknown"
