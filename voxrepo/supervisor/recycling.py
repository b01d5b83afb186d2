"""Waiting until no call runs in the engine, by what the edge says of itself."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable

from voxrepo_contract.errors import Unavailable

CALM_S = 0.7
"""How long there must have been none: what one edge process knows of the others is up to half a second old."""
LOOK_INTERVAL_S = 0.1
READ_TIMEOUT_S = 3.0

_CALLS = re.compile(r"^voxrepo_engine_calls(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)


def calls_on_page(text: str) -> float:
    """Inference calls that run in the engine, by a metrics page.

    Raises:
        Unavailable: the page does not say.
    """
    found = _CALLS.findall(text)
    if not found:
        raise Unavailable("the metrics page does not say how many calls run in the engine")
    return sum(map(float, found))


def read_page(url: str) -> str:
    """A metrics page.

    Raises:
        Unavailable: it cannot be read.
    """
    try:
        with urllib.request.urlopen(url, timeout=READ_TIMEOUT_S) as answer:  # noqa: S310  this server's own
            body: bytes = answer.read()
    except OSError as error:
        raise Unavailable(f"{url} cannot be read: {error}") from error
    return body.decode("utf-8", "replace")


def wait_until_idle(
    url: str,
    timeout_s: float,
    give_up: Callable[[], bool] = lambda: False,
    read: Callable[[str], str] = read_page,
) -> bool:
    """Wait until no inference call has run in the engine for a moment.

    Args:
        url: the edge's metrics page.
        timeout_s: longest wait.
        give_up: asked while waiting; if true, the wait ends.
        read: reads the page.

    Returns:
        whether the engine is idle; not if the page cannot be read.
    """
    end = time.monotonic() + timeout_s
    calm_since: float | None = None
    while time.monotonic() < end and not give_up():
        try:
            calls = calls_on_page(read(url))
        except Unavailable:
            return False
        now = time.monotonic()
        calm_since = None if calls > 0 else calm_since or now
        if calm_since is not None and now - calm_since >= CALM_S:
            return True
        time.sleep(LOOK_INTERVAL_S)
    return False
