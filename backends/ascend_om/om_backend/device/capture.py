"""What a C library prints during a call, read from the descriptors themselves."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from om_backend.device.memory import create_memfd

MAX_CAPTURED_BYTES = 64 * 1024


class Captured:
    """Text printed during :func:`captured_output`; complete after it."""

    text: str = ""


@contextmanager
def captured_output() -> Iterator[Captured]:
    """Keep what is written to descriptors 1 and 2 meanwhile, and write it to where it was meant for afterwards.

    For one thread of a process that prints nothing elsewhere, as the worker is.
    """
    captured = Captured()
    sys.stdout.flush()
    sys.stderr.flush()
    catcher = create_memfd("voxrepo-output")
    saved = [os.dup(1), os.dup(2)]
    try:
        os.dup2(catcher, 1)
        os.dup2(catcher, 2)
        yield captured
    finally:
        # a C library's own buffer would come out later and elsewhere
        ctypes.CDLL(None).fflush(None)
        sys.stdout.flush()
        sys.stderr.flush()
        for target, original in zip((1, 2), saved, strict=True):
            os.dup2(original, target)
            os.close(original)
        size = os.lseek(catcher, 0, os.SEEK_END)
        data = os.pread(catcher, MAX_CAPTURED_BYTES, max(size - MAX_CAPTURED_BYTES, 0))
        os.close(catcher)
        captured.text = data.decode("utf-8", errors="replace").strip()
        if data:
            os.write(2, data)
