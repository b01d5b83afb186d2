"""A stub that gets no processor for a while is not taken for dead; the engine of the wheel would crash over it."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.calls import speak
from tests.harness import RunningServer

pytestmark = pytest.mark.e2e

STOPPED_S = 1.6
"""Longer than the second after which Triton's own constant ends a stub."""


@pytest.mark.parametrize("stage", ["text_frontend", "vocoder"])
def test_a_request_outlasts_a_pause_of_its_stubs(server: RunningServer, stage: str) -> None:
    text = "It was late, but it was right."
    before = server.read_state()
    with grpc_client.InferenceServerClient(server.grpc_url) as client, ThreadPoolExecutor(1) as pool:
        expected = speak(client, text, seed=1)
        stubs = [process for process in server.tree() if f"en-joe.{stage}" in " ".join(process.cmdline())]
        stubs = [process for process in stubs if process.name() == "triton_python_backend_stub"]
        assert stubs
        started = time.monotonic()
        try:
            for stub in stubs:
                stub.send_signal(signal.SIGSTOP)
            call = pool.submit(speak, client, text, seed=1)
            time.sleep(STOPPED_S)
        finally:
            for stub in stubs:
                stub.send_signal(signal.SIGCONT)
        np.testing.assert_array_equal(call.result(30), expected)
        assert time.monotonic() - started > STOPPED_S
        np.testing.assert_array_equal(speak(client, text, seed=1), expected)
    after = server.read_state()
    assert after["engine_pid"] == before["engine_pid"]
    assert after["engine_restarts"] == before["engine_restarts"]
