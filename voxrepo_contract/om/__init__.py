"""Huawei's offline models (``.om``) read from their bytes: tensors, gears, chip, versions, sizes. No NPU is needed.

Standard library only, so that the device worker can use it under any Python. Nothing in a file is trusted: every
offset, length and count is checked before it is used, and only the few parts that are asked for are read.

:func:`read` gives an :class:`OmFile`; :func:`identify` tells what kind of file something is; :func:`check_fits` says
in sentences why a file will not load on a given chip.
"""

from __future__ import annotations

from voxrepo_contract.om.compat import Host, check_fits
from voxrepo_contract.om.model import GEAR_INPUT, Attributes, Header, OmFile, OmTensor, Partition, SubModel
from voxrepo_contract.om.numbering import acl_dtype_name
from voxrepo_contract.om.reader import read
from voxrepo_contract.om.sniff import identify

__all__ = [
    "GEAR_INPUT",
    "Attributes",
    "Header",
    "Host",
    "OmFile",
    "OmTensor",
    "Partition",
    "SubModel",
    "acl_dtype_name",
    "check_fits",
    "identify",
    "read",
]
