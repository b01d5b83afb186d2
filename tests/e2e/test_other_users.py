"""What other users of the machine can see of a server."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import tritonclient.grpc as grpc_client

from tests.e2e.calls import speak
from tests.harness import RunningServer

pytestmark = pytest.mark.e2e


def test_only_its_own_user_can_read_what_passes_through_the_engine(server: RunningServer) -> None:
    regions = [*Path("/dev/shm").glob(f"{server.workspace.shm_prefix}*")]
    assert len(regions) >= 3, "each stage has a region"
    with grpc_client.InferenceServerClient(server.grpc_url) as client:
        speak(client, "A long text makes the regions grow. " * 20)
    assert max(region.stat().st_size for region in regions) > 2**20
    assert {stat.S_IMODE(region.stat().st_mode) for region in regions} == {0o600}
    assert stat.S_IMODE(server.workspace.path.parent.stat().st_mode) == 0o700
