"""Noticing that an engine hangs: it runs and answers nothing."""

from __future__ import annotations

import contextlib

import grpc
from tritonclient.grpc import service_pb2 as pb

INTERVAL_S = 1.0
LONGEST_STEP_S = 1.0
"""Of the time between two looks, what counts at most: a supervisor that was itself stopped has not waited."""

_METHOD = "/inference.GRPCInferenceService/ServerLive"


class Silence:
    """Pure: for how long something has been asked in vain.

    Attributes:
        lasts_s: seconds.
    """

    def __init__(self) -> None:
        self.lasts_s = 0.0
        self._last_step_s: float | None = None

    def step(self, now_s: float, answered: bool) -> None:
        """Go on to ``now_s``, on the clock of ``time.monotonic``."""
        if self._last_step_s is not None:
            self.lasts_s += min(max(now_s - self._last_step_s, 0.0), LONGEST_STEP_S)
        self._last_step_s = now_s
        if answered:
            self.lasts_s = 0.0


class Pulse:
    """Asks an engine about every second whether it is live. Nothing here waits.

    Args:
        target: the engine's gRPC address.
        patience_s: silence after which it hangs.
    """

    def __init__(self, target: str, patience_s: float) -> None:
        self._patience_s = patience_s
        # a channel of its own: others are busy with what the engine may be busy with
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 1000))
        self._channel = grpc.insecure_channel(target, options=options)
        self._ask = self._channel.unary_unary(
            _METHOD,
            request_serializer=pb.ServerLiveRequest.SerializeToString,
            response_deserializer=pb.ServerLiveResponse.FromString,
        )
        self._call: grpc.Future | None = None
        self._next_ask_s = float("-inf")
        self._silence = Silence()

    @property
    def silence_s(self) -> float:
        """Seconds since the last answer."""
        return self._silence.lasts_s

    def step(self, now_s: float) -> bool:
        """Look once.

        Args:
            now_s: time on the clock of ``time.monotonic``.

        Returns:
            whether the engine hangs.
        """
        answered = False
        if self._call is not None and self._call.done():
            answered = self._call.exception() is None
            self._call = None
        self._silence.step(now_s, answered)
        if self._call is None and now_s >= self._next_ask_s:
            self._next_ask_s = now_s + INTERVAL_S
            # giving up a call that is no inference does the engine no harm
            self._call = self._ask.future(pb.ServerLiveRequest(), timeout=self._patience_s)
        return self._silence.lasts_s >= self._patience_s

    def close(self) -> None:
        """Stop asking."""
        if self._call is not None:
            with contextlib.suppress(grpc.RpcError):
                self._call.cancel()
        self._channel.close()
