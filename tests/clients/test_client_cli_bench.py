"""`voxrepo bench stream` against a server on real sockets."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner
from voxrepo_client import StreamTiming
from voxrepo_client.load import LoadReport, Record

from tests.clients.protocol_server import Failure, spoken
from voxrepo.cli.bench import app
from voxrepo.cli.bench_stream import TEXTS, Alone, StreamBench, load_summary, window_s

SHORT = ("--streams", "1,3", "--rounds", "2", "--duration-s", "0.5", "--warmup-s", "0.1")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def bench(url, monkeypatch):
    monkeypatch.setenv("VOXREPO_URL", url)
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments: object):
        return CliRunner().invoke(app, ["stream", *map(str, arguments)])

    return invoke


@pytest.fixture
def short_texts(tmp_path):
    (tmp_path / "texts").write_text("\ufeffOne of them.\n\n Two of them, and more. \n", "utf-8")
    return tmp_path / "texts"


def test_measures_each_number_of_streams(bench, peer, short_texts):
    peer.piece_delay_s = 0.02
    result = bench(*SHORT, "--texts", short_texts, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["voice"] == "en-joe"
    one, three = told["loads"]
    assert (one["streams"], three["streams"]) == (1, 3)
    for load in (one, three):
        assert load["finished"] > 3
        assert (load["refused"], load["failed"], load["underruns"]) == (0, {}, 0)
        assert load["gap_ms"]["p50"] >= 15
        assert load["first_piece_ms"]["p50"] < load["total_ms"]["p50"]
        assert load["worst_lag_ms"] < 0
        assert load["real_time_factor"]["p50"] > 0
    # closed loop: three at once finish about three times as many
    assert three["audio_s_per_s"] > 1.7 * one["audio_s_per_s"]
    assert {request.inputs["text"] for request in peer.received} == {b"One of them.", b"Two of them, and more."}


def test_measures_one_stream_at_a_time_beside_whole_answers(bench, peer, short_texts):
    peer.piece_delay_s, peer.delay_s = 0.03, 0.02
    alone = json.loads(bench(*SHORT, "--texts", short_texts, "--json").stdout)["alone"]
    assert [request.model for request in peer.received[:5]] == ["en-joe.stream", *("en-joe.stream", "en-joe") * 2]
    assert alone["rounds"] == 2
    assert alone["audio_s"] == pytest.approx(
        (len(spoken("One of them.")) + len(spoken("Two of them, and more."))) / 2 / 22050, abs=1e-3
    )
    assert alone["cold_first_piece_ms"] >= 20
    assert alone["warm_first_piece_ms"]["p50"] >= 20
    assert alone["whole_answer_ms"]["p50"] >= 20
    assert 0.2 < alone["first_piece_by_whole_answer"] < 5


def test_prints_a_table(bench, short_texts):
    result = bench(*SHORT, "--texts", short_texts)
    assert result.exit_code == 0, result.stderr
    assert "first piece / whole answer" in result.stdout
    header = next(line for line in result.stdout.splitlines() if "audio s/s" in line)
    for column in ("streams", "first p50", "first p99", "gap p50", "gap p99", "worst lag", "total p50", "RTF p50"):
        assert column in header
    rows = [line.split("│")[1].strip() for line in result.stdout.splitlines() if line.startswith("│")]
    assert rows == ["1", "3"]


def test_the_numbers_of_a_load_are_those_of_its_streams():
    def record(timing, end_s, error=None):
        return Record(0, 0.0, end_s, timing.audio_s if timing else 0.0, error, timing)

    early = StreamTiming((0.1, 0.2, 0.4), (0.5, 0.5, 1.0))
    late = StreamTiming((0.2, 1.0), (0.5, 0.5))
    records = (record(early, 0.4), record(late, 1.0), record(None, 0.0, "ServerBusy"), record(None, 0.0, "ServerError"))
    told = load_summary(LoadReport(4, 2.0, records))
    assert told["streams"] == 4
    assert (told["finished"], told["refused"], told["failed"]) == (2, 1, {"ServerError": 1})
    assert told["audio_s_per_s"] == pytest.approx(1.5)
    assert told["first_piece_ms"]["p50"] == pytest.approx(100)
    assert (told["gap_ms"]["p50"], told["gap_ms"]["p99"]) == (pytest.approx(200), pytest.approx(800))
    assert told["worst_lag_ms"] == pytest.approx(300)
    assert told["streams_with_underruns"] == 1
    assert told["total_ms"]["max"] == pytest.approx(1000)
    assert told["real_time_factor"] == {"p50": 0.2, "p95": 1.0, "p99": 1.0, "max": 1.0}


def test_the_window_is_long_enough_for_slow_streams():
    assert window_s(0.1, 8.0, 2.0) == (8.0, 2.0)
    assert window_s(20.0, 8.0, 2.0) == (40.0, 20.0)
    assert window_s(20.0, 8.0, 0.0) == (40.0, 0.0)


def test_a_load_without_success_has_no_times():
    told = load_summary(LoadReport(1, 1.0, (Record(0, 0.0, 0.1, 0.0, "ServerBusy"),)))
    assert (told["finished"], told["refused"], told["failed"]) == (0, 1, {})
    assert told["worst_lag_ms"] is told["gap_ms"]["p50"] is told["total_ms"]["p50"] is None
    assert json.loads(json.dumps(told)) == told


def busy_after(peer, monkeypatch, streams: int, failure: Failure) -> None:
    """Answer so many requests, refuse all others."""
    speak = peer.speak

    def counted(request, received):
        audio = speak(request, received)
        if len(received) >= streams:
            peer.fail = failure
        return audio

    monkeypatch.setattr(peer, "speak", counted)


def test_refused_streams_are_counted_and_no_failure(bench, peer, short_texts, monkeypatch):
    busy_after(peer, monkeypatch, 8, Failure("UNAVAILABLE", 503, "queue full"))
    result = bench(*SHORT, "--texts", short_texts)
    assert result.exit_code == 0, result.stderr
    row = [cell.strip() for cell in result.stdout.splitlines()[-3].split("│")[1:-1]]
    assert row[0] == "3"
    # blank, not zero, where nothing was measured; a refused client waits before it asks again
    assert row[2:7] == [""] * 5
    assert 3 <= int(row[-2]) <= 9
    assert row[-1] == "0"


def test_failed_streams_are_told_and_exit_1(bench, peer, short_texts, monkeypatch):
    busy_after(peer, monkeypatch, 8, Failure("INTERNAL", 500, "internal error"))
    result = bench(*SHORT, "--texts", short_texts, "--json")
    assert result.exit_code == 1
    failed = json.loads(result.stdout)["loads"][-1]["failed"]["ServerError"]
    assert failed >= 3
    assert "streams failed: " in result.stderr
    assert "ServerError" in result.stderr


def test_a_server_that_fails_at_once_exits_1(bench, peer):
    peer.fail = Failure("UNAVAILABLE", 503, "the queue is full")
    result = bench(*SHORT)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "error: the queue is full\n")


def test_a_server_that_does_not_stream_is_told(bench, peer):
    del peer.models["en-joe.stream"]
    result = bench(*SHORT)
    assert result.exit_code == 1
    assert "does not stream" in result.stderr


def test_speaks_texts_of_its_own_to_an_english_voice_only(bench, peer):
    peer.add_voice("zh-baker", ["baker"])
    peer.models["zh-baker"].parameters["voxrepo.language"].string_value = "zh-CN"
    result = bench(*SHORT, "--voice", "zh-baker")
    assert result.exit_code == 2
    assert "zh-baker speaks zh-CN" in result.stderr
    assert "--texts FILE" in result.stderr
    assert bench(*SHORT, "--voice", "en-joe").exit_code == 0
    assert {request.inputs["text"].decode() for request in peer.received} <= set(TEXTS)


def test_asks_which_of_several_voices(bench, peer):
    peer.add_voice("zh-baker", ["baker"])
    result = bench(*SHORT)
    assert result.exit_code == 2
    assert "choose one with --voice: en-joe, zh-baker" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--streams", "1,x"], "--streams has 'x'"),
        (["--streams", "0"], "--streams has '0'"),
        (["--streams", ""], "--streams has ''"),
        (["--streams", "1,,2"], "--streams has ''"),
        (["--streams", "99999"], "--streams has '99999'"),
        (["--streams", "-1"], "--streams has '-1'"),
        (["--texts", "missing"], "missing cannot be read"),
        (["--texts", "empty"], "empty has no text"),
        (["--texts", "latin"], "not valid UTF-8 at byte 1"),
        (["--plot", "a.svg"], "give it the suffix .png"),
        (["--plot", "nowhere/a.png"], "the folder nowhere does not exist"),
        (["--plot", "folder.png"], "folder.png is a folder"),
    ],
)
def test_wrong_usage_exits_2_before_anything_is_spoken(bench, peer, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "latin").write_bytes(b"x\xff")
    (tmp_path / "folder.png").mkdir()
    result = bench(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert peer.received == []


def test_a_plot_without_matplotlib_names_the_extra_before_anything_is_spoken(bench, peer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = bench(*SHORT, "--plot", tmp_path / "a.png")
    assert result.exit_code == 1
    assert "--plot needs the package 'matplotlib'" in result.stderr
    assert "pip install 'voxrepo[bench]'" in result.stderr
    assert peer.received == []


def test_draws_a_plot(bench, short_texts, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra bench is not installed")
    result = bench(*SHORT, "--texts", short_texts, "--json", "--plot", tmp_path / "a.png")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    assert len(json.loads(result.stdout)["loads"]) == 2


def test_draws_what_was_measured(tmp_path, monkeypatch):
    figures = pytest.importorskip("matplotlib.figure", reason="the extra bench is not installed")
    from voxrepo.cli.bench_plot import plot

    drawn = []
    save = figures.Figure.savefig

    def keep(figure, *arguments, **options):
        drawn.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(figures.Figure, "savefig", keep)
    timing = StreamTiming((0.1, 0.2), (0.5, 0.5))
    loads = (
        LoadReport(1, 1.0, (Record(0, 0.0, 0.2, 1.0, None, timing),)),
        LoadReport(32, 1.0, (Record(0, 0.0, 0.1, 0.0, "ServerBusy"),)),
    )
    plot(StreamBench("en-joe", "localhost", Alone(timing, (timing,), (0.4,)), loads), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000
    (figure,) = drawn
    by_title = {axes.get_title(): axes for axes in figure.axes}
    line = by_title["seconds of audio per second"].get_lines()[0]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 32], [1.0, 0.0])
    first = by_title["first piece"].get_lines()[0].get_ydata()
    assert first[0] == 100
    assert first[1] != first[1]  # nothing finished: a hole, not a zero
