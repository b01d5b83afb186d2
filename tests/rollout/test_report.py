from __future__ import annotations

import base64
import io
import json
import sys
import wave
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest

from tests.rollout.prepared import TEXT, make_rollout, make_root
from voxrepo.rollout.plan import RolloutFolder
from voxrepo.rollout.report import Report
from voxrepo.rollout.report_files import write_report
from voxrepo.rollout.report_making import make_report
from voxrepo.rollout.store import Store
from voxrepo_contract.errors import ConfigError

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Tags of a page; a tag that is not closed where it must be is an error."""

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def sources(self, tag):
        return [attrs["src"] for name, attrs in self.tags if name == tag]


def decoded(source, kind):
    head, _, body = source.partition(",")
    assert head == f"data:{kind};base64"
    return base64.b64decode(body, validate=True)


@pytest.fixture
def layout(tmp_path):
    return make_root(tmp_path)


def made(layout, *, final=True, **options):
    rollout = make_rollout(layout, final=final)
    with Store(RolloutFolder(layout.rollouts).database) as store:
        return make_report(store, rollout, layout.rollouts, **options)


def test_the_page_holds_plots_and_audio_and_needs_nothing_else(layout, tmp_path):
    write_report(made(layout), tmp_path / "out")
    page = Page((tmp_path / "out/report.html").read_text(encoding="utf-8"))
    plots = [decoded(source, "image/svg+xml") for source in page.sources("img")]
    assert len(plots) == 3
    for plot in plots:
        assert ElementTree.fromstring(plot).tag.endswith("svg")
    audio = [decoded(source, "audio/wav") for source in page.sources("audio")]
    assert len(audio) == 12
    with wave.open(io.BytesIO(audio[0])) as stream:
        assert stream.getnframes() == 1600
    assert not [attrs for tag, attrs in page.tags if tag in {"script", "link"} or "href" in attrs]
    told = "".join(page.text)
    assert TEXT in told  # as text: it began no tag
    for word in ("step 1 of 2 passed", "int8 is stable", "latency_p50_ms", "at most 1.5 times stable", "differs most"):
        assert word in told


def test_the_json_is_the_report(layout, tmp_path):
    report = made(layout).report
    write_report(made_again(layout), tmp_path / "out", plots=False)
    text = (tmp_path / "out/report.json").read_text(encoding="utf-8")
    read = Report.model_validate_json(text)
    assert read.model_copy(update={"made_at": report.made_at}) == report
    assert json.loads(text)["format"] == "voxrepo-rollout-report-1"


def made_again(layout):
    with Store(RolloutFolder(layout.rollouts).database) as store:
        return make_report(store, store.rollouts()[-1], layout.rollouts)


def test_numbers_are_those_that_were_observed(layout):
    report = made(layout).report
    stable, int8 = report.arms
    assert (stable.requests, int8.requests) == ({"ok": 30}, {"ok": 29, "failed": 1})
    assert int8.metrics["error_ratio"].value == pytest.approx(1 / 30)
    assert int8.metrics["error_ratio"].high == pytest.approx(0.1667, abs=1e-3)
    assert int8.metrics["level_difference_db"].value == pytest.approx(0.25)
    assert report.pairs == {"int8": 6}
    assert [share.weights for share in report.shares][-2:] == [{"stable": 50.0, "int8": 50.0}, {}]
    (decision,) = report.decisions
    assert [(each.metric, each.verdict, each.limit) for each in decision.verdicts] == [
        ("error_ratio", "pass", "at most 0.2"),
        ("latency_p50_ms", "pass", "at most 1.5 times stable"),
        ("level_difference_db", "pass", "from -3 to 3 dB"),
    ]
    assert report.ended_at is not None
    assert report.events[-1].to_phase == "done"


def test_what_the_stable_arm_serves_after_the_promotion_is_not_held_against_the_old_one(layout):
    report = made(layout).report
    assert report.after_promotion == {"ok": 1}
    assert report.arms[0].metrics["latency_p99_ms"].value < 1000  # the one of 9 s came after it


def test_samples_are_those_that_differ_most_and_the_first(layout):
    report = made(layout, samples=3).report
    assert [(sample.id, sample.why) for sample in report.samples] == [
        ("p5", "differs most"),
        ("p0", "among the first"),
        ("p1", "among the first"),
    ]


def test_samples_that_are_gone_or_outside_are_left_out(layout, tmp_path):
    rollout = make_rollout(layout)
    folder = RolloutFolder(layout.rollouts)
    (folder.samples / rollout.id / "p0.int8.wav").unlink()
    (tmp_path / "secret.wav").write_bytes(b"x")
    with Store(folder.database) as store:
        store.database.connection.execute(
            "UPDATE pairs SET files = ? WHERE id = 'p1'",
            (json.dumps(dict.fromkeys(("stable", "int8"), "../../../secret.wav")),),
        )
        report = make_report(store, rollout, layout.rollouts).report
    assert sorted(sample.id for sample in report.samples) == ["p2", "p3", "p4", "p5"]


def test_markdown_keeps_its_tables_whatever_a_text_says(layout, tmp_path):
    report = made(layout)
    with Store(RolloutFolder(layout.rollouts).database) as store:
        store.database.connection.execute("DROP TRIGGER events_stay")
        store.database.connection.execute("UPDATE events SET reason = 'a | b\nc <b> `d`' WHERE kind = 'created'")
        report = make_report(store, store.rollouts()[-1], layout.rollouts)
    write_report(report, tmp_path / "out")
    text = (tmp_path / "out/report.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if "| created |" in line]
    assert line.endswith(r"| a \| b c \<b\> \`d\` |")
    for name in ("weights", "latency", "quality"):
        assert f"]({name}.svg)" in text
        assert (tmp_path / f"out/{name}.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_rollout_of_which_nothing_was_observed_has_a_report_too(layout, tmp_path):
    from tests.rollout.prepared import SPEC, STABLE
    from voxrepo.rollout.spec import parse_spec

    with Store(RolloutFolder(layout.rollouts).database) as store:
        report = make_report(store, store.create(parse_spec(SPEC), STABLE), layout.rollouts)
    write_report(report, tmp_path / "out")
    page = Page((tmp_path / "out/report.html").read_text(encoding="utf-8"))
    assert len(page.sources("img")) == 1
    assert page.sources("audio") == []


def test_equal_reports_have_equal_plots(layout, tmp_path):
    report = made(layout)
    write_report(report, tmp_path / "one")
    write_report(report, tmp_path / "other")
    for name in ("weights.svg", "latency.svg", "quality.svg", "report.html"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_without_matplotlib_plots_are_refused_and_the_rest_is_written(layout, tmp_path, monkeypatch):
    report = made(layout)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"needs the package 'matplotlib'.*bench"):
        write_report(report, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write_report(report, tmp_path / "out", plots=False)
    assert Page((tmp_path / "out/report.html").read_text(encoding="utf-8")).sources("img") == []


def test_a_folder_that_cannot_be_written_is_said(layout, tmp_path):
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    with pytest.raises(ConfigError, match="the report cannot be written"):
        write_report(made(layout), tmp_path / "out", plots=False)
