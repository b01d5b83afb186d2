"""``acl.prof``: accepted in the right order; nothing is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acl.emulation import codes
from acl.emulation.binding import call, handle_only
from acl.emulation.handles import Handled
from acl.emulation.state import ledger


@dataclass(eq=False)
class _Config(Handled):
    running: bool = False

    what = "a profiling config"
    call = "acl.prof.destroy_config"


@dataclass
class _Profiler:
    ready: bool = False


_profiler = _Profiler()


@call("prof.init", "s")
def init(directory: str) -> int:
    """Begin profiling into a directory."""
    if not Path(directory).is_dir():
        return ledger.fail(codes.INVALID_FILE, f"EE1001: {directory} is not a directory")
    if ledger.init_count == 0:
        ledger.report.violation("profiling is begun before acl.init")
    _profiler.ready = True
    return codes.SUCCESS


@call("prof.create_config", "liop", handle_only)
def create_config(_devices: list[Any], _metrics: int, _events: Any, _mask: int) -> int:
    """A config; 0 before ``init``."""
    return ledger.handles.add(_Config()).handle if _profiler.ready else 0


def _config(handle: int) -> tuple[_Config | None, int]:
    config = ledger.handles.get(handle, _Config)
    if config is None:
        return None, ledger.fail(codes.INVALID_PARAM, "EE1001: the profiling config is null")
    return config, codes.SUCCESS


@call("prof.start", "p")
def start(handle: int) -> int:
    """Start recording."""
    config, code = _config(handle)
    if config is not None:
        config.running = True
    return code


@call("prof.stop", "p")
def stop(handle: int) -> int:
    """Stop recording."""
    config, code = _config(handle)
    if config is not None:
        config.running = False
    return code


@call("prof.destroy_config", "p")
def destroy_config(handle: int) -> int:
    """End a config."""
    config, code = _config(handle)
    if config is not None:
        if config.running:
            ledger.report.violation("the profiling config is destroyed while it records; stop it first")
        ledger.handles.remove(config)
    return code


@call("prof.finalize")
def finalize() -> int:
    """End profiling."""
    if not _profiler.ready:
        return ledger.fail(codes.INVALID_PARAM, "EE1001: profiling was not begun")
    _profiler.ready = False
    return codes.SUCCESS
