"""A root with a voice of two versions, rollouts in its database, and a stand-in for the servers that obey the plan."""

from __future__ import annotations

import threading
import time
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.repository.tiny import make_voice, write_stages
from voxrepo.repository.layout import Layout
from voxrepo.rollout.controller import Controller
from voxrepo.rollout.controllers import SignOfLife, this_process
from voxrepo.rollout.decision import Decision, Event, EventKind
from voxrepo.rollout.gates import judge
from voxrepo.rollout.observed import Observed, PairRecord
from voxrepo.rollout.plan import (
    ArmStatus,
    PairSeen,
    Plan,
    ReplicaStatus,
    ReplicaVoice,
    RequestSeen,
    RolloutFolder,
    read_json,
    write_json,
)
from voxrepo.rollout.spec import parse_spec
from voxrepo.rollout.state import Rollout
from voxrepo.rollout.store import Store

STABLE = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}
SPEC = """\
voice: tiny
arms: {int8: {vocoder: 2}}
policy:
  kind: canary
  arm: int8
  steps:
    - {weight: 10, hold_s: 60, min_requests: 20}
    - {weight: 50, hold_s: 60, min_requests: 20}
gates:
  - {metric: error_ratio, max: 0.2, min_samples: 20}
  - {metric: latency_p50_ms, max_ratio: 1.5, min_samples: 20}
  - {metric: level_difference_db, min: -3, max: 3, min_samples: 5}
"""
BEGAN_AT = 1_000_000_020.0
TEXT = "<script>alert('x')</script> & | *stars*"


def make_root(folder: Path) -> Layout:
    """A root whose voice ``tiny`` has two versions of each stage."""
    layout = Layout.of(folder / "root")
    make_voice(layout)
    write_stages(layout, "tiny", version=2)
    return layout


def make_rollout(layout: Layout, *, final: bool = False, id_: str = "20010909-014700-abcdef") -> Rollout:
    """A canary in its second step, or promoted and done, with all that was observed."""
    now = [BEGAN_AT]
    folder = RolloutFolder(layout.rollouts)
    with Store(folder.database, lambda: now[0]) as store:
        assert store.take_lease("tests", 3600)
        observed = Observed(store.database)
        rollout = store.create(parse_spec(SPEC), STABLE, by="anna", id_=id_)

        def go(phase: str, reason: str, seconds: float, numbers: dict[str, Any] | None = None, **changes: object):
            nonlocal rollout
            now[0] = BEGAN_AT + seconds
            before = rollout.state
            state = before.model_copy(update={"phase": phase, "since": now[0], "reason": reason, **changes})
            kind: EventKind = "step" if before.phase == phase else "state"
            decision = Decision(state, (Event(kind, before.phase, state.phase, reason, numbers or {}),))
            rollout = store.save(rollout, decision, holder="tests")

        go("loading", "arms to load: int8", 1)
        go("probing", "all arms are loaded", 3)
        go("running", "step 1 of 2: 10 %", 5, step_started_at=BEGAN_AT + 5)
        observed.add_requests(list(_requests(rollout, BEGAN_AT + 6, 60)))
        for number in range(6):
            observed.add_pair(_pair(rollout, folder.path, number))
        judgement = judge(rollout.spec, observed.samples(rollout, BEGAN_AT + 5), BEGAN_AT + 5)
        verdicts = [each.model_dump(mode="json", exclude={"reason", "limit"}) for each in judgement.verdicts]
        numbers: dict[str, Any] = {"requests": judgement.requests, "pairs": judgement.pairs, "verdicts": verdicts}
        go("running", "step 1 of 2 passed; step 2 of 2: 50 %", 70, numbers, step=1, step_started_at=BEGAN_AT + 70)
        if final:
            go("promoting", "step 2 of 2 passed", 140, promoted="int8", stable_moved=True)
            observed.add_requests([_seen(rollout, BEGAN_AT + 300, "stable", latency_s=9.0)])
            go("done", "int8 is stable", 400)
        else:
            store.note(rollout.id, "12 of 20 requests of int8", judgement, holder="tests")
        store.release_lease("tests")
    return rollout


def _seen(rollout: Rollout, at: float, arm: str, **more: object) -> RequestSeen:
    values = {"outcome": "ok", "latency_s": 0.5, "audio_s": 2.0, "level_dbfs": -20.0, "silence_ratio": 0.2, **more}
    return RequestSeen(at=at, rollout=rollout.id, voice="tiny", arm=arm, **values)  # type: ignore[arg-type]


def _requests(rollout: Rollout, begin: float, count: int) -> Iterator[RequestSeen]:
    for number in range(count):
        arm = "int8" if number % 2 else "stable"
        outcome = "failed" if number == 31 else "ok"
        latency_s = 0.4 + 0.01 * (number % 7) + (0.02 if arm == "int8" else 0)
        yield _seen(rollout, begin + number, arm, outcome=outcome, latency_s=latency_s)


def _pair(rollout: Rollout, folder: Path, number: int) -> PairRecord:
    files = {}
    for arm in ("stable", "int8"):
        files[arm] = f"samples/{rollout.id}/p{number}.{arm}.wav"
        write_tone(folder / files[arm], 220.0 if arm == "stable" else 230.0)
    seen = PairSeen(
        id=f"p{number}",
        at=BEGAN_AT + 10 + number,
        rollout=rollout.id,
        voice="tiny",
        arm="int8",
        text=TEXT if number == 0 else f"text {number}",
        language="en-US",
        seed=number,
        speed=1.0,
        speaker="joe",
    )
    distance = 3.0 if number != 5 else 7.5
    measures = {"duration_ratio": 1.01, "level_difference_db": 0.1 * number, "mel_cepstral_distance_db": distance}
    return PairRecord(seen, measures, files)


def write_tone(file: Path, hertz: float) -> None:
    """A tenth of a second of sound."""
    file.parent.mkdir(parents=True, exist_ok=True)
    tone = (8000 * np.sin(2 * np.pi * hertz * np.arange(1600) / 16_000)).astype("<i2")
    with wave.open(str(file), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(16_000)
        stream.writeframes(tone.tobytes())


def obey_plan(folder: RolloutFolder, name: str = "server-1") -> None:
    """Say of a server that it has done what the plan wants."""
    plan = read_json(folder.plan_file, Plan) or Plan()
    voices = {
        voice: ReplicaVoice(
            stable=planned.stable,
            arms={arm: ArmStatus(state="ready", versions=versions) for arm, versions in planned.arms.items()},
        )
        for voice, planned in plan.voices.items()
    }
    status = ReplicaStatus(
        name=name, pid=1, updated_at=time.time(), generation=plan.generation, phase="ready", voices=voices
    )
    write_json(folder.status_file(name), status)


@contextmanager
def carried_out(layout: Layout) -> Iterator[None]:
    """A controller, and a server that does at once what the plan says, in a thread."""
    folder = RolloutFolder(layout.rollouts)
    sign = SignOfLife(folder, this_process())
    stop = threading.Event()
    faults: list[BaseException] = []

    def run() -> None:
        controller = None
        try:
            while not stop.is_set():
                sign.renew(time.time())
                if controller is None and folder.database.exists():
                    controller = Controller(layout, sign.sign.holder)
                if controller is not None:
                    controller.step()
                    obey_plan(folder)
                stop.wait(0.05)
        except BaseException as error:
            faults.append(error)
        finally:
            if controller is not None:
                controller.close()

    sign.renew(time.time())
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        sign.remove()
    if faults:
        raise faults[0]
