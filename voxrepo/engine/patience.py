"""When the engine takes a stub for dead that works on a batch.

Triton's Python backend does so when neither an answer nor the stub's sign of life (every 300 ms) has come within one
second. On a machine with more work than processors, or where a process is stopped for a while, that happens to stubs
that are well. The engine then fails the batch and frees its shared memory, while the stub goes on. Its late answer goes
to a request that no longer exists, and the engine crashes or gives the answer to the next caller; a stub that only now
reads its request finds freed memory, and dies with a lock that the engine needs and dies of in turn.

Nothing configures this. So in the copy of the library that the engine of the wheel runs with, a stub without a sign of
life is given up only if its process has ended (``StubLauncher::ReceiveMessageFromStub`` of python_backend,
src/stub_launcher.cc); otherwise the engine waits on. Libraries other than the known one are left as they are.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

LIBRARY_NAME = "libtriton_python.so"

UNPATCHED_PATIENCE_S = 1.0
PATIENCE_S = math.inf
"""With a process that lives there is no end to it; one that has ended is found within ``UNPATCHED_PATIENCE_S``."""

_KNOWN_LIBRARY = "08a47eb9cb120475442abebf283a910cf06053bc1322711aeb34f4d42f038cba"
"""sha256 of the library in nvidia-pytriton 0.7.0 (python_backend r24.10)."""

# Offsets in the file, which are those in memory.
_NOT_HEALTHY = 0x7EA8E
"""Neither answer nor sign of life came: makes the error ``Stub process ... is not healthy``."""
_NO_LOCK = 0x7E866
"""The stub was stopped while it held the lock of its sign of life: makes an error, too."""
_WAIT_ON = 0x7E7D8
_ROOM = 0xD33D4
"""Zeros between the end of the code and the end of its last page."""

_BEFORE = {
    _NOT_HEALTHY: bytes.fromhex("488d6c2450"),  # lea rbp, [rsp + 80]
    _NO_LOCK: bytes.fromhex("488d35a35f0500"),  # lea rsi, message
}

_HAS_ENDED = bytes.fromhex(
    "4881ec80000000"  # sub rsp, 128
    "b8f7000000"  # mov eax, 247          waitid(
    "bf01000000"  # mov edi, 1              P_PID,
    "418b742404"  # mov esi, [r12 + 4]      this->stub_pid_,
    "4889e2"  # mov rdx, rsp                &info,
    "41ba05000001"  # mov r10d, 0x1000005   WEXITED | WNOHANG | WNOWAIT,
    "4531c0"  # xor r8d, r8d                nullptr)
    "c7042400000000"  # mov dword [rsp], 0  info.si_signo = 0
    "0f05"  # syscall
    "8b1424"  # mov edx, [rsp]
    "4881c480000000"  # add rsp, 128
    "09d0"  # or eax, edx                   0 only without an error and with a process that runs
)


def lengthen_patience(library: Path) -> float:
    """Change a copy of the engine's ``libtriton_python.so``, if it is the known one, to give up no stub that lives.

    Args:
        library: the copy; it is written to.

    Returns:
        seconds without a sign of life after which the engine gives a stub up whose process lives; infinite if never.
    """
    content = bytearray(library.read_bytes())
    if hashlib.sha256(content).hexdigest() != _KNOWN_LIBRARY:
        return UNPATCHED_PATIENCE_S
    decision = _HAS_ENDED
    decision += b"\x0f\x84" + _distance(_ROOM + len(decision) + 2, _WAIT_ON)  # jz
    decision += _BEFORE[_NOT_HEALTHY]
    decision += b"\xe9" + _distance(_ROOM + len(decision) + 1, _NOT_HEALTHY + len(_BEFORE[_NOT_HEALTHY]))  # jmp
    expected = {**_BEFORE, _ROOM: bytes(len(decision))}
    if any(content[place : place + len(code)] != code for place, code in expected.items()):  # pragma: no cover
        raise AssertionError(f"{library}: not the expected instructions, though it has the known digest")
    content[_ROOM : _ROOM + len(decision)] = decision
    for place in _BEFORE:
        content[place : place + 5] = b"\xe9" + _distance(place + 1, _ROOM)  # jmp
    library.write_bytes(content)
    return PATIENCE_S


def _distance(operand: int, target: int) -> bytes:
    """Operand of a near jump, at the place ``operand``, to ``target``."""
    return (target - operand - 4).to_bytes(4, "little", signed=True)
