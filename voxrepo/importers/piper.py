"""Importing a Piper voice."""

from __future__ import annotations

from pathlib import Path

from voxrepo.importers.piper_config import PhonemizerName, default_phonemizer, language_tag, read_config
from voxrepo.importers.requirements import require_onnx
from voxrepo.importers.result import Progress, VoiceImport
from voxrepo_contract.errors import ConfigError


def import_piper(
    onnx_file: Path,
    config_file: Path,
    out: Path,
    *,
    language: str | None = None,
    licence: str | None = None,
    phonemizer: PhonemizerName | None = None,
    progress: Progress = lambda _message, _share: None,
) -> VoiceImport:
    """Cut a Piper voice into the stages of a voxrepo voice, and prove the cut.

    Writes the version directories ``text_frontend``, ``acoustic`` and ``vocoder`` into ``out``. The same input gives
    the same bytes. ``out`` should be a temporary folder that is moved into place afterwards: after an error it may
    hold a part.

    Args:
        onnx_file: the voice's graph.
        config_file: the ``.onnx.json`` beside it.
        out: folder for the stages; made if it is not there.
        language: BCP 47 tag, for a configuration without one or to overrule it.
        licence: text about the voice's licence to keep in ``provenance``.
        phonemizer: that the voice reads with; by default ``cmudict`` for American English, else ``espeak``.
        progress: is told a sentence and the share done, 0 to 1.

    Raises:
        ConfigError: a file is missing or wrong, or the extra ``convert`` is not installed.
        ConversionRefused: the graph cannot be cut, or its cut cannot be proved to be exact.
        AlreadyExists: ``out`` holds one of the stages already.
    """
    if not onnx_file.exists():  # said before its JSON is missed
        raise ConfigError("no such file; name the .onnx of a Piper voice", file=onnx_file)
    require_onnx()
    # onnx is optional: what needs it is imported only once it is known to be there
    from voxrepo.importers.piper_stages import build_stages

    config = read_config(config_file)
    tag = language_tag(config, language, config_file)
    try:
        return build_stages(
            onnx_file,
            config_file,
            config,
            out,
            language=tag,
            licence=licence,
            phonemizer=phonemizer or default_phonemizer(config, tag),
            progress=progress,
        )
    except OSError as error:
        raise ConfigError(f"cannot write the stages: {error.strerror or error}", file=error.filename or out) from error
