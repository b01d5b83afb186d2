"""``python -m voxrepo.edge``: the edge process, started by the supervisor."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent ends: without its supervisor an edge would hold the ports."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def client_is_there(record: logging.LogRecord) -> bool:
    """Log filter: gRPC reports with a traceback that an answer met a call which its client had just left."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ != "ExecuteBatchError"


def main() -> int:
    """Run.

    Returns:
        exit status: 0 after a stop, 1 after one that cut requests off, 2 if the options, the table or the ports are
        wrong.
    """
    die_with_parent()
    # imported late: the parent may end while the imports run, and this takes most of the start
    from voxrepo.edge.app import serve
    from voxrepo.edge.listening import CannotListen
    from voxrepo.edge.options import parse_options
    from voxrepo_contract.errors import ConfigError

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    # requests that are not HTTP are answered 400; their tracebacks would let anybody fill the log
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    logging.getLogger("grpc._cython.cygrpc").addFilter(client_is_there)
    options = parse_options(sys.argv[1:])
    try:
        drained = asyncio.run(serve(options))
    except (ConfigError, CannotListen) as error:
        print(f"voxrepo edge: {error.message}", file=sys.stderr)  # noqa: T201
        return 2
    return 0 if drained else 1


if __name__ == "__main__":
    sys.exit(main())
