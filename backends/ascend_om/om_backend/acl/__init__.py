"""Runtime ``acl``: offline models (.om) through pyACL, AscendCL's Python binding.

``acl`` itself is imported when a device is opened, so that everything else here can be used without CANN.
"""

from __future__ import annotations

from om_backend.acl.device import AclDevice, open_device

__all__ = ["AclDevice", "open_device"]
