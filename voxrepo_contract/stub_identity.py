"""What a stub says of itself: ``<folder>/<pid>.json`` with its model and version.

The command line that the engine gives a stub names the model's instance, and nothing outside the engine tells which
version of the model it runs. So each stub writes it down before it loads anything, for whoever finds it dead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from voxrepo_contract.environment import STUBS_DIR


def identify(model: str, version: str, environment: Mapping[str, str] = os.environ) -> None:
    """Write down what this process runs; nothing is done where nobody asks for it.

    A folder that cannot be written is no reason not to serve: the process is then one whose version is not known.

    Args:
        model: name of the model.
        version: number of the version, as the engine gives it.
        environment: that names the folder.
    """
    folder = environment.get(STUBS_DIR)
    if not folder:
        return
    file = Path(folder) / f"{os.getpid()}.json"
    partial = file.with_suffix(".part")
    try:
        partial.write_text(json.dumps({"model": model, "version": int(version)}), encoding="ascii")
        partial.replace(file)
    except (OSError, ValueError):
        return


def version_of(folder: Path, pid: int, model: str) -> int | None:
    """Version that a stub runs; ``None`` if it has not said so, or another process had its number before.

    Args:
        folder: in which stubs identify themselves.
        pid: of the stub.
        model: that it belongs to, by its command line.
    """
    try:
        facts = json.loads((folder / f"{pid}.json").read_bytes())
        return int(facts["version"]) if facts["model"] == model else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
