"""Two servers of one root: who is on which arm does not depend on the server, nor on its age."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.arm_versions import WHOLE, add_vocoder, loaded_versions, one_process_per_stage
from tests.e2e.calls import SENTENCES, inputs_for
from tests.e2e.rollouts import Watched
from tests.e2e.streams import metric
from tests.e2e.test_arms import HALF
from tests.e2e.test_recovery import wait_until
from tests.e2e.test_rollout_storms import order
from tests.harness import VOICE, RunningServer, clone_root, running_server
from voxrepo.repository.voice import read_voice
from voxrepo.rollout.decision import Command

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

KEYS = [f"user-{number}" for number in range(40)]
SPEC = f"""\
voice: {VOICE}
arms: {{candidate: {{vocoder: 2}}}}
policy: {{kind: canary, arm: candidate, steps: [{{weight: 30, hold_s: 3600, min_requests: 100000}}]}}
keep_previous_s: 0
gates: [{{metric: error_ratio, max: 0.4, min_samples: 10}}]
"""


@pytest.fixture
def root(voice_root: Path, tmp_path: Path) -> Path:
    root = clone_root(voice_root, tmp_path / "root")
    add_vocoder(root, 2, 0.5)
    one_process_per_stage(root)
    return root


def arm_by_grpc(server: RunningServer, key: str) -> str:
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        inputs = inputs_for(grpc_client, SENTENCES[0], seed=1)
        response = client.infer(VOICE, inputs, parameters={"routing_key": key}).get_response()
    arm = response.parameters["arm"].string_param
    assert json.loads(response.parameters["versions"].string_param) == (HALF if arm == "candidate" else WHOLE)
    return str(arm)


def arm_by_http_header(server: RunningServer, key: str) -> str:
    request = Request(
        f"http://{server.http_url}/v2/models/{VOICE}/generate",
        json.dumps({"text": SENTENCES[0]}).encode(),
        {"x-routing-key": key},
    )
    with urlopen(request, timeout=60) as answer:
        return str(json.load(answer)["arm"])


def test_keys_stay_on_their_arm_on_every_server_after_restarts_and_while_the_weight_grows(root: Path) -> None:
    watched = Watched(root)
    states = root / ".voxrepo", root / "other-state"
    with running_server(root, "--replica-name", "one", state_dir=states[0]) as one:
        with running_server(root, "--replica-name", "two", state_dir=states[1]) as two:
            watched.start(SPEC)
            watched.wait(lambda rollout: rollout.state.phase == "running")
            wait_until(lambda: all(has_weight(server, 30.0) for server in (one, two)), 60, "both route")
            first = {key: arm_by_grpc(one, key) for key in KEYS}
            assert set(first.values()) == {"stable", "candidate"}
            assert {key: arm_by_grpc(two, key) for key in KEYS} == first
            assert {key: arm_by_http_header(two, key) for key in KEYS} == first
        # a server that is away does not keep the others from serving, and comes back to the same arms
        assert {key: arm_by_grpc(one, key) for key in KEYS[:10]} == {key: first[key] for key in KEYS[:10]}
        with running_server(root, "--replica-name", "two", state_dir=states[1]) as two:
            wait_until(lambda: has_weight(two, 30.0), 60, "the arm is loaded again")
            assert {key: arm_by_grpc(two, key) for key in KEYS} == first
            order(watched, Command(kind="set_weights", weights={"candidate": 60.0}))
            wait_until(lambda: all(has_weight(server, 60.0) for server in (one, two)), 20, "both know")
            grown = {key: arm_by_grpc(two, key) for key in KEYS}
            assert {key: arm_by_grpc(one, key) for key in KEYS} == grown
            assert all(grown[key] == "candidate" for key, arm in first.items() if arm == "candidate")
            assert sum(arm == "candidate" for arm in grown.values()) > sum(arm == "candidate" for arm in first.values())
            order(watched, Command(kind="promote"))
            watched.wait_for_end()
            assert watched.phase == "done", watched.said()
            wait_until(lambda: all(loaded_versions(server) == {2} for server in (one, two)), 60, "the old one is gone")
            for server in (one, two):
                with grpc_client.InferenceServerClient(server.grpc_url) as client:
                    response = client.infer(VOICE, inputs_for(grpc_client, SENTENCES[0], seed=1)).get_response()
                    assert json.loads(response.parameters["versions"].string_param) == HALF
    assert read_voice(watched.layout, VOICE).versions == HALF


def has_weight(server: RunningServer, percent: float) -> bool:
    """Whether the server goes by this weight of the candidate."""
    return metric(server, "voxrepo_rollout_weight", arm="candidate") == percent
