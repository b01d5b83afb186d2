"""Pure: whether and how an answer is compressed."""

from __future__ import annotations

MIN_COMPRESSED_BYTES = 1024


def coding_for(accept_encoding: str, *, is_binary: bool, body_bytes: int) -> str | None:
    """The content coding of an answer.

    JSON is compressed for whoever accepts it. Raw audio is compressed only for callers that name exactly one coding,
    as tritonclient's ``response_compression_algorithm`` does: HTTP libraries list all they know by default, and for
    raw samples compression costs more time than it saves.

    Args:
        accept_encoding: the request's header, empty if absent.
        is_binary: whether the body holds raw tensors.
        body_bytes: its length.

    Returns:
        ``gzip``, ``deflate`` or None.
    """
    if body_bytes < MIN_COMPRESSED_BYTES:
        return None
    wanted: list[str] = []
    for item in accept_encoding.lower().split(","):
        coding, _, options = item.strip().partition(";")
        quality = options.strip().removeprefix("q=").strip() if options else "1"
        try:
            accepted = float(quality) > 0
        except ValueError:
            accepted = False
        if coding.strip() and accepted:
            wanted.append(coding.strip())
    if is_binary and len(wanted) != 1:
        return None
    return next((coding for coding in ("gzip", "deflate") if coding in wanted), None)
