"""An event loop in a thread of its own, for blocking callers of asyncio code."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from voxrepo_client.errors import ClientClosed

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for any number of threads.

    tritonclient's blocking HTTP client is bound to gevent's hub of the thread that made it, so that it cannot be
    shared, and takes its time limit once for all calls. One event loop serves all threads and limits each call.
    """

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        # a daemon, so that a client that was never closed does not keep the interpreter from ending
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of ``coroutine``; an interrupt of the waiting thread cancels it.

        Raises:
            ClientClosed: the loop has ended, or lives on the other side of a fork.
        """
        with self._lock:
            usable = not self._closed and self._pid == os.getpid()
            if usable:
                future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        if not usable:
            coroutine.close()
            raise ClientClosed("the client was closed, or made before a fork; make a new one")
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Have the loop call ``callback`` without waiting for it; nothing happens once the loop has ended."""
        if self._pid == os.getpid():
            # without the lock: a garbage collection may call this while its thread holds it
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(callback)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancel what is still running, run ``last`` and end the thread; closing twice is harmless."""
        with self._lock:
            if self._closed or self._pid != os.getpid():
                last.close()
                return
            self._closed = True
        if threading.current_thread() is self._thread:
            # a garbage collection on the loop's own thread closes a forgotten client; it cannot wait for itself
            self._ending = self._loop.create_task(self._finish(last))
            self._ending.add_done_callback(lambda _: self._loop.stop())
            return
        try:
            asyncio.run_coroutine_threadsafe(self._finish(last), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _finish(self, last: Coroutine[Any, Any, None]) -> None:
        running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await last
