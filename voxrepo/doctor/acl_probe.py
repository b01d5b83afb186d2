"""Run by the device worker's Python: what its ``acl`` says of the devices, as one line of JSON.

Standard library only and old syntax, since this may be any Python. With ``import-only`` as argument it stops after the
import.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from typing import Any

_HBM = 1
"""Asks for the fast memory; chips without it answer for the one they have."""


def _is_here(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _device(acl: Any, number: int) -> dict[str, Any]:
    found = {"device": number, "set_device": acl.rt.set_device(number)}
    if found["set_device"] == 0:
        free, total, code = acl.rt.get_mem_info(_HBM)
        found.update(get_mem_info=code, free_bytes=free, total_bytes=total)
        acl.rt.reset_device(number)
    return found


def examine(import_only: bool) -> dict[str, Any]:
    """Import ``acl`` and, unless ``import_only``, open each device once."""
    found: dict[str, Any] = {
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "ais_bench": _is_here("ais_bench"),
        "ais_bench_interface": _is_here("ais_bench.infer.interface"),
        "aclruntime": _is_here("aclruntime"),
        "torch": _is_here("torch"),
        "torch_npu": _is_here("torch_npu"),
        "numpy": _is_here("numpy"),
    }
    try:
        acl: Any = importlib.import_module("acl")
    except Exception as error:  # a broken library raises anything
        found["import_error"] = f"{type(error).__name__}: {error}"
        return found
    found["emulator"] = bool(getattr(acl, "EMULATOR", False))
    found["file"] = getattr(acl, "__file__", "") or ""
    if import_only or found["emulator"]:
        return found
    found["init"] = acl.init()
    found["soc"] = acl.get_soc_name() or ""
    count, code = acl.rt.get_device_count()
    found.update(get_device_count=code, device_count=count)
    found["devices"] = [_device(acl, number) for number in range(count)] if code == 0 else []
    if found["init"] == 0:
        acl.finalize()
    return found


if __name__ == "__main__":
    # what libraries print goes elsewhere than the answer
    answer, sys.stdout = sys.stdout, sys.stderr
    answer.write("\n" + json.dumps(examine("import-only" in sys.argv[1:])) + "\n")
    answer.flush()
