"""Trees of files that look like machines with NPUs, and programs that answer as there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from voxrepo.doctor.machine import Machine, Ran

HOME = "/usr/local/Ascend/ascend-toolkit/latest"
SMI_910B = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 91.3        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3465 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | {health:<13} | 98.5        42                0    / 0             |
| 0                         | 0000:C2:00.0  | {busy:<3}         0    / 0          {used}/ 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
{processes}
+===========================+===============+====================================================+
"""
SMI_310P = """\
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Device              | Bus-Id        | AICore(%)   Memory-Usage(MB)                       |
+===========================+===============+====================================================+
| 2     310P3               | OK            | NA          45                0    / 0             |
| 0     0                   | 0000:01:00.0  | 0           1853 / 44280                           |
+---------------------------+---------------+----------------------------------------------------+
| 2     310P3               | OK            | NA          44                0    / 0             |
| 1     1                   | 0000:01:00.0  | 7           1500 / 43693                           |
+===========================+===============+====================================================+
"""
SMI_A3 = """\
| 0     Ascend910           | OK            | 176.9       46                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          2909 / 65536         |
+------------------------------------------------------------------------------------------------+
"""
NOBODY = "| No running processes found in NPU 1                                                            |"
SOMEBODY = "| 1       0                 | 4321          | python3                  | 30000                   |"


def smi(health: str = "OK", busy: int = 0, used: int = 3400, processes: str = NOBODY) -> str:
    return SMI_910B.format(health=health, busy=busy, used=used, processes=processes)


def answers(**changes: Any) -> dict[str, Any]:
    """What the probe answers on a sound machine."""
    return {
        "python": "3.10",
        "numpy": True,
        "emulator": False,
        "file": "/x/acl.so",
        "init": 0,
        "soc": "Ascend910B3",
        "get_device_count": 0,
        "device_count": 1,
        "devices": [{"device": 0, "set_device": 0, "get_mem_info": 0, "free_bytes": 60 << 30, "total_bytes": 64 << 30}],
        **changes,
    }


class Programs:
    """A runner: answers by the end of the command's first or last word; keeps what it was asked."""

    def __init__(self, npu_smi: Ran | None = None, probe: dict[str, Any] | Ran | None = None, board: str = "") -> None:
        self.npu_smi = Ran(0, smi()) if npu_smi is None else npu_smi
        self.probe = answers() if probe is None else probe
        self.board = board
        self.asked: list[list[str]] = []

    def __call__(self, command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> Ran | None:
        self.asked.append(list(command))
        if command[0].endswith("npu-smi"):
            return Ran(0, self.board) if "board" in command else self.npu_smi
        if isinstance(self.probe, Ran):
            return self.probe
        return Ran(0, "noise of a library\n" + json.dumps(self.probe) + "\n")


def no_program(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> None:
    return None


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        file = root / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


NPU_FILES = {
    "/dev/davinci0": "",
    "/dev/davinci1": "",
    "/dev/davinci_manager": "",
    "/dev/devmm_svm": "",
    "/dev/hisi_hdc": "",
    "/usr/local/Ascend/driver/version.info": "Version=24.1.rc2\nascendhal_version=7.35.19\n",
    "/usr/local/Ascend/driver/lib64/libascend_hal.so": "",
    f"{HOME}/aarch64-linux/ascend_toolkit_install.info": "package_name=Ascend-cann-toolkit\nversion=8.0.RC3\n",
    f"{HOME}/opp/version.info": "Version=7.6.0.1.220\n",
    f"{HOME}/lib64/libascendcl.so": "",
    "/usr/local/Ascend/ascend-toolkit/set_env.sh": "",
}
ENVIRONMENT = {
    "ASCEND_HOME_PATH": HOME,
    "ASCEND_OPP_PATH": f"{HOME}/opp",
    "LD_LIBRARY_PATH": f"{HOME}/lib64:/usr/local/Ascend/driver/lib64",
}


def npu_machine(
    root: Path,
    *,
    without: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    run: Callable[..., Ran | None] | None = None,
    **changes: Any,
) -> Machine:
    """A sound machine with two NPUs, with changes."""
    write(root, {name: content for name, content in NPU_FILES.items() if name not in without})
    write(root, files or {})
    return plain_machine(
        root, environment={**ENVIRONMENT, **(environment or {})}, run=run or Programs(), cpu="aarch64", **changes
    )


def plain_machine(root: Path, **changes: Any) -> Machine:
    """A machine with nothing special."""
    settings: dict[str, Any] = {
        "environment": {},
        "run": no_program,
        "usable": lambda path: path.exists(),
        "free_bytes": lambda path: 8 << 30,
        "groups": frozenset({"users"}),
        "is_root": False,
        "os": "linux",
        "cpu": "x86_64",
        "python": "/usr/bin/python3",
    }
    return Machine(root=root, **{**settings, **changes})
