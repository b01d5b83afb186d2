"""A baseline in a process of its own: one JSON object per line to it, one per line back."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any


class JsonProcess:
    """Runs ``python -m`` with some arguments; ready when its first line has come.

    Args:
        arguments: module and what follows it.
        hint: what to do if it ends without an answer.

    Raises:
        SystemExit: it did.
    """

    def __init__(self, *arguments: str, hint: str) -> None:
        self._hint = hint
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._line()

    def _line(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(self._hint)
        return json.loads(line)

    def ask(self, question: dict[str, Any]) -> Any:
        """Its answer to a question."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._line()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(10)
