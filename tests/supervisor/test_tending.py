"""Children are tended without waiting, each on its own clock."""

from __future__ import annotations

from voxrepo.supervisor.child import Backoff
from voxrepo.supervisor.tending import Tending
from voxrepo_contract.errors import Unavailable


class FakeChild:
    """Looks like a child as far as tending needs it."""

    exit_code = -9

    def __init__(self) -> None:
        self.running = True

    def is_running(self) -> bool:
        return self.running

    def last_words(self) -> str:
        return "killed"


class Scene:
    """A tended child whose start may be made to fail."""

    def __init__(self) -> None:
        self.child: FakeChild | None = FakeChild()
        self.deaths = 0
        self.starts = 0
        self.can_start = True
        backoff = Backoff(first_s=1.0, most_s=4.0, calm_s=60.0)
        self.tending = Tending("engine", lambda: self.child, self._died, self._start, backoff)  # type: ignore[arg-type, return-value]

    def _died(self) -> None:
        self.deaths += 1

    def _start(self) -> None:
        self.starts += 1
        if not self.can_start:
            raise Unavailable("no")
        self.child = FakeChild()

    def kill(self) -> None:
        assert self.child is not None
        self.child.running = False


def test_a_running_child_is_left_alone() -> None:
    scene = Scene()
    for second in range(5):
        scene.tending.step(float(second))
    assert (scene.deaths, scene.starts) == (0, 0)


def test_a_child_that_was_never_started_is_not_tended() -> None:
    scene = Scene()
    scene.child = None
    scene.tending.step(0.0)
    assert scene.starts == 0


def test_a_dead_child_is_told_once_and_restarted_after_the_pause() -> None:
    scene = Scene()
    scene.kill()
    scene.tending.step(10.0)
    scene.tending.step(10.5)
    assert (scene.deaths, scene.starts) == (1, 0)
    scene.tending.step(11.0)
    assert (scene.deaths, scene.starts, scene.tending.restarts) == (1, 1, 1)
    scene.tending.step(12.0)
    assert scene.starts == 1


def test_failed_starts_are_repeated_with_growing_pauses() -> None:
    scene = Scene()
    scene.can_start = False
    scene.kill()
    tried = []
    for tenth in range(200):
        before = scene.starts
        scene.tending.step(tenth / 10)
        if scene.starts > before:
            tried.append(tenth / 10)
    assert tried[:4] == [1.0, 3.0, 7.0, 11.0]
    scene.can_start = True
    scene.tending.step(30.0)
    assert (scene.deaths, scene.tending.restarts) == (1, 1)


def test_a_disk_that_refuses_is_tried_again_like_any_failure() -> None:
    scene = Scene()

    def full() -> None:
        raise OSError(28, "No space left on device")

    tending = Tending("edge", lambda: scene.child, scene._died, full, Backoff(first_s=1.0))  # type: ignore[arg-type, return-value]
    scene.kill()
    tending.step(0.0)
    tending.step(1.0)
    assert (scene.deaths, tending.restarts) == (1, 0)
