"""What went wrong on a device, and what must be done before the next request."""

from __future__ import annotations

from enum import Enum


class Action(str, Enum):
    """What a fault asks for, mildest first."""

    REQUEST = "request"
    """The request's own fault (a shape, a value); the graph is sound."""
    FAIL = "fail"
    """The graph does not work on these values, which is not the caller's fault; the same call would fail again."""
    RETRY = "retry"
    """A passing condition (queue full, link error): the same call may be made again, once."""
    REFUSE = "refuse"
    """The graph cannot be loaded (wrong file, wrong chip, no memory); others are not concerned."""
    RELOAD = "reload"
    """The loaded graph is in doubt: unload and load it in the same process."""
    RESTART = "restart"
    """The context is poisoned: end this process and start another one."""
    OUT_OF_SERVICE = "out_of_service"
    """The device itself is broken; starting again does not help, a person must look."""


class DeviceFault(Exception):
    """A device call failed.

    Attributes:
        call: the call, e.g. ``acl.rt.synchronize_stream_with_timeout``.
        code: its return code; 0 if there was none.
        code_name: name of the code, e.g. ``ACL_ERROR_RT_AICORE_EXCEPTION``.
        text: the device's own recent error text, "" if there was none.
        action: what must be done.
        advice: a sentence for the operator or the caller.
    """

    def __init__(
        self, call: str, code: int, action: Action, advice: str, *, code_name: str = "", text: str = ""
    ) -> None:
        self.call = call
        self.code = code
        self.code_name = code_name
        self.text = text
        self.action = action
        self.advice = advice
        detail = f"{call}: {code} {code_name}".strip() if code else call
        super().__init__(f"{advice} ({detail}{'; ' + text if text else ''})")
