"""What a server writes below its root when it starts, beside another server that is loading an arm."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from tests.repository.another_server import another_server, may_load
from tests.repository.tiny import make_voice, write_stages
from tests.supervisor.conftest import wait_until
from voxrepo.repository.check import CheckedVoice, take_inventory
from voxrepo.repository.layout import Layout
from voxrepo.repository.publish import publish_voice
from voxrepo.repository.publishing import publishing
from voxrepo.supervisor import engine_keeper
from voxrepo.supervisor.arm_guard import NoArms
from voxrepo.supervisor.engine_keeper import EngineKeeper, write_anew
from voxrepo.supervisor.loader import EngineEnded
from voxrepo.supervisor.options import ServeOptions
from voxrepo.supervisor.server import Server
from voxrepo.supervisor.state import StateFolder

B = {"text_frontend": 1, "acoustic": 1, "vocoder": 2}
STAGED = (True, ["1", "2"])
"""An arm's folder and the vocoders that an engine may have, as another server needs both to load the arm."""
ANEW = (False, ["1"])


@pytest.fixture
def voice(layout: Layout) -> CheckedVoice:
    """A voice of which another server has just published an arm."""
    make_voice(layout, "one")
    write_stages(layout, "one", version=2)
    voice = take_inventory(layout).voices["one"]
    publish_voice(layout, voice, {"new": B}, 1)
    return voice


def published(layout: Layout) -> tuple[bool, list[str]]:
    text = (layout.model_repository / "one.vocoder" / "config.pbtxt").read_text(encoding="utf-8")
    return (layout.ensembles / "one.new").is_dir(), sorted(re.findall(r"versions: (\d+)", text))


class Keeper(EngineKeeper):
    """Keeps an engine that is played: whatever it loads, it ends meanwhile.

    Attributes:
        seen: what was there when it loaded, and whether another server could have loaded then.
    """

    def __init__(self, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[tuple[bool, list[str]], bool]] = []
        self.stopping = threading.Event()
        self.is_running = True
        scene = self

        class FakeControl:
            def __init__(self, *arguments: object) -> None:
                pass

            def __enter__(self) -> FakeControl:
                return self

            def __exit__(
                self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
            ) -> None:
                pass

            def wait_live(self, timeout_s: float, still_running: object) -> None:
                pass

        def load(*arguments: object, **options: object) -> None:
            scene.seen.append((published(layout), may_load(layout)))
            raise EngineEnded([])

        child = SimpleNamespace(pid=1, is_running=lambda: self.is_running, kill=lambda: None)
        workspace = SimpleNamespace(create=lambda *arguments: 1.0, grpc_target="unix:/engine", stubs=Path("/nowhere"))
        monkeypatch.setattr(engine_keeper, "Workspace", SimpleNamespace(of=lambda layout: workspace))
        monkeypatch.setattr(engine_keeper, "Child", lambda *arguments: child)
        monkeypatch.setattr(engine_keeper, "EngineControl", FakeControl)
        monkeypatch.setattr(engine_keeper, "load_everything", load)
        for name in ("engine_command", "engine_environment", "sweep"):
            monkeypatch.setattr(engine_keeper, name, lambda *arguments, **options: None)
        board: Any = SimpleNamespace(inventory=take_inventory(layout), update=lambda **changes: None)
        arms: Any = NoArms()
        binary: Any = None
        super().__init__(
            ServeOptions(layout), binary, StateFolder(layout), board, lambda: None, self.stopping.is_set, arms
        )


@pytest.fixture
def keeper(layout: Layout, voice: CheckedVoice, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    return Keeper(layout, monkeypatch)


def test_a_server_that_looks_at_its_root_changes_nothing_there(layout: Layout, voice: CheckedVoice) -> None:
    board = SimpleNamespace(inventory=None, update=lambda **changes: None)
    server: Any = SimpleNamespace(_options=ServeOptions(layout), _board=board)
    Server._check_repository(server)
    assert published(layout) == STAGED


@pytest.mark.parametrize("is_restart", [False, True])
def test_an_engine_that_starts_lets_another_server_load_first(layout: Layout, keeper: Keeper, is_restart: bool) -> None:
    thread = threading.Thread(target=keeper._start_anew if is_restart else keeper.start)
    with another_server(layout):
        thread.start()
        thread.join(0.3)
        assert (published(layout), keeper.seen) == (STAGED, [])
    thread.join(10)
    assert keeper.seen == [(ANEW, False)]
    assert may_load(layout)


def test_an_engine_that_has_waited_long_starts_all_the_same_and_leaves_arms_alone(
    layout: Layout, keeper: Keeper
) -> None:
    with another_server(layout):
        keeper.start(wait_s=0.1)
    assert keeper.seen == [((True, ["1"]), False)]


def test_a_restart_waits_less_than_a_start(layout: Layout, keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_keeper, "RECOVERY_WAIT_S", 0.1)
    with another_server(layout):
        keeper._start_anew()
    assert len(keeper.seen) == 1


@pytest.mark.parametrize("what", ["the server is to end", "the engine has ended"])
def test_who_need_not_load_any_more_waits_no_more_and_writes_nothing(layout: Layout, keeper: Keeper, what: str) -> None:
    thread = threading.Thread(target=keeper.start)
    with another_server(layout):
        thread.start()
        time.sleep(0.2)
        if what == "the server is to end":
            keeper.stopping.set()
        else:
            keeper.is_running = False
        wait_until(lambda: not thread.is_alive())
        assert (published(layout), keeper.seen) == (STAGED, [])


def test_an_engine_that_starts_does_not_wait_for_its_own_server(layout: Layout, keeper: Keeper) -> None:
    began_s = time.monotonic()
    with publishing(layout):  # an operation that has not yet noticed that its engine is gone
        keeper.start()
    assert time.monotonic() - began_s < 5.0
    assert keeper.seen == [(ANEW, False)]


def test_a_voice_that_cannot_be_written_is_told_of_at_the_start(
    layout: Layout, voice: CheckedVoice, caplog: pytest.LogCaptureFixture
) -> None:
    inventory = take_inventory(layout)
    file = layout.model_repository / "one.vocoder" / "config.pbtxt"
    file.unlink()
    file.mkdir()
    write_anew(layout, inventory, is_alone=True)
    assert "one is not served: " in caplog.text
    assert inventory.voices == {}
