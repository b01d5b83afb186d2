from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.rollout.prepared import SPEC, carried_out, make_rollout, make_root, obey_plan
from voxrepo.cli.main import app
from voxrepo.repository.layout import Layout
from voxrepo.rollout.plan import RolloutFolder
from voxrepo.rollout.spec import CanaryPolicy, parse_spec
from voxrepo.rollout.store import Store


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return make_root(tmp_path)


def run(layout: Layout, *arguments: str) -> Any:
    result = CliRunner().invoke(app, ["rollout", *arguments, "--root", str(layout.root)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def start(layout: Layout, *arguments: str) -> Any:
    return run(layout, "start", "--voice", "tiny", "--set", "vocoder=2", *arguments)


def database(layout: Layout) -> Path:
    return RolloutFolder(layout.rollouts).database


# start


def test_options_and_a_file_say_the_same(layout: Layout):
    by_options = start(layout, "--arm", "int8", "--steps", "1:60s,10%:5m:50", "--keep-previous", "1.5h", "--check")
    assert by_options.exit_code == 0
    spec = parse_spec(by_options.stdout)
    assert isinstance(spec.policy, CanaryPolicy)
    assert [(step.weight, step.hold_s, step.min_requests) for step in spec.policy.steps] == [
        (1, 60, 200),
        (10, 300, 50),
    ]
    assert (spec.arms, spec.keep_previous_s) == ({"int8": {"vocoder": 2}}, 5400)
    assert spec.gates, "the defaults are shown"
    Path("spec.yaml").write_text(by_options.stdout, encoding="utf-8")
    by_file = run(layout, "start", "spec.yaml", "--check")
    assert by_file.stdout == by_options.stdout
    assert not database(layout).exists()


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("--policy", "ab", "--weight", "50", "--winner", "latency_p50_ms"), "ab"),
        (("--policy", "shadow", "--percent", "30", "--min-pairs", "20", "--then", "promote"), "shadow"),
        (("--policy", "overflow", "--above-wait", "2s", "--below-wait", "500ms"), "overflow"),
        (("--policy", "tiered"), "tiered"),
        (("--resource-preserving",), "canary"),
        (("--min-requests", "7"), "canary"),
    ],
)
def test_each_policy_can_be_asked_for_by_options(layout: Layout, arguments: tuple[str, ...], kind: str):
    result = start(layout, *arguments, "--check")
    assert result.exit_code == 0, result.stderr
    assert parse_spec(result.stdout).policy.kind == kind


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a file SPEC.yaml, or --voice"),
        (("--voice", "tiny"), "give a file SPEC.yaml, or --voice"),
        (("--voice", "nobody", "--set", "vocoder=2"), "there is no voice 'nobody'; voices: tiny"),
        (("--voice", "tiny", "--set", "vocoder=9"), "tiny.vocoder has no version 9; versions: 1, 2"),
        (("--voice", "tiny", "--set", "vocoder=1"), "equal to the stable arm"),
        (("--voice", "tiny", "--set", "vocoder=two"), "--set vocoder: 'two' is no whole number"),
        (("--voice", "tiny", "--set", "vocoder"), "'vocoder' is not of the form name=value"),
        (("--voice", "tiny", "--set", "voice=2"), "unknown stage 'voice'"),
        (("--voice", "tiny", "--set", "vocoder=2", "--arm", "stable"), "'stable' is reserved"),
        (("--voice", "tiny", "--set", "vocoder=2", "--steps", "50:1m,10:1m"), "the weight 10 follows 50"),
        (("--voice", "tiny", "--set", "vocoder=2", "--steps", "50:soon"), "--steps, step 1: 'soon' is no time"),
        (("--voice", "tiny", "--set", "vocoder=2", "--steps", "5,101"), "--steps, step 2: '101' is no share"),
        (
            ("--voice", "tiny", "--set", "vocoder=2", "--weight", "5"),
            "--weight belongs to the policy ab, not to 'canary'",
        ),
        (("--voice", "tiny", "--set", "vocoder=2", "--policy", "ab"), "needs the arm's share"),
        (("--voice", "tiny", "--set", "vocoder=2", "--policy", "overflow"), "needs --above-wait and --below-wait"),
        (("--voice", "tiny", "--set", "acoustic=2", "--policy", "tiered"), "only the vocoder may differ"),
        (("absent.yaml",), "absent.yaml: the file is missing"),
        (("absent.yaml", "--voice", "tiny"), "give a file or options, not both"),
        (("--voice", "tiny", "--set", "vocoder=2"), "no controller runs; `voxrepo serve` starts one"),
    ],
)
def test_what_cannot_be_begun_is_refused_before_anything_is_written(
    layout: Layout, arguments: tuple[str, ...], message: str
):
    result = run(layout, "start", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not database(layout).exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("{vocoder: 2}", "{vocoder: 7}"), "spec.yaml:2: arms.int8.vocoder: tiny.vocoder has no version 7"),
        (("weight: 50", "weight: 5"), "spec.yaml:6: policy.canary.steps: the weight 5 follows 10"),
        (("voice: tiny", "voice: tiny\nvoice: tiny"), "spec.yaml:2: the key 'voice' is given twice"),
        (("metric: error_ratio", "metric: beauty"), "spec.yaml:10: gates.0.metric: unknown metric"),
    ],
)
def test_a_fault_of_a_file_is_told_with_its_line(layout: Layout, change: tuple[str, str], message: str):
    text = SPEC.replace(*change)
    assert text != SPEC
    Path("spec.yaml").write_text(text, encoding="utf-8")
    result = run(layout, "start", "spec.yaml")
    assert result.exit_code == 2
    assert message in result.stderr


def test_versions_that_do_not_fit_are_told_with_both_values(layout: Layout):
    file = layout.version_dir("tiny.vocoder", 2) / "stage.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("sample_rate_hz: 16000", "sample_rate_hz: 22050"))
    result = start(layout)
    assert result.exit_code == 2
    assert "22050" in result.stderr and "16000" in result.stderr


def test_a_second_rollout_of_a_voice_is_refused(layout: Layout):
    first = make_rollout(layout)
    result = start(layout)
    assert result.exit_code == 2
    assert f"the rollout {first.id} of tiny has not ended" in result.stderr
    with Store(database(layout)) as store:
        assert len(store.rollouts()) == 1


def test_start_with_wait_follows_to_a_rollback(layout: Layout):
    # no gate is met, since nobody speaks: it waits in its first step until it is aborted
    with carried_out(layout):
        assert start(layout, "--arm", "int8").exit_code == 0
        assert wait_for(layout, "running")
        aborted = run(layout, "abort", "tiny", "--reason", "a sore throat")
        assert aborted.exit_code == 0
        assert "running -> aborting: abort by" in aborted.stdout and "a sore throat" in aborted.stdout
        watched = run(layout, "watch", "tiny")
    assert watched.exit_code == 1
    lines = watched.stdout.splitlines()
    assert "created: canary of tiny, arms int8 (vocoder 2)" in lines[0]
    assert "aborting -> rolled back" in lines[-1]


def test_start_with_wait_ends_with_nought_when_it_is_done(layout: Layout):
    spec = SPEC.replace("hold_s: 60, min_requests: 20", "hold_s: 0, min_requests: 1") + "keep_previous_s: 0\n"
    Path("spec.yaml").write_text(spec, encoding="utf-8")
    with carried_out(layout):

        def promote() -> None:
            assert wait_for(layout, "running")
            assert run_quietly(layout, "promote", "tiny") == 0

        thread = threading.Thread(target=promote)
        thread.start()
        result = run(layout, "start", "spec.yaml", "--wait")
        thread.join()
    assert result.exit_code == 0, result.stderr
    assert "promoting -> done" in result.stdout.splitlines()[-1]
    assert "version: 2" in layout.voice_file("tiny").read_text(encoding="utf-8")


def run_quietly(layout: Layout, kind: str, name: str) -> int:
    """A command without the runner, which owns stdout while the other one runs."""
    from voxrepo.cli.rollout_follow import opened, order
    from voxrepo.rollout.decision import Command
    from voxrepo.rollout.naming import find_rollout

    with opened(layout) as store:
        order(store, layout, find_rollout(store, name), Command(kind=kind))  # type: ignore[arg-type]
    return 0


def wait_for(layout: Layout, phase: str) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if database(layout).exists():
            with Store(database(layout)) as store:
                if any(rollout.state.phase == phase for rollout in store.rollouts()):
                    return True
        time.sleep(0.05)
    return False


# commands


def test_commands_are_carried_out_and_their_events_shown(layout: Layout):
    make_rollout(layout)
    with carried_out(layout):
        assert "running -> paused: pause by" in run(layout, "pause", "tiny", "--reason", "lunch").stdout
        assert "paused -> running: resume by" in run(layout, "resume").stdout
        weighed = run(layout, "weights", "tiny", "int8=20%")
        assert "weights: int8 20 %; set weights by" in weighed.stdout
        shown = json.loads(run(layout, "status", "tiny", "--json").stdout)
        assert shown["rollouts"][0]["weights"] == {"stable": 80.0, "int8": 20.0}
        assert shown["rollouts"][0]["replicas"][0]["arms"] == {"int8": "ready"}
        assert shown["controller"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("weights", "tiny", "other=20"), "there is no arm 'other'; arms: int8"),
        (("weights", "tiny", "int8=120"), "'120' is no share"),
        (("weights", "tiny", "int8=20", "stable=20"), "must sum to 100"),
        (("resume", "tiny"), "it is running, not paused"),
        (("promote", "tiny", "--arm", "other"), "there is no arm 'other'"),
        (("promote", "tiny"), "not all arms are ready (no server is alive)"),
        (("pause", "nobody"), "there is no rollout 'nobody'"),
    ],
)
def test_commands_that_cannot_be_carried_out_are_refused_at_once(
    layout: Layout, arguments: tuple[str, ...], message: str
):
    rollout = make_rollout(layout)
    result = run(layout, *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    with Store(database(layout)) as store:
        assert store.commands(rollout.id) == []


def test_a_command_without_a_controller_is_left_for_the_next_one(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("voxrepo.cli.rollout_follow.COMMAND_WAIT_S", 0.2)
    rollout = make_rollout(layout)
    result = run(layout, "abort", "tiny")
    assert result.exit_code == 1
    assert "the command is carried out as soon as one does" in result.stderr
    assert "not carried out yet: abort by" in run(layout, "status").stdout
    with Store(database(layout)) as store:
        assert [command.kind for command in store.commands(rollout.id)] == ["abort"]


def test_an_ended_rollout_takes_no_commands(layout: Layout):
    make_rollout(layout, final=True)
    result = run(layout, "abort", "tiny")
    assert result.exit_code == 1
    assert "no rollout is under way for 'tiny'" in result.stderr


# looking


def test_status_shows_what_is_known(layout: Layout):
    make_rollout(layout)
    obey_plan(RolloutFolder(layout.rollouts))
    shown = run(layout, "status").stdout
    for word in (
        "running, step 2 of 2",
        "waiting: 12 of 20 requests of int8",
        "no controller runs",
        "vocoder 2",
        "50 %",
        "server-1",
        "latency_p50_ms",
        "at most 1.5 times stable",
        "probing -> running: step 1 of 2: 10 %",
    ):
        assert word in shown


def test_status_of_nothing_says_so(layout: Layout):
    nothing = run(layout, "status")
    assert nothing.exit_code == 1
    assert "there is no rollout yet" in nothing.stderr
    assert not database(layout).exists(), "looking makes no database"
    make_rollout(layout, final=True)
    ended = run(layout, "status")
    assert ended.exit_code == 0
    assert "no rollout is under way" in ended.stderr
    assert json.loads(run(layout, "status", "--json").stdout) == {"controller": None, "rollouts": []}


def test_watch_of_an_ended_rollout_prints_it_and_ends(layout: Layout):
    make_rollout(layout, final=True)
    result = run(layout, "watch", "tiny")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 7


def test_watch_on_a_terminal_draws_a_picture(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    make_rollout(layout, final=True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = run(layout, "watch", "tiny")
    assert result.exit_code == 0
    assert "\x1b[?25l" in result.stdout, "the cursor is hidden while it is drawn anew"
    assert "int8 (stable now)" in result.stdout and "vocoder 2" in result.stdout


def test_history_lists_rollouts_and_events(layout: Layout):
    ended = make_rollout(layout, final=True, id_="20010908-000000-aaaaaa")
    running = make_rollout(layout)
    listed = run(layout, "history").stdout
    assert ended.id in listed and running.id in listed
    lines = [json.loads(line) for line in run(layout, "history", "--json").stdout.splitlines()]
    assert [(line["id"], line["phase"]) for line in lines] == [(ended.id, "done"), (running.id, "running")]
    events = [json.loads(line) for line in run(layout, "history", ended.id, "--json").stdout.splitlines()]
    assert [event["to_phase"] for event in events][-2:] == ["promoting", "done"]
    assert events[4]["numbers"]["requests"] == {"stable": 30, "int8": 30}
    assert "running -> promoting: step 2 of 2 passed" in run(layout, "history", ended.id).stdout


def test_report_writes_its_files_where_it_is_told(layout: Layout):
    rollout = make_rollout(layout, final=True)
    assert run(layout, "report", "tiny", "--out", "told", "--samples", "1").exit_code == 0
    assert {file.name for file in Path("told").iterdir()} == {
        *("report.html", "report.md", "report.json", "weights.svg", "latency.svg", "quality.svg"),
    }
    assert run(layout, "report", "tiny", "--no-plots").exit_code == 0
    assert {file.name for file in Path(f"rollout-{rollout.id}").iterdir()} == {
        "report.html",
        "report.md",
        "report.json",
    }


def test_report_without_matplotlib_says_what_to_do(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    make_rollout(layout, final=True)
    result = run(layout, "report", "tiny")
    assert result.exit_code == 1
    assert "voxrepo[bench]" in result.stderr and "--no-plots" in result.stderr


def test_a_damaged_database_is_told_in_one_sentence(layout: Layout):
    database(layout).parent.mkdir(parents=True)
    database(layout).write_bytes(b"not a database at all" * 100)
    for command in (("status",), ("history",), ("watch",), ("report",)):
        result = run(layout, *command)
        assert result.exit_code == 1
        assert "is damaged" in result.stderr
