"""The default voice on the emulated NPU, through the whole path of the server."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jiwer
import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpc_client
from tritonclient.utils import InferenceServerException

from tests.e2e.calls import SAMPLE_RATE_HZ, SENTENCES, Audio, speak
from tests.e2e.emulated import EmulatedNpu, convert_voice, emulated_server
from tests.harness import VOICE, RunningServer, clone_root, running_server
from tests.recogniser import Recogniser, words
from voxrepo.engine.control import EngineControl

pytestmark = pytest.mark.e2e

MAX_DIFFERENCE_LSB = 1e-3 * 32768
RECOVERY_S = 10
TEXTS = ("Yes.", SENTENCES[0], " ".join(SENTENCES[:5]), "It is late.\n\nGood night!", " ".join(SENTENCES[5:17]))


FEW_GEARS = "batch=1,2;ids=96,400;frames=128,1024"
"""Enough to be right; every gear runs at each start, which takes its time where the device is this CPU."""


@pytest.fixture(scope="module")
def converted(voice_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert_voice(voice_root, tmp_path_factory.mktemp("converted") / "root", "--gears", FEW_GEARS)


@pytest.fixture
def emulated_root(converted: Path, tmp_path: Path) -> Path:
    """A root of the test's own."""
    return clone_root(converted, tmp_path / "root")


@pytest.fixture
def npu(tmp_path: Path) -> EmulatedNpu:
    npu = EmulatedNpu(tmp_path / "npu")
    npu.folder.mkdir()
    npu.write_settings()
    return npu


@pytest.fixture(scope="module")
def shared_npu(tmp_path_factory: pytest.TempPathFactory) -> EmulatedNpu:
    npu = EmulatedNpu(tmp_path_factory.mktemp("npu"))
    npu.write_settings()
    return npu


@pytest.fixture(scope="module")
def emulated(converted: Path, shared_npu: EmulatedNpu) -> Iterator[RunningServer]:
    with emulated_server(converted, shared_npu) as server:
        yield server


def stub_pids(server: RunningServer) -> set[int]:
    return {process.pid for process in server.tree() if "backend_stub" in " ".join(process.cmdline()[:1])}


def test_audio_equals_that_of_the_onnx_runtime(server: RunningServer, emulated: RunningServer):
    with (
        grpc_client.InferenceServerClient(server.grpc_url) as cpu,
        grpc_client.InferenceServerClient(emulated.grpc_url) as npu,
    ):
        for number, text in enumerate(TEXTS):
            expected, got = speak(cpu, text, seed=number), speak(npu, text, seed=number)
            assert len(expected) == len(got), text
            assert np.abs(expected.astype(np.int32) - got).max() <= MAX_DIFFERENCE_LSB, text


@pytest.mark.asr
def test_the_recogniser_understands_it(emulated: RunningServer, recogniser: Recogniser):
    texts = SENTENCES[:6]
    with grpc_client.InferenceServerClient(emulated.grpc_url) as client:
        heard = [" ".join(words(recogniser.transcribe(speak(client, text), SAMPLE_RATE_HZ))) for text in texts]
    assert jiwer.wer([" ".join(words(text)) for text in texts], heard) <= 0.10


@pytest.mark.soak
def test_32_texts_at_once_are_each_their_own(emulated: RunningServer):
    texts = [f"Number {number}. {SENTENCES[number % len(SENTENCES)]}" for number in range(32)]
    with grpc_client.InferenceServerClient(emulated.grpc_url) as client, ThreadPoolExecutor(32) as pool:
        alone = [speak(client, text, seed=number) for number, text in enumerate(texts)]
        together = list(pool.map(lambda numbered: speak(client, numbered[1], seed=numbered[0]), enumerate(texts)))
    for text, a, b in zip(texts, alone, together, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=text)


@pytest.mark.soak
def test_a_correct_server_violates_nothing_and_leaks_nothing(emulated_root: Path, npu: EmulatedNpu):
    with emulated_server(emulated_root, npu) as server, grpc_client.InferenceServerClient(server.grpc_url) as client:
        for text in TEXTS:
            speak(client, text)
    ends = npu.of_kind("end")
    assert len(ends) >= 2, "each worker writes how it ended"
    assert npu.of_kind("violation") == []
    assert npu.of_kind("leak") == []


@pytest.mark.soak
def test_device_exceptions_cost_their_own_request_at_most(emulated_root: Path, npu: EmulatedNpu):
    with emulated_server(emulated_root, npu) as server, grpc_client.InferenceServerClient(server.grpc_url) as client:
        expected = speak(client, SENTENCES[0], seed=1)
        before = stub_pids(server)
        for code in (507015, 507035, 507011, 507014, 507046):
            fault = npu.inject("rt.synchronize_stream_with_timeout", code, text="EZ9999: injected")
            try:
                np.testing.assert_array_equal(speak(client, SENTENCES[0], seed=1), expected)
            except InferenceServerException as error:
                assert "UNAVAILABLE" in str(error.status())
            assert not fault.exists(), "nobody took the fault"
            assert eventually_speaks(client, SENTENCES[0]) <= RECOVERY_S
            np.testing.assert_array_equal(speak(client, SENTENCES[0], seed=1), expected)
        assert stub_pids(server) == before, "the stubs never die of a device"
    assert npu.of_kind("violation") == []


def eventually_speaks(client: grpc_client.InferenceServerClient, text: str) -> float:
    """Seconds until a request is served again."""
    start = time.monotonic()
    while True:
        try:
            speak(client, text)
        except InferenceServerException:
            if time.monotonic() - start > 3 * RECOVERY_S:
                raise
            time.sleep(0.1)
        else:
            return time.monotonic() - start


def test_too_little_device_memory_refuses_the_voice_with_numbers_and_not_the_server(
    emulated_root: Path, npu: EmulatedNpu
):
    npu.write_settings(device_memory_bytes=64 << 20)
    with emulated_server(emulated_root, npu, phases=("ready", "degraded")) as server:
        (model,) = [model for model in server.state["models"] if model["name"] == VOICE]
        assert model["state"] == "failed"
        assert "bytes" in model["reason"] or "MiB" in model["reason"]


@pytest.mark.soak
def test_a_killed_worker_comes_back(emulated_root: Path, npu: EmulatedNpu):
    with emulated_server(emulated_root, npu) as server, grpc_client.InferenceServerClient(server.grpc_url) as client:
        expected = speak(client, SENTENCES[1], seed=2)
        workers = [process for process in server.tree() if "device/bootstrap.py" in " ".join(process.cmdline())]
        assert workers
        for worker in workers:
            worker.kill()
        assert eventually_speaks(client, SENTENCES[1]) <= RECOVERY_S
        np.testing.assert_array_equal(speak(client, SENTENCES[1], seed=2), expected)
        assert not [process for process in server.tree() if process.status() == psutil.STATUS_ZOMBIE]


def test_an_npu_voice_without_an_npu_is_refused_in_a_sentence(emulated_root: Path):
    with running_server(emulated_root, "--device", "cpu", phases=("ready", "degraded")) as server:
        (model,) = [model for model in server.state["models"] if model["name"] == VOICE]
        assert model["state"] == "failed"
        assert "npu" in model["reason"].lower()


def speak_mixed(client: grpc_client.InferenceServerClient, count: int, seed: int, clients: int = 4) -> list[str]:
    """Mixed requests; texts of the errors."""
    order = random.Random(seed)
    texts = []
    for _ in range(count):
        words = " ".join(order.sample(SENTENCES, order.randint(1, 2))).split()
        texts.append(" ".join(words[: order.randint(1, len(words))]))
    errors: list[str] = []

    def one(text: str) -> Audio | None:
        try:
            return speak(client, text)
        except InferenceServerException as error:
            errors.append(str(error))
            return None

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, texts))
    return errors


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("compute", [False, True], ids=["shapes_only", "computed"])
def test_5000_mixed_requests_leave_no_violation_and_no_leak(
    voice_root: Path, tmp_path: Path, npu: EmulatedNpu, compute: bool
):
    npu.write_settings(compute=compute)
    with (
        emulated_server(convert_voice(voice_root, tmp_path / "root"), npu) as server,
        grpc_client.InferenceServerClient(server.grpc_url) as client,
    ):
        assert speak_mixed(client, 5000, seed=1) == []
    assert len(npu.of_kind("end")) >= 2, "each worker writes how it ended"
    assert npu.of_kind("violation") == []
    assert npu.of_kind("leak") == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_device_faults_under_load_concern_nobody_else(emulated_root: Path, npu: EmulatedNpu):
    codes = [507015, 507035, 507014, 507011, 507016]
    with emulated_server(emulated_root, npu) as server, grpc_client.InferenceServerClient(server.grpc_url) as client:
        expected = {text: speak(client, text, seed=3) for text in TEXTS}
        stubs = stub_pids(server)
        for number in range(20):
            npu.inject("rt.synchronize_stream_with_timeout", codes[number % len(codes)], skip=number % 3)
            order = random.Random(number)
            with ThreadPoolExecutor(4) as pool:
                asked = [(text, pool.submit(speak, client, text, seed=3)) for text in order.choices(TEXTS, k=8)]
                for text, answer in asked:
                    try:
                        np.testing.assert_array_equal(answer.result(), expected[text])
                    except InferenceServerException as error:
                        assert "UNAVAILABLE" in str(error.status())
            assert eventually_speaks(client, TEXTS[0]) <= RECOVERY_S
        assert stub_pids(server) == stubs
    assert npu.of_kind("violation") == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_fifty_loads_and_unloads_leave_nothing_on_the_device(emulated_root: Path, npu: EmulatedNpu):
    npu.write_settings(compute=False)  # what is loaded and freed counts here, not the sound
    with emulated_server(emulated_root, npu) as server:
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            expected = speak(client, SENTENCES[0], seed=4)
        with EngineControl(server.workspace.grpc_target) as control:
            control.unload(VOICE)
            for _ in range(50):
                control.unload(f"{VOICE}.vocoder")
                control.load(f"{VOICE}.vocoder")
            control.load(VOICE)
        with grpc_client.InferenceServerClient(server.grpc_url) as client:
            np.testing.assert_array_equal(speak(client, SENTENCES[0], seed=4), expected)
    assert len(npu.of_kind("end")) >= 50
    assert npu.of_kind("violation") == []
    assert npu.of_kind("leak") == []
