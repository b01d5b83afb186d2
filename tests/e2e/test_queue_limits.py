"""A full queue refuses at once with 503 and Retry-After, and the server is well afterwards."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.calls import SENTENCES
from tests.harness import VOICE, RunningServer, clone_root, edit_yaml, running_server

pytestmark = pytest.mark.e2e


def post(server: RunningServer, text: str) -> tuple[int, str | None, float, str]:
    """Status, Retry-After, seconds and body of a request."""
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/{VOICE}/generate", data=json.dumps({"text": text}).encode()
    )
    start = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            answer.read()
            return answer.status, None, time.monotonic() - start, ""
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Retry-After"], time.monotonic() - start, error.read().decode()


def test_surplus_requests_are_refused_at_once(voice_root: Path, tmp_path: Path) -> None:
    root = clone_root(voice_root, tmp_path / "root")
    # one place in the vocoder and one in its queue, while the edge lets more calls through than that
    edit_yaml(
        root / "ensembles" / VOICE / "voice.yaml",
        stages__vocoder__max_queue_size=1,
        stages__acoustic__max_batch_size=8,
        stages__acoustic__unit_batch=1,
    )
    with running_server(root) as server:
        answers: list[tuple[int, str | None, float, str]] = []
        text = " ".join(SENTENCES[:4])
        threads = [threading.Thread(target=lambda: answers.append(post(server, text))) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        served = [answer for answer in answers if answer[0] == 200]
        refused = [answer for answer in answers if answer[0] == 503]
        assert len(served) + len(refused) == 12, answers
        assert served
        assert refused
        for _, retry_after, _, body in refused:
            assert retry_after == "1"
            assert "queue is full" in body
        assert post(server, "Well again.")[0] == 200
