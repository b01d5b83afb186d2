"""A Python function bound with PyTriton to the running engine is one more model behind the edge."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.harness import clone_root, running_server

pytestmark = pytest.mark.e2e

SCRIPT = """
import sys, time
import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import RemoteTriton

@batch
def double(value):
    return {"doubled": value * 2}

with RemoteTriton(url=sys.argv[1], access_token=open(sys.argv[2]).read()) as triton:
    triton.bind(
        model_name="double",
        infer_func=double,
        inputs=[Tensor(name="value", dtype=np.float32, shape=(-1,))],
        outputs=[Tensor(name="doubled", dtype=np.float32, shape=(-1,))],
        config=ModelConfig(max_batch_size=8),
    )
    triton.serve()
"""


def test_a_bound_function_answers_through_the_edge(voice_root: Path, tmp_path: Path) -> None:
    root = clone_root(voice_root, tmp_path / "root")
    script = tmp_path / "bind.py"
    script.write_text(SCRIPT)
    with running_server(root, "--callables") as server:
        state = server.read_state()
        binder = subprocess.Popen([sys.executable, str(script), state["callables_url"], state["callables_token_file"]])
        try:
            with grpc_client.InferenceServerClient(server.grpc_url) as client:
                end = time.monotonic() + 60
                while not client.is_model_ready("double"):
                    assert binder.poll() is None, "the script ended"
                    assert time.monotonic() < end
                    time.sleep(0.2)
                value = grpc_client.InferInput("value", [1, 3], "FP32")
                value.set_data_from_numpy(np.array([[1, 2, 3]], np.float32))
                result = client.infer("double", [value])
                np.testing.assert_array_equal(result.as_numpy("doubled"), [[2, 4, 6]])
        finally:
            binder.terminate()
            binder.wait(30)


def test_the_engines_http_door_is_closed_unless_asked_for(server) -> None:
    assert server.read_state()["callables_url"] == ""
    with grpc_client.InferenceServerClient(server.grpc_url) as client, pytest.raises(InferenceServerException):
        client.load_model("double")
