from __future__ import annotations

from voxrepo.doctor.nodes import npu_nodes


def test_finds_chips_then_slices_each_by_number():
    names = ["vdavinci100", "davinci10", "davinci_manager", "davinci2", "xdavinci1", "davinci0x", "vdavinci16"]
    assert npu_nodes(names) == ["davinci2", "davinci10", "vdavinci16", "vdavinci100"]
