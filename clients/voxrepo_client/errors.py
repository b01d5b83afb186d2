"""Every error this library raises, and how transport statuses map to it.

    VoxrepoClientError
    ├── ConnectionFailed   nobody answered at the address, or the connection broke before the answer
    ├── InvalidRequest     the request is wrong (400, INVALID_ARGUMENT) or cannot be sent at all
    ├── VoiceNotFound      no such voice (404, NOT_FOUND)
    ├── NotPermitted       a key is missing or does not allow the call (401, 403)
    ├── ServerBusy         the request was fine, the server cannot take it now (429, 503); see retry_after_s
    ├── TimedOut           timeout_s passed
    ├── ClientClosed       the client was used after close(), or in a process or event loop it does not belong to
    └── ServerError        the server failed (500, 501 and whatever else it may answer)
        ├── BadResponse    the answer is not what the protocol says; probably not a voxrepo server
        └── StreamingNotOffered  the server speaks with the voice, but only in whole answers

No other exception leaves the library on account of the network or the server; exceptions of tritonclient, grpc and
aiohttp are kept as ``__cause__``. Nothing is repeated automatically: synthesis is costly, and a caller that repeats
without need makes a busy server busier. Repeat ``ServerBusy`` after ``retry_after_s``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from voxrepo_client.speech import Speech


class VoxrepoClientError(Exception):
    """Base of all errors of this library. ``str(error)`` is a sentence for the user.

    Attributes:
        message: the sentence.
        code: the status as the transport names it (``"INVALID_ARGUMENT"`` or ``"400"``), ``None`` where the error
            arose on this side.
        received: of a stream that failed after its first piece, the audio that came before; ``None`` otherwise.
    """

    received: Speech | None = None

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class ConnectionFailed(VoxrepoClientError):
    """Nobody answered at the address, or the connection broke before the answer was complete."""


class InvalidRequest(VoxrepoClientError):
    """The request cannot be served as asked; repeating it unchanged will fail again."""


class VoiceNotFound(VoxrepoClientError):
    """The server has no voice of that name."""


class NotPermitted(VoxrepoClientError):
    """The server wants a key, or the key does not allow this call."""


class ServerBusy(VoxrepoClientError):
    """The request was fine, the server cannot take it now: queue full, loading or stopping.

    Attributes:
        retry_after_s: what the server asked to wait before the next attempt, ``None`` if it did not say.
    """

    def __init__(self, message: str, *, code: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message, code=code)
        self.retry_after_s = retry_after_s


class TimedOut(VoxrepoClientError):
    """The time limit passed, on this side or on the server's; the server stops working on the request."""


class ClientClosed(VoxrepoClientError):
    """The client was used after ``close()``, or in another process or event loop than its own."""


class ServerError(VoxrepoClientError):
    """The server failed on a request that it accepted."""


class BadResponse(ServerError):
    """The answer does not follow the protocol; probably something else listens at the address."""


class StreamingNotOffered(ServerError):
    """The server speaks with the voice, but does not stream it; ``synthesize`` works."""
