"""Memory of the process: what a large text took is given back.

A text of 100,000 characters takes some tens of MB for a second. What is freed stays with the C library's allocator
unless it is told to give it back, and its threshold for large blocks grows with the largest one freed.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from functools import lru_cache

LARGE_TEXT_CHARS = 32_768
"""After a text of this length memory is given back; below it the time (about 0.1 s) is not worth it."""
_M_MMAP_THRESHOLD = -3
_MMAP_THRESHOLD_BYTES = 131_072
# the C library's own value; once set it no longer grows


@lru_cache(maxsize=1)
def _trim() -> Callable[[int], int] | None:
    """``malloc_trim`` of glibc; ``None`` where the C library has none."""
    library = ctypes.CDLL(None)
    try:
        library.mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        trim: Callable[[int], int] = library.malloc_trim
    except AttributeError:
        return None
    return trim


def give_back() -> None:
    """Give free memory back to the system, where the C library can."""
    gc.collect()
    trim = _trim()
    if trim is not None:
        trim(0)


def give_back_after(text_chars: int) -> None:
    """Give memory back if a text was large.

    Args:
        text_chars: length of the text that was read.
    """
    if text_chars >= LARGE_TEXT_CHARS:
        give_back()
