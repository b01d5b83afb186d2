"""A software AscendCL for Python (pyACL): strict about misuse, silent for a correct program. Not the real module.

It takes part only where the environment says ``VOXREPO_DEVICE=emulator``; see the README beside this package.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from pathlib import Path


def _refuse_by_accident() -> None:
    if os.environ.get("VOXREPO_DEVICE") == "emulator":
        return
    here = Path(__file__).resolve().parent.parent
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    real = importlib.machinery.PathFinder.find_spec("acl", others)
    found = f"; the real one is at {real.origin}, behind it" if real is not None and real.origin else ""
    raise ImportError(
        f"`import acl` found the emulator in {here}, and the environment does not ask for it{found}. Take that folder "
        "off the Python path, or set VOXREPO_DEVICE=emulator to run on the emulator on purpose."
    )


_refuse_by_accident()

from acl import control, mdl, prof, rt, util  # noqa: E402
from acl.calls.top import (  # noqa: E402
    app_log,
    create_data_buffer,
    create_tensor_desc,
    data_type_size,
    destroy_data_buffer,
    destroy_tensor_desc,
    finalize,
    finalize_reference,
    float16_to_float,
    float_to_float16,
    get_cann_version,
    get_data_buffer_addr,
    get_data_buffer_size,
    get_data_buffer_size_v2,
    get_device_capability,
    get_recent_err_msg,
    get_soc_name,
    get_tensor_desc_dim,
    get_tensor_desc_dim_v2,
    get_tensor_desc_element_count,
    get_tensor_desc_format,
    get_tensor_desc_name,
    get_tensor_desc_num_dims,
    get_tensor_desc_size,
    get_tensor_desc_type,
    get_version,
    init,
    set_tensor_shape,
    set_tensor_shape_range,
    update_data_buffer,
)
from acl.control import emulator_control  # noqa: E402
from acl.emulation.state import ledger as _ledger  # noqa: E402

__all__ = [
    "EMULATOR",
    "app_log",
    "control",
    "create_data_buffer",
    "create_tensor_desc",
    "data_type_size",
    "destroy_data_buffer",
    "destroy_tensor_desc",
    "emulator_control",
    "finalize",
    "finalize_reference",
    "float16_to_float",
    "float_to_float16",
    "get_cann_version",
    "get_data_buffer_addr",
    "get_data_buffer_size",
    "get_data_buffer_size_v2",
    "get_device_capability",
    "get_recent_err_msg",
    "get_soc_name",
    "get_tensor_desc_dim",
    "get_tensor_desc_dim_v2",
    "get_tensor_desc_element_count",
    "get_tensor_desc_format",
    "get_tensor_desc_name",
    "get_tensor_desc_num_dims",
    "get_tensor_desc_size",
    "get_tensor_desc_type",
    "get_version",
    "init",
    "mdl",
    "prof",
    "rt",
    "set_tensor_shape",
    "set_tensor_shape_range",
    "update_data_buffer",
    "util",
]

EMULATOR = True
"""The real module has no such attribute."""

_NEWER = {
    None: ("finalize_reference", "get_cann_version", "get_device_capability"),
    rt: ("reset_device_force", "get_device_info", "peek_at_last_error", "get_last_error", "device_task_abort"),
    mdl: (
        "get_input_dims_range",
        "get_desc_from_file",
        "get_desc_from_mem",
        "execute_v2",
        "create_exec_config_handle",
        "set_exec_config_opt",
        "destroy_exec_config_handle",
    ),
}
"""Functions that older CANN versions lack."""

if _ledger.settings.old_cann:
    for _module, _names in _NEWER.items():
        for _name in _names:
            if _module is None:
                del globals()[_name]
            else:
                delattr(_module, _name)
