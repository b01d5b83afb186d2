"""The process that holds espeak-ng. Run as a script, never imported by the server.

espeak-ng and its bridge in piper-tts are GPL-3.0 and can crash or loop on hostile input; both are reasons to keep
them in a process of their own. Protocol: one JSON object per line in UTF-8; first a line ``{"ready": version}`` or
``{"fault": kind, "detail": text}``, then for each line ``{"texts": [...]}`` on standard input one line
``{"clauses": [[[phonemes, terminator, ends_sentence], ...], ...]}`` or ``{"error": text}``. End of input ends it.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _die_with_parent(parent: int) -> None:
    # a worker that loops inside espeak-ng would never see the end of its input
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def _private_output() -> BinaryIO:
    """The answer channel; what native code prints to standard output goes to standard error instead."""
    channel = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(channel, "wb")


def _load_bridge() -> tuple[Any, Path]:
    """Load the bridge's extension module alone: the package around it imports onnxruntime (40 MB, 0.3 s)."""
    package = importlib.util.find_spec("piper")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("no module named 'piper'")
    folder = Path(next(iter(package.submodule_search_locations)))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        file = folder / f"espeakbridge{suffix}"
        if file.is_file():
            loader = importlib.machinery.ExtensionFileLoader("espeakbridge", str(file))
            spec = importlib.util.spec_from_loader("espeakbridge", loader)
            if spec is None:
                break
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            return module, folder / "espeak-ng-data"
    raise ModuleNotFoundError(f"no espeakbridge for Python {sys.version_info.major}.{sys.version_info.minor}")


def _send(output: BinaryIO, message: dict[str, Any]) -> None:
    output.write(json.dumps(message, ensure_ascii=False).encode("utf-8") + b"\n")
    output.flush()


def main(voice: str, parent: int) -> int:
    """Serve until standard input ends.

    Args:
        voice: espeak-ng voice name, e.g. ``en-us``.
        parent: process id of the owner; the worker dies with it.
    """
    _die_with_parent(parent)
    output = _private_output()
    try:
        bridge, data = _load_bridge()
    except ImportError as error:
        _send(output, {"fault": "missing", "detail": str(error)})
        return 1
    try:
        bridge.initialize(str(data))
        bridge.set_voice(voice)
    except Exception as error:
        _send(output, {"fault": "voice", "detail": str(error)})
        return 1
    _send(output, {"ready": importlib.metadata.version("piper-tts")})
    for line in sys.stdin.buffer:
        try:
            texts = json.loads(line.decode("utf-8"))["texts"]
            answer: dict[str, Any] = {"clauses": [bridge.get_phonemes(text) for text in texts]}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        _send(output, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
