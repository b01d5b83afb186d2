"""Growth of time with size, on a machine that others use too."""

from __future__ import annotations

from collections.abc import Callable

ATTEMPTS = 4


def assert_linear(seconds: Callable[[int], float], small: int, large: int, floor_s: float = 0.3) -> None:
    """Fail if time grows clearly faster than size.

    A quadratic algorithm takes (large / small) squared times as long; two and a half times the linear share leaves room
    for a busy machine, and a slow moment does not come four times at just the same place.

    Args:
        seconds: processor time for a size.
        small: a size that takes a measurable time.
        large: at least four times ``small``.
        floor_s: times below it are never too long.
    """
    allowed = 2.5 * large / small
    found = []
    for _ in range(ATTEMPTS):
        base_s, large_s = seconds(small), seconds(large)
        if large_s <= max(allowed * base_s, floor_s):
            return
        found.append(f"{large_s:.2f} s for {large}, {base_s:.2f} s for {small}")
    raise AssertionError("; ".join(found))
