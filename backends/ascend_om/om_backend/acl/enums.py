"""pyACL exports none of its enum values; these are the ones used here, from AscendCL's public headers."""

from __future__ import annotations

COPY_HOST_TO_DEVICE = 1
COPY_DEVICE_TO_HOST = 2
MALLOC_HUGE_FIRST = 0
"""Pages of 2 MiB for allocations above 1 MiB, normal pages below or where there are none."""
RUN_MODE_DEVICE = 0
"""The process runs on the device's own CPU (``ACL_DEVICE``): host and device memory are one."""
NUMPY_UINT8 = 2
"""numpy's own type number, as ``acl.util.ptr_to_numpy`` wants it."""
ANY_INDEX = -1
"""Reserved index argument of the gear queries."""

MEMORY_KIND_HBM = 1
"""For ``get_mem_info``; parts without HBM answer for their DDR."""

AIPP_INPUT = "ascend_dynamic_aipp_data"
"""Hidden input of models with dynamic image preprocessing."""
