"""How long the engine waits for a sign of life of a stub that works on a batch.

Triton's Python backend takes a stub for dead when neither an answer nor its heartbeat (every 300 ms) has come within
one second. On a machine with more work than processors that happens to stubs that are well. The engine then fails the
batch, while the stub goes on; its late answer goes to a request that no longer exists, and the engine crashes or gives
the answer to the next caller. The second is a constant of ``StubLauncher::ReceiveMessageFromStub``
(python_backend, src/stub_launcher.cc), which nothing configures; so it is raised in the copy of the library that the
engine of the wheel runs with. Libraries other than the known one are left as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

LIBRARY_NAME = "libtriton_python.so"

UNPATCHED_PATIENCE_S = 1.0
PATIENCE_S = 5.0
"""Longer than an overloaded machine keeps a thread from running, short enough for callers of a stub that is dead."""


_KNOWN_LIBRARY = "08a47eb9cb120475442abebf283a910cf06053bc1322711aeb34f4d42f038cba"
"""sha256 of the library in nvidia-pytriton 0.7.0 (python_backend r24.10)."""

_TO_UNIX_EPOCH_US = 0xFD12D9C27C578000


def _wait_for_answer(patience_us: int) -> bytes:
    """The instructions before ``sem_timedwait`` that add the wait to the time of day in rbx.

    ``movabs rcx, wait - 1970``, ``add rcx, rbx`` (what is waited for) and ``add rbx, wait`` (tells special values).
    """
    wait = patience_us.to_bytes(4, "little")
    return b"\x48\xb9" + (_TO_UNIX_EPOCH_US + patience_us).to_bytes(8, "little") + b"\x48\x01\xd9\x48\x81\xc3" + wait


def _wait_for_lock(patience_us: int) -> bytes:
    """``add rax, wait``: deadline of a lock that the stub, kept from running, may hold."""
    return b"\x48\x05" + patience_us.to_bytes(4, "little")


_PLACES: tuple[tuple[int, Callable[[int], bytes]], ...] = (
    (0x7E7FA, _wait_for_lock),  # the heartbeat's lock, to clear the flag
    (0x7E8F8, _wait_for_answer),
    (0x7EA0D, _wait_for_lock),  # the heartbeat's lock, to read the flag
    (0x7EC1F, _wait_for_lock),  # the lock of the queue of answers
)


def lengthen_patience(library: Path) -> float:
    """Raise the constant in a copy of the engine's ``libtriton_python.so``, if it is the known one.

    Args:
        library: the copy; it is written to.

    Returns:
        seconds that the engine will wait.
    """
    content = bytearray(library.read_bytes())
    if hashlib.sha256(content).hexdigest() != _KNOWN_LIBRARY:
        return UNPATCHED_PATIENCE_S
    for offset, code in _PLACES:
        before, after = code(int(UNPATCHED_PATIENCE_S * 1e6)), code(int(PATIENCE_S * 1e6))
        if content[offset : offset + len(before)] != before:  # pragma: no cover - the digest says otherwise
            raise AssertionError(f"{library}: not the expected instructions at {offset:#x}")
        content[offset : offset + len(before)] = after
    library.write_bytes(content)
    return PATIENCE_S
