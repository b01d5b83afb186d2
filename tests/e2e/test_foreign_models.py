"""Models dropped in beside the voice, with no configuration or a minimal one, and broken neighbours."""

from __future__ import annotations

import json
import pickle
import shutil
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from tritonclient.utils import InferenceServerException

from tests.e2e import foreign_models as models
from tests.e2e.calls import generate
from tests.harness import VOICE, RunningServer, clone_root, running_server, voxrepo
from tests.supervisor.conftest import wait_until

pytestmark = pytest.mark.e2e

SERVED = ("topics", "stripes", "words", "plain", "versions", "vad")


def call(server: RunningServer, model: str, version: str = "", **inputs: Any) -> dict[str, Any]:
    """Outputs of a model by name, over gRPC."""
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        return outputs_of(client.infer(model, tensors(grpc_client, inputs), model_version=version))


def tensors(module: Any, inputs: dict[str, Any], **options: Any) -> list[Any]:
    names = {"float32": "FP32", "int64": "INT64", "object": "BYTES"}
    made = []
    for name, value in inputs.items():
        made.append(module.InferInput(name, list(value.shape), names[value.dtype.name]))
        made[-1].set_data_from_numpy(value, **options)
    return made


def outputs_of(result: Any) -> dict[str, Any]:
    answer = result.get_response()
    names = [
        o["name"] if isinstance(o, dict) else o.name
        for o in (answer["outputs"] if isinstance(answer, dict) else answer.outputs)
    ]
    return {name: result.as_numpy(name) for name in names}


def vad_file() -> Path:
    """A published voice activity detector, which a package of the test environment brings."""
    import faster_whisper

    return Path(faster_whisper.__file__).parent / "assets" / "silero_vad_v6.onnx"


def add_models(root: Path) -> None:
    models.place(root, "topics", models.text_classifier())
    models.place(root, "stripes", models.vision_model())
    models.place(root, "words", models.string_model())
    # a minimal configuration: only what its owner cares about
    folder = models.place(root, "plain", models.vision_model())
    (folder.parent / "config.pbtxt").write_text(
        'max_batch_size: 2\ninstance_group { count: 2 kind: KIND_GPU gpus: [0] }\noutput { name: "chances" }\n'
    )
    # version 3 of this one is odd
    models.place(root, "versions", models.text_classifier(), 1)
    models.place(root, "versions", models.text_classifier(), 2)
    models.place(root, "versions", models.vision_model(), 3)
    (root / "model_repository" / "versions" / "config.pbtxt").write_text("version_policy { all { } }\n")
    folder = root / "model_repository" / "vad" / "1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").symlink_to(vad_file())
    (folder / "notes.txt").write_text("weights by their publisher")


def add_broken(root: Path) -> dict[str, str]:
    """Broken neighbours by name, with what must be said of each."""
    folder = models.place(root, "cut", models.vision_model())
    whole = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(whole[: len(whole) // 2])
    # a whole description of tensors over weights that are not there: onnxruntime notices
    folder = models.place(root, "hollow", models.vision_model())
    (folder / "model.onnx").write_bytes(whole.replace(b"Conv", b"Vnoc"))
    om_folder = root / "model_repository" / "pickled" / "1"
    om_folder.mkdir(parents=True)
    (om_folder / "model.om").write_bytes(pickle.dumps({"weights": [1, 2, 3]}))
    folder = models.place(root, "contrary", models.vision_model())
    (folder.parent / "config.pbtxt").write_text('input { name: "image" dims: [3, -1, -1] }\n')
    folder = models.place(root, "both", models.vision_model())
    shutil.copy(folder / "model.onnx", folder / "model.om")
    folder = models.place(root, "running", models.running_sum())
    models.place_om(root, "npu_only", models.vision_model(), (16, 16))
    return {
        "cut": "the file is damaged",
        "hollow": "onnxruntime cannot load this graph",
        "pickled": "is a Python pickle, not an OM; it is never unpickled",
        "contrary": "input 'image' has dims [3, -1, -1], the graph has [1, -1, -1]",
        "both": "has both model.om and model.onnx",
        "running": "the rows of a batch influence each other",
        "npu_only": "asks for an NPU",
    }


@pytest.fixture(scope="module")
def served(voice_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    root = clone_root(voice_root, tmp_path_factory.mktemp("foreign") / "root")
    add_models(root)
    with running_server(root, phases=("degraded", "ready")) as server:
        yield server


def test_all_are_ready_and_the_odd_version_is_named(served: RunningServer):
    status = voxrepo("status", "--root", str(served.root), "--json")
    state = json.loads(status.stdout)
    found = {model["name"]: model for model in state["models"]}
    assert {name: found[name]["state"] for name in (*SERVED, VOICE)} == dict.fromkeys((*SERVED, VOICE), "ready")
    assert found["versions"]["served"] == [1, 2]
    assert "its tensors are not those of version 1" in found["versions"]["left_out"]["3"]
    assert state["device"] == "cpu"
    assert not (served.root / "model_repository" / "topics" / "config.pbtxt").exists()


def test_the_text_classifier_classifies_sentences_it_has_not_seen(served: RunningServer):
    ids = np.stack([models.word_ids(sentence) for sentence in models.UNSEEN])
    answer = call(served, "topics", ids=ids)
    assert [models.TOPICS[topic] for topic in answer["topic"].reshape(-1)] == list(models.UNSEEN.values())
    chances, topics = models.session(models.text_classifier()).run(None, {"ids": ids})
    np.testing.assert_allclose(answer["chances"], chances, rtol=1e-5)
    assert answer["topic"].tolist() == topics[:, None].tolist()


@pytest.mark.parametrize("model", ["stripes", "plain"])
@pytest.mark.parametrize("size", [(16, 16), (20, 33)])
def test_the_vision_model_sees_the_direction_of_stripes(served: RunningServer, model: str, size: tuple[int, int]):
    images = np.stack([models.stripes(kind, size, seed=900 + kind) for kind in range(4)])
    whole = models.session(models.vision_model()).run(None, {"image": images})[0]
    for first in (0, 2):
        answer = call(served, model, image=images[first : first + 2])
        assert answer["chances"].argmax(1).tolist() == [first, first + 1]
        np.testing.assert_allclose(answer["chances"], whole[first : first + 2], rtol=1e-4, atol=1e-6)


def test_a_published_model_without_a_configuration_answers_as_onnxruntime_does(served: RunningServer):
    random = np.random.default_rng(1)
    feeds: dict[str, Any] = {
        "input": random.normal(0, 0.1, (7, 576)).astype(np.float32),
        "h": np.zeros((1, 1, 128), np.float32),
        "c": np.zeros((1, 1, 128), np.float32),
    }
    expected = models.session(str(vad_file())).run(["speech_probs", "hn"], feeds)
    answer = call(served, "vad", **feeds)
    np.testing.assert_allclose(answer["speech_probs"], expected[0], atol=1e-5)
    np.testing.assert_allclose(answer["hn"], expected[1], atol=1e-5)


def test_strings_work_over_every_door(served: RunningServer):
    words = np.array([["two"], ["dr\u00fcben"], ["other"]], np.object_)
    assert call(served, "words", word=words)["number"].tolist() == [[2], [3], [-1]]
    with http_client.InferenceServerClient(served.http_url) as client:
        for binary in (False, True):
            result = client.infer("words", tensors(http_client, {"word": words}, binary_data=binary))
            assert result.as_numpy("number").tolist() == [[2], [3], [-1]]


def test_plain_json_is_enough(served: RunningServer):
    ids = models.word_ids("Snow and wind tonight.")
    body = {"inputs": [{"name": "ids", "shape": [1, len(ids)], "datatype": "INT64", "data": ids.tolist()}]}
    request = urllib.request.Request(
        f"http://{served.http_url}/v2/models/topics/infer",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        outputs = {tensor["name"]: tensor["data"] for tensor in json.loads(answer.read())["outputs"]}
    assert models.TOPICS[outputs["topic"][0]] == "weather"


def test_clients_can_ask_what_a_model_takes(served: RunningServer):
    with grpc_client.InferenceServerClient(served.grpc_url) as client:
        metadata = client.get_model_metadata("topics")
        assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [("ids", "INT64", [-1, -1])]
        assert {t.name: list(t.shape) for t in metadata.outputs} == {"chances": [-1, 3], "topic": [-1, 1]}
        config = client.get_model_config("plain").config
        assert (config.max_batch_size, config.instance_group[0].count) == (2, 2)
        assert config.instance_group[0].kind == config.instance_group[0].Kind.Value("KIND_CPU")
        assert config.parameters["device_ids"].string_value == "0;0"
        index = {(model.name, model.version): model.state for model in client.get_model_repository_index().models}
        assert index["versions", "2"] == "READY"
        assert index["versions", "3"] == "UNAVAILABLE"


def test_each_version_can_be_called_and_the_odd_one_says_why_not(served: RunningServer):
    ids = models.word_ids("Bread and butter.")[None]
    for version in ("1", "2", ""):
        assert call(served, "versions", version, ids=ids)["topic"].tolist() == [[1]]
    with pytest.raises(InferenceServerException, match=r"versions version 3 is not served: .*voxrepo status"):
        call(served, "versions", "3", ids=ids)


def test_waiting_requests_share_calls_and_keep_their_own_answers(served: RunningServer):
    sentences = [sentence for group in models.SENTENCES.values() for sentence in group] * 12
    right = {s: models.TOPICS.index(topic) for topic, group in models.SENTENCES.items() for s in group}
    with grpc_client.InferenceServerClient(served.grpc_url) as client:
        # lengths differ from request to request: the engine hands them over together all the same
        def ask(place: int) -> int:
            ids = models.word_ids(sentences[place], 12 + place % 3)[None]
            return int(client.infer("topics", tensors(grpc_client, {"ids": ids})).as_numpy("topic")[0, 0])

        before = client.get_inference_statistics("topics").model_stats[0]
        with ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(ask, range(len(sentences))))
        after = client.get_inference_statistics("topics").model_stats[0]
    assert answers == [right[sentence] for sentence in sentences]
    asked = after.inference_count - before.inference_count
    executed = after.execution_count - before.execution_count
    assert asked == len(sentences)
    assert executed < asked
    assert max(batch.batch_size for batch in after.batch_stats) > 1


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"ids": np.zeros((1, 4), np.float32)}, "INT64"),
        ({"ids": np.zeros((9, 4), np.int64)}, "batch-size must be <= 8"),
        ({"image": np.zeros((1, 4), np.int64)}, "image"),
    ],
)
def test_wrong_requests_are_the_callers_fault(served: RunningServer, inputs: dict[str, Any], says: str):
    with pytest.raises(InferenceServerException, match=says) as caught:
        call(served, "topics", **inputs)
    assert "INVALID_ARGUMENT" in caught.value.status()


def test_the_voice_speaks_beside_them(served: RunningServer):
    assert generate(served, {"text": "I speak beside other models."})[0] == 200


def test_an_engine_that_dies_gets_every_configuration_again(served: RunningServer):
    ids = models.word_ids("Bread and butter.")[None]
    before = served.read_state()
    psutil.Process(before["engine_pid"]).kill()
    served.wait_for("loading")
    served.wait_for("degraded", "ready")
    wait_until(lambda: served.read_state().get("engine_restarts") == before["engine_restarts"] + 1)
    assert call(served, "topics", ids=ids)["topic"].tolist() == [[1]]
    assert call(served, "versions", "2", ids=ids)["topic"].tolist() == [[1]]


@pytest.mark.soak
def test_broken_neighbours_are_refused_by_name_and_the_others_serve(voice_root: Path, tmp_path: Path):
    root = clone_root(voice_root, tmp_path / "root")
    models.place(root, "topics", models.text_classifier())
    reasons = add_broken(root)
    with running_server(root, "--device", "cpu", phases=("degraded",)) as server:
        found = {model["name"]: model for model in server.read_state()["models"]}
        for name, says in reasons.items():
            assert found[name]["state"] == "failed", name
            assert says in found[name]["reason"], found[name]["reason"]
            with pytest.raises(InferenceServerException, match=f"{name} is not served"):
                call(server, name, image=np.zeros((1, 1, 16, 16), np.float32))
        assert found[VOICE]["state"] == "ready"
        ids = models.word_ids("Rain and wind.")[None]
        assert call(server, "topics", ids=ids)["topic"].tolist() == [[0]]
        assert generate(server, {"text": "I still speak."})[0] == 200


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """OM files alone, on the emulated NPU."""
    root = tmp_path_factory.mktemp("emulated")
    models.place_om(root, "stripes", models.vision_model(), (16, 16))
    models.place_om(root, "other_chip", models.vision_model(), (16, 16), soc="Ascend310P3")
    models.place(root, "topics", models.text_classifier())
    with running_server(root, "--device", "emulator", phases=("degraded",)) as server:
        yield server
    reports = [
        json.loads(line)
        for file in (root / ".voxrepo" / "logs" / "emulator").iterdir()
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    assert any(report["kind"] == "end" for report in reports)
    assert [report for report in reports if report["kind"] in {"violation", "leak"}] == []


def test_an_om_alone_is_served_in_its_gears(emulated: RunningServer):
    images = np.stack([models.stripes(kind, (16, 16), seed=900 + kind) for kind in range(4)])
    expected = models.session(models.vision_model()).run(None, {"image": images})[0]
    for rows in (1, 2, 3, 4):
        answer = call(emulated, "stripes", image=images[:rows])
        np.testing.assert_allclose(answer["chances"], expected[:rows], rtol=1e-4, atol=1e-6)
    with grpc_client.InferenceServerClient(emulated.grpc_url) as client:
        assert client.get_model_config("stripes").config.max_batch_size == 4

        def ask(kind: int) -> int:
            image = models.stripes(kind % 4, (16, 16), seed=700 + kind)[None]
            return int(client.infer("stripes", tensors(grpc_client, {"image": image})).as_numpy("chances").argmax())

        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(ask, range(200))) == [kind % 4 for kind in range(200)]
        statistics = client.get_inference_statistics("stripes").model_stats[0]
    assert statistics.execution_count < statistics.inference_count


def test_the_emulator_is_never_taken_for_an_npu(emulated: RunningServer):
    state = emulated.read_state()
    assert state["device"] == "emulator"
    assert "EMULATOR, no NPU" in emulated.log()
    assert "EMULATOR, no NPU" in voxrepo("status", "--root", str(emulated.root)).stderr
    with urllib.request.urlopen(f"http://{emulated.metrics_url}", timeout=10) as page:
        assert 'voxrepo_device{device="emulator"} 1.0' in page.read().decode()


def test_a_model_for_another_chip_is_refused_and_the_others_serve(emulated: RunningServer):
    found = {model["name"]: model for model in emulated.read_state()["models"]}
    assert found["other_chip"]["state"] == "failed"
    assert "Ascend310P3" in found["other_chip"]["reason"]
    assert "Ascend910B3" in found["other_chip"]["reason"]
    assert found["stripes"]["state"] == found["topics"]["state"] == "ready"


KILLER = """
import os

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        os.kill({victim}, 9)

    def execute(self, requests):
        return []
"""


@pytest.mark.soak
def test_a_model_that_the_engine_cannot_survive_is_found_and_left_out(tmp_path: Path):
    for name, victim in (("kills_the_engine", "os.getppid()"), ("kills_itself", "os.getpid()")):
        folder = tmp_path / "model_repository" / name / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(KILLER.format(victim=victim))
        (folder.parent / "config.pbtxt").write_text(
            'backend: "python"\noutput { name: "y" data_type: TYPE_FP32 dims: [1] }\n'
            "instance_group { count: 1 kind: KIND_CPU }\n"
        )
    models.place(tmp_path, "topics", models.text_classifier())
    with running_server(tmp_path, phases=("degraded",)) as server:
        found = {model["name"]: model for model in server.read_state()["models"]}
        assert found["topics"]["state"] == "ready"
        assert "the engine ended 2 times while it loaded this" in found["kills_the_engine"]["reason"]
        assert "ended 2 times" not in found["kills_itself"]["reason"]
        assert found["kills_itself"]["state"] == "failed"
        assert call(server, "topics", ids=models.word_ids("Rain and wind.")[None])["topic"].tolist() == [[0]]
