"""The one way into pyACL: every call goes through :class:`Calls`, which turns a non-zero code into a fault.

pyACL never raises for an AscendCL error; it returns an int, alone or as the last item of a tuple. The error text is
kept per thread and mixed with that of the next call that fails, so it is read here at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from om_backend.acl import enums
from om_backend.acl.codes import OUT_OF_MEMORY_CODES, Phase, code_of
from om_backend.acl.texts import MAX_TEXT_CHARS, refine
from om_backend.device.faults import Action, DeviceFault

_LOG = logging.getLogger("voxrepo.device.acl")


class Calls:
    """pyACL's functions for one phase of the work.

    Args:
        module: the ``acl`` module.
        phase: what the calls are made for; decides what a code means.
    """

    def __init__(self, module: Any, phase: Phase) -> None:
        self.module = module
        self.phase = phase
        self._functions: dict[str, Callable[..., Any]] = {}

    def has(self, name: str) -> bool:
        """Whether this CANN offers ``name`` (``rt.malloc``, ``finalize_reference`` ...)."""
        return _lookup(self.module, name) is not None

    def do(self, name: str, *args: Any) -> None:
        """Call a function of which only the code matters.

        Raises:
            DeviceFault: the code is not 0.
        """
        result = self.value(name, *args)
        code = result[-1] if type(result) is tuple else result
        if code != 0:
            raise self.fault(name, code)

    def get(self, name: str, *args: Any) -> Any:
        """Call a function that returns values and a code; gives the value, or a tuple if there are several.

        Raises:
            DeviceFault: the code is not 0.
        """
        result = self.value(name, *args)
        if result[-1] != 0:
            raise self.fault(name, result[-1])
        return result[0] if len(result) == 2 else result[:-1]

    def handle(self, name: str, *args: Any) -> int:
        """Call a function that returns a handle, 0 meaning failure.

        Raises:
            DeviceFault: the handle is 0.
        """
        handle = self.value(name, *args)
        if not handle:
            raise self.fault(name, 0)
        return int(handle)

    def code(self, name: str, *args: Any, accept: tuple[int, ...]) -> int:
        """Call a function of which certain codes beside 0 are no failure; gives the code.

        Raises:
            DeviceFault: any other code.
        """
        code = int(self.value(name, *args))
        if code != 0 and code not in accept:
            raise self.fault(name, code)
        if code != 0:
            self.recent_text()  # or it would be told with the next fault
        return code

    def value(self, name: str, *args: Any) -> Any:
        """Call a function and give what it returns, unread.

        Raises:
            DeviceFault: pyACL did not take the arguments, or has no such function.
        """
        function = self._functions.get(name)
        if function is None:
            function = _lookup(self.module, name)
            if function is None:
                raise self._misfit(name, "this pyACL has no such function")
            self._functions[name] = function
        try:
            return function(*args)
        except (TypeError, ValueError, UnicodeError) as error:
            raise self._misfit(name, f"pyACL did not take its arguments: {error}") from error

    def recent_text(self) -> str:
        """AscendCL's error text of this thread, which reading clears; "" if there is none."""
        read = getattr(self.module, "get_recent_err_msg", None)
        text = read() if read is not None else None
        if not text:
            return ""
        return str(text).strip()[:MAX_TEXT_CHARS]

    def fault(self, name: str, code: int) -> DeviceFault:
        """The fault for a code that ``name`` returned, with the text read in this thread; logged here and only here."""
        text = self.recent_text()
        if code == 0:
            action = Action.REFUSE if self.phase in (Phase.OPEN, Phase.LOAD) else Action.RELOAD
            fault = DeviceFault(
                f"acl.{name}", 0, action, "AscendCL gave no handle, its memory may be used up", text=text
            )
        else:
            entry = code_of(code)
            action, advice = entry.action(self.phase), entry.advice
            better = refine(code, text, self.phase) if entry.vague and text else None
            if better is not None:
                action, advice = better.action, better.advice
            if code in OUT_OF_MEMORY_CODES:
                advice = f"{advice}{self._memory_now()}"
            fault = DeviceFault(f"acl.{name}", code, action, advice, code_name=entry.name, text=text)
        _LOG.warning("%s while the device runtime was at %s; follows: %s", fault, self.phase.value, fault.action.value)
        return fault

    def _memory_now(self) -> str:
        free, total, code = self.module.rt.get_mem_info(enums.MEMORY_KIND_HBM)
        return f" ({free} of {total} bytes are free now)" if code == 0 else ""

    def _misfit(self, name: str, problem: str) -> DeviceFault:
        action = Action.REFUSE if self.phase in (Phase.OPEN, Phase.LOAD) else Action.RELOAD
        return DeviceFault(f"acl.{name}", 0, action, f"{problem}; is this pyACL of the same CANN as the driver?")


def _lookup(module: Any, name: str) -> Callable[..., Any] | None:
    owner = module
    for part in name.split("."):
        owner = getattr(owner, part, None)
        if owner is None:
            return None
    return owner  # type: ignore[no-any-return]
