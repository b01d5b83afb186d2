"""The recent error texts that ``acl.get_recent_err_msg`` gives: per thread, read and cleared."""

from __future__ import annotations

import threading
from collections import deque

_KEPT = 32


class RecentErrors:
    """Newest first.

    Attributes:
        per_process: one list for all threads (``err_msg_mode`` "1") instead of one per thread.
    """

    def __init__(self) -> None:
        self.per_process = False
        self._shared: deque[str] = deque(maxlen=_KEPT)
        self._local = threading.local()

    def _texts(self) -> deque[str]:
        if self.per_process:
            return self._shared
        texts: deque[str] | None = getattr(self._local, "texts", None)
        if texts is None:
            texts = self._local.texts = deque(maxlen=_KEPT)
        return texts

    def push(self, text: str) -> None:
        """Add a text, e.g. ``E13025: ...``."""
        if text:
            self._texts().appendleft(text)

    def take(self) -> str | None:
        """All texts, newest first, one a line; ``None`` if there are none."""
        texts = self._texts()
        if not texts:
            return None
        joined = "\n".join(texts)
        texts.clear()
        return joined
