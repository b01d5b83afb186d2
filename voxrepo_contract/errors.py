"""Every error a user can meet, with the status each transport answers.

    VoxrepoError                 500  INTERNAL
    ├── InvalidArgument          400  INVALID_ARGUMENT   the request is wrong; the text names input and limit
    │   └── ConfigError          400  INVALID_ARGUMENT   a file is wrong; the text names file, line and key
    ├── NotFound                 404  NOT_FOUND          no such model, version or voice
    ├── AlreadyExists            409  ALREADY_EXISTS     would overwrite something that is in use
    ├── PermissionDenied         403  PERMISSION_DENIED  a control call at a public door
    ├── Unavailable              503  UNAVAILABLE        try again later: queue full, not loaded yet, draining
    │   └── DeadlineExceeded     503  DEADLINE_EXCEEDED  the caller's own time limit passed
    ├── Cancelled                400  CANCELLED          the caller went away
    ├── Unimplemented            501  UNIMPLEMENTED      a call this server does not offer
    └── Internal                 500  INTERNAL           our fault; the text is masked for clients
        └── ConversionRefused    500  INTERNAL           a graph could not be cut, or its cut not proved

HTTP statuses follow Triton's own table (``triton_code`` -> HTTP) so that existing clients react alike, except
409 and 403, which Triton maps to 400 or does not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

_TRITON_CODES = {
    "INVALID_ARGUMENT": "INVALID_ARG",
    "NOT_FOUND": "NOT_FOUND",
    "UNAVAILABLE": "UNAVAILABLE",
    "CANCELLED": "CANCELLED",
    "UNIMPLEMENTED": "UNSUPPORTED",
}


class VoxrepoError(Exception):
    """Base of all errors raised on purpose. ``str(error)`` is a sentence for the user."""

    http_status: ClassVar[int] = 500
    grpc_code: ClassVar[str] = "INTERNAL"

    @property
    def message(self) -> str:
        """The sentence shown to the user."""
        return str(self)

    @property
    def triton_code(self) -> str:
        """The attribute of ``TritonError`` with which a backend answers this error."""
        return _TRITON_CODES.get(self.grpc_code, "INTERNAL")


class InvalidArgument(VoxrepoError):
    """The request cannot be served as asked; repeating it unchanged will fail again."""

    http_status = 400
    grpc_code = "INVALID_ARGUMENT"


class ConfigError(InvalidArgument):
    """A file of the repository is wrong.

    Args:
        problem: what is wrong and what to do, without the position.
        file: the file at fault.
        line: 1-based line, where known.
    """

    def __init__(self, problem: str, *, file: Path | str | None = None, line: int | None = None) -> None:
        self.problem = problem
        self.file = None if file is None else Path(file)
        self.line = line
        where = "" if file is None else f"{file}:{line}: " if line else f"{file}: "
        super().__init__(f"{where}{problem}")


class NotFound(VoxrepoError):
    """No such voice, model or version."""

    http_status = 404
    grpc_code = "NOT_FOUND"


class AlreadyExists(VoxrepoError):
    """Something of that name is there already and would be overwritten."""

    http_status = 409
    grpc_code = "ALREADY_EXISTS"


class PermissionDenied(VoxrepoError):
    """The call is not offered at this door."""

    http_status = 403
    grpc_code = "PERMISSION_DENIED"


class Unavailable(VoxrepoError):
    """The request was fine, the server cannot take it now.

    Args:
        message: the sentence for the user.
        retry_after_s: seconds after which another try makes sense, None if nobody knows.
        reason: one word for the count of refusals.
    """

    http_status = 503
    grpc_code = "UNAVAILABLE"

    def __init__(self, message: str = "", *, retry_after_s: float | None = None, reason: str = "unavailable") -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.reason = reason


class DeadlineExceeded(Unavailable):
    """The time limit that the caller set has passed."""

    grpc_code = "DEADLINE_EXCEEDED"


class Cancelled(VoxrepoError):
    """The caller cancelled or closed the connection."""

    http_status = 400
    grpc_code = "CANCELLED"


class Unimplemented(VoxrepoError):
    """A call of the protocol that this server does not offer."""

    http_status = 501
    grpc_code = "UNIMPLEMENTED"


class Internal(VoxrepoError):
    """A fault of the server. Clients see a masked text with an id; the log has the rest."""


class ConversionRefused(Internal):
    """An importer met a graph that it cannot cut, or whose cut it could not prove to be exact."""
