"""The files of a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from voxrepo_contract.errors import ConfigError
from voxrepo_contract.yamlfile import write_text_atomically


def write_files(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write them, each in one step; the folder is made if missing, files that are there are replaced.

    Returns:
        the files.

    Raises:
        ConfigError: one cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_text_atomically(folder / name, text)
    except OSError as error:
        raise ConfigError(f"the report cannot be written: {error.strerror or error}", file=folder) from error
    return [folder / name for name in texts]
