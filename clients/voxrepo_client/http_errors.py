"""What aiohttp raises on the way to a server, as this library's errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from voxrepo_client.address import Address
from voxrepo_client.errors import ConnectionFailed, TimedOut
from voxrepo_client.transport import CONNECT_TIMEOUT_S


@contextmanager
def typed_errors(address: Address, timeout_s: float | None, start_s: float) -> Iterator[None]:
    """Translate errors of the network.

    Args:
        address: where the call goes, for the message.
        timeout_s: limit of the call.
        start_s: when it began, on the event loop's clock.
    """
    try:
        yield
    except asyncio.TimeoutError as error:
        # aiohttp gives up on connecting for either limit, with one class for both
        if timeout_s is not None and asyncio.get_running_loop().time() - start_s >= timeout_s:
            raise TimedOut(f"{address} did not answer within {timeout_s:g} s") from error
        raise ConnectionFailed(f"no connection to {address} within {CONNECT_TIMEOUT_S:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise ConnectionFailed(f"no connection to {address}: {error or type(error).__name__}") from error
