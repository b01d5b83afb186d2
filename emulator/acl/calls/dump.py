"""``acl.mdl``: dumps of tensors; accepted, nothing is written."""

from __future__ import annotations

from acl.emulation import codes
from acl.emulation.binding import call
from acl.emulation.state import ledger

_UNINITIALIZED = 100001


def _started() -> int:
    return codes.SUCCESS if ledger.init_count else ledger.fail(_UNINITIALIZED, "EE1001: acl.init was not called")


@call("mdl.init_dump")
def init_dump() -> int:
    """Begin dumps."""
    return _started()


@call("mdl.set_dump", "s")
def set_dump(_path: str) -> int:
    """Configure dumps."""
    return _started()


@call("mdl.finalize_dump")
def finalize_dump() -> int:
    """End dumps."""
    return _started()
