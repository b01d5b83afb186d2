"""Environment variables by which the supervisor tells stubs and device workers how they are to work.

They are the only channel to a stub besides a model's configuration, which must not hold paths of one machine.
"""

from __future__ import annotations

DEVICE = "VOXREPO_DEVICE"
"""``cpu``, ``npu`` or ``emulator``: what graphs with ``device: npu`` run on."""
WORKER_PYTHON = "VOXREPO_WORKER_PYTHON"
"""Interpreter of device workers."""
EMULATOR_DIR = "VOXREPO_EMULATOR_DIR"
"""Folder that holds the emulator's ``acl``."""
EMULATOR_SETTINGS = "VOXREPO_EMULATOR_SETTINGS"
"""JSON file with the emulator's settings."""
COSTS_DIR = "VOXREPO_COSTS_DIR"
"""Folder in which instances share the call costs that one of them has measured."""
LOCKS_DIR = "VOXREPO_LOCKS_DIR"
"""Folder of the locks under which workers load onto one device, one after the other."""
WORKER_LD_LIBRARY_PATH = "VOXREPO_WORKER_LD_LIBRARY_PATH"
"""The operator's own library path, without the engine's; for device workers."""
STUBS_DIR = "VOXREPO_STUBS_DIR"
"""Folder in which each stub says which version of which model it runs."""
STUB_PATIENCE_S = "VOXREPO_STUB_PATIENCE_S"
"""Seconds without a sign of life after which the engine takes a stub for dead."""
