"""Which ``acl`` module is here: the real one or the emulator, and that it is the one that was asked for."""

from __future__ import annotations

import importlib
import sys

from om_backend.device.faults import Action, DeviceFault


def check_acl(mode: str) -> None:
    """Import ``acl`` and refuse the wrong one.

    Args:
        mode: ``npu`` for the real module, ``emulator`` for the emulator.

    Raises:
        DeviceFault: with action ``REFUSE``: there is none, or it is the other one.
    """
    try:
        acl = importlib.import_module("acl")
    except ImportError as error:
        advice = (
            "source CANN's set_env.sh before the server starts, and set VOXREPO_WORKER_PYTHON to a Python that CANN "
            "supports"
            if mode == "npu"
            else f"install {error.name} there, or set VOXREPO_WORKER_PYTHON to a Python that has it"
            if error.name and error.name.partition(".")[0] != "acl"
            else "VOXREPO_EMULATOR_DIR must name the folder that holds the emulator's package acl"
        )
        raise _refusal(f"{sys.executable} cannot import acl ({error}); {advice}") from error
    emulated = getattr(acl, "EMULATOR", False) is True
    where = getattr(acl, "__file__", "a built-in module")
    if mode == "emulator" and not emulated:
        raise _refusal(f"the emulator was asked for and {where} is the real acl; check VOXREPO_EMULATOR_DIR")
    if mode != "emulator" and emulated:
        raise _refusal(f"an NPU was asked for and {where} is the emulator; take its folder off PYTHONPATH")


def _refusal(advice: str) -> DeviceFault:
    return DeviceFault("import acl", 0, Action.REFUSE, advice)
