from __future__ import annotations

import base64
import io
import json
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("onnx", reason="the optional extra 'convert' is not installed")

import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.convert.graphs import CHANNELS, SYMBOLS, decoder, encoder, generator, save, write_voice_of
from tests.convert.graphs import model as graph_of
from voxrepo.cli.main import app
from voxrepo.convert.sources import find_source
from voxrepo.importers.generic_stage_graph import STAGE_INPUTS, stage_outputs
from voxrepo.quality import judge as judge_module
from voxrepo.quality.judge import JudgeOptions, VersionJudge, judge_versions
from voxrepo.quality.judgement import Judgement
from voxrepo.quality.measuring import Measurer
from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import read_voice, write_voice
from voxrepo_contract.errors import ConfigError, InvalidArgument, NotFound
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.stage import DirectStage, GraphSpec, read_stage, sha256_of, write_stage

OPTIONS = JudgeOptions(made_up=True, timed=False)
LEFT_OUT = {"fixed_pesq": None, "p808_drop": None}
"""What the tiny voice says is no speech, and shorter than these ask for."""


class Opinion:
    def score(self, audio, sample_rate_hz):
        return 4.0


class Pesq:
    def score(self, candidate, reference, sample_rate_hz):
        return 4.644 if np.array_equal(candidate, reference) else 4.5


@pytest.fixture(autouse=True)
def quick_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores of models that other tests look at, and that are optional."""

    def made(*arguments, **options):
        return Measurer(*arguments, **options, opinion=Opinion, pesq=Pesq)

    monkeypatch.setattr(judge_module, "Measurer", made)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout.of(tmp_path)
    write_voice_of(layout)
    return layout


def scaled(model: onnx.ModelProto, output: str, factor: float) -> onnx.ModelProto:
    """The graph with one output multiplied."""
    for node in model.graph.node:
        node.output[:] = [f"{name}_before" if name == output else name for name in node.output]
    model.graph.node.append(helper.make_node("Mul", [f"{output}_before", "factor"], [output]))
    model.graph.initializer.append(numpy_helper.from_array(np.array(factor, np.float32), "factor"))
    return model


def add_version(layout: Layout, stage: str, graph: str, model: onnx.ModelProto, number: int = 2) -> Path:
    old = layout.version_dir(stage_model_name("tiny", stage), 1)
    new = old.with_name(str(number))
    shutil.copytree(old, new)
    spec = read_stage(new)
    file = save(model, new / spec.graphs[graph].file)
    changed = spec.graphs[graph].model_copy(update={"sha256": sha256_of(file)})
    write_stage(new, spec.model_copy(update={"graphs": {**spec.graphs, graph: changed}}))
    return new


def whole_acoustic(layout: Layout, number: int, *, scale: float = 1.0, frames_per_id: int = 1) -> Path:
    """A version of the acoustic stage that is one graph, as ``voxrepo voice create`` leaves where it cannot cut."""
    folder = layout.version_dir("tiny.acoustic", number)
    old = read_stage(layout.version_dir("tiny.acoustic", 1))
    table = np.random.default_rng(3).standard_normal((SYMBOLS, CHANNELS)).astype(np.float32) * scale
    nodes = [
        helper.make_node("Gather", ["table", "phoneme_ids"], ["embedded"]),
        helper.make_node("Concat", ["embedded"] * frames_per_id, ["features"], axis=1),
        helper.make_node("Mul", ["segment_lengths", "per_id"], ["frame_lengths"]),
    ]
    kinds = {"INT64": TensorProto.INT64, "INT32": TensorProto.INT32, "FP32": TensorProto.FLOAT}
    ports = (STAGE_INPUTS, stage_outputs(CHANNELS))
    sides: list[dict[str, tuple[int, list[int | str]]]] = [
        {tensor.name: (kinds[tensor.dtype], list(tensor.dims)) for tensor in side} for side in ports
    ]
    constants = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array(frames_per_id, np.int32), "per_id"),
    ]
    folder.mkdir(exist_ok=True)
    file = save(graph_of(nodes, sides[0], sides[1], constants), folder / "acoustic.onnx")
    spec = GraphSpec(file=file.name, sha256=sha256_of(file), inputs=list(ports[0]), outputs=list(ports[1]))
    write_stage(
        folder,
        DirectStage(program="direct", stage="acoustic", graphs={"model": spec}, interface=old.interface),
    )
    return folder


def judged(layout: Layout, stage: str, candidate: int | Path = 2, **options) -> Judgement:
    given = JudgeOptions(**{"made_up": True, "timed": False, **options})
    return judge_versions(layout, "tiny", stage, 1, candidate, options=given)


@pytest.mark.parametrize("stage", ["acoustic", "vocoder"])
def test_a_version_is_as_good_as_itself(layout: Layout, stage: str):
    judgement = judged(layout, stage, 1)
    assert judgement.verdict == "accepted", judgement.reasons
    assert judgement.sentence == f"accepted: all {len(judgement.gates)} gates pass"
    assert judgement.metrics["fixed_snr_db"] == 120.0
    assert judgement.metrics["mcd_db"] == 0.0
    assert judgement.texts == "10 made-up sequences of the voice's phonemes"


def test_a_vocoder_is_judged_beside_an_acoustic_stage_of_one_graph(layout: Layout):
    whole_acoustic(layout, 2)
    add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 0.98))
    judge = VersionJudge(layout, "tiny", {"acoustic": 2, "vocoder": 1}, OPTIONS)
    judgement = judge.judge({"vocoder": layout.version_dir("tiny.vocoder", 2)})
    assert judgement.verdict == "accepted", judgement.reasons
    assert judgement.metrics["fixed_snr_db"] == pytest.approx(34, abs=0.5)
    assert judgement.metrics["moved_frames_ratio"] == 0.0


def test_acoustic_stages_of_one_graph_are_judged_by_what_they_say(layout: Layout):
    whole_acoustic(layout, 2)
    whole_acoustic(layout, 3, scale=1.02)
    whole_acoustic(layout, 4, frames_per_id=2)
    judge = VersionJudge(layout, "tiny", {"acoustic": 2}, OPTIONS)
    same, near, longer = (judge.judge({"acoustic": layout.version_dir("tiny.acoustic", n)}) for n in (2, 3, 4))
    assert same.verdict == "accepted", same.reasons
    assert same.metrics["fixed_snr_db"] == 120.0
    assert 40 < near.metrics["fixed_snr_db"] < 119
    assert longer.verdict == "refused" and longer.metrics["duration_ratio"] > 1.5
    assert "no durations can be given" in longer.missing["fixed_snr_db"]
    assert "moved_frames_ratio" not in near.metrics


def test_a_judgement_is_the_same_each_time(layout: Layout):
    add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 1.05))
    assert judged(layout, "vocoder") == judged(layout, "vocoder")


def test_a_judge_finds_of_each_candidate_what_a_new_judge_would(layout: Layout):
    louder = add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 1.05))
    other = add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 0.5), 3)
    judge = VersionJudge(layout, "tiny", {"vocoder": 1}, OPTIONS)
    found = [judge.judge({"vocoder": folder}) for folder in (louder, other, louder)]
    assert found[0] == found[2]
    assert found[0] == judged(layout, "vocoder", louder)
    assert found[1] == judged(layout, "vocoder", other)


def test_a_vocoder_that_is_louder_is_refused_with_the_numbers(layout: Layout):
    add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 0.5))
    judgement = judged(layout, "vocoder")
    assert judgement.verdict == "refused"
    assert not judgement.accepted
    assert any(
        reason.startswith("loudness difference is -6.0") and reason.endswith("limit: ± 1.5 dB")
        for reason in judgement.reasons
    ), judgement.reasons
    assert judgement.difference == "vocoder"
    assert judgement.metrics["fixed_snr_db"] == pytest.approx(6.02, abs=0.1)


def test_an_acoustic_version_that_is_slower_is_refused_by_its_length_and_its_samples_still_line_up(layout: Layout):
    add_version(layout, "acoustic", "encoder", scaled(encoder(), "durations", 1.3))
    judgement = judged(layout, "acoustic")
    assert judgement.verdict == "refused"
    assert judgement.metrics["duration_ratio"] > 1.05
    assert judgement.metrics["moved_frames_ratio"] > 0.05
    assert judgement.metrics["fixed_snr_db"] == 120.0


def test_fixed_gates_are_not_asked_of_an_acoustic_version_unless_wanted(layout: Layout):
    add_version(layout, "acoustic", "decoder", scaled(decoder(), "features", 1.02))
    assert "fixed_mcd_db" not in {gate.metric for gate in judged(layout, "acoustic").gates}
    asked = judged(layout, "acoustic", changes={"fixed_snr_db": 119.0})
    assert [gate.outcome for gate in asked.gates if gate.metric == "fixed_snr_db"] == ["fail"]


def test_a_version_that_fails_is_refused_with_its_own_words(layout: Layout):
    add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 0.0))
    judgement = judged(layout, "vocoder")
    assert judgement.verdict == "refused"
    assert "the vocoder returned silence" in judgement.reasons[0]
    assert judgement.metrics == {}


def test_values_that_are_no_numbers_are_a_fault(layout: Layout):
    add_version(layout, "acoustic", "decoder", scaled(decoder(), "features", np.inf))
    judgement = judged(layout, "acoustic")
    assert judgement.verdict == "refused"
    assert "features" in judgement.reasons[0]


def test_a_folder_outside_the_repository_can_be_judged(layout: Layout, tmp_path: Path):
    made = add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 1.01))
    moved = tmp_path / "staging"
    made.rename(moved)
    judgement = judged(layout, "vocoder", moved)
    assert judgement.candidate["vocoder"] == "candidate"
    assert judgement.reference["vocoder"] == "1"


def test_what_was_not_measured_makes_it_inconclusive(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    def absent():
        raise ConfigError("the package pesq is not installed; install it")

    def made(*arguments, **options):
        return Measurer(*arguments, **options, opinion=Opinion, pesq=absent)

    monkeypatch.setattr(judge_module, "Measurer", made)
    judgement = judged(layout, "vocoder", 1)
    assert judgement.verdict == "inconclusive"
    assert not judgement.accepted
    assert judgement.missing == {"fixed_pesq": "the package pesq is not installed; install it"}
    assert "PESQ, wide band is not measured: the package pesq is not installed" in judgement.sentence
    assert judged(layout, "vocoder", 1, changes={"fixed_pesq": None}).accepted


def test_sizes_and_time_are_measured_in_turns(layout: Layout):
    add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 1.01))
    (cost,) = judged(layout, "vocoder", timed=True).costs
    folder = layout.version_dir("tiny.vocoder", 2)
    assert cost.candidate_bytes == (folder / "generator.onnx").stat().st_size
    assert cost.time_ratio is not None and 0.2 < cost.time_ratio < 5


def test_emulated_graphs_are_run_in_their_gears(layout: Layout):
    gears = ("--gears", "batch=1,2;ids=64,300;frames=32,600")
    arguments = ("convert", "tiny", "--root", str(layout.root), "--soc", "Ascend910B3", "--no-use", *gears)
    converted = CliRunner().invoke(app, arguments)
    assert converted.exit_code == 0, converted.output
    assert read_stage(layout.version_dir("tiny.vocoder", 2)).graphs["generator"].device == "npu"
    for stage in ("vocoder", "acoustic"):
        # the tiny voice has no pitch where rounding differs
        judgement = judged(layout, stage, changes={"pitch_difference_cents": None, "voiced_difference": None})
        assert judgement.accepted, judgement.reasons
        assert judgement.metrics["fixed_snr_db"] > 40


def test_a_graph_for_a_chip_is_refused_with_the_way_out(layout: Layout):
    made = add_version(layout, "vocoder", "generator", generator())
    spec = read_stage(made)
    graph = spec.graphs["generator"].model_copy(update={"device": "npu"})
    write_stage(made, spec.model_copy(update={"graphs": {"generator": graph}}))
    with pytest.raises(
        ConfigError, match="compiled for a chip, and versions are compared on a CPU: compare the version"
    ):
        judged(layout, "vocoder")


def test_a_pinned_neighbour_for_a_chip_is_replaced_by_its_source_and_that_is_said(layout: Layout):
    made = add_version(layout, "acoustic", "decoder", decoder())
    spec = read_stage(made)
    graphs = {name: graph.model_copy(update={"device": "npu"}) for name, graph in spec.graphs.items()}
    provenance = {**spec.provenance, "conversion": {"source_version": 1}}
    write_stage(made, spec.model_copy(update={"graphs": graphs, "provenance": provenance}))
    voice = read_voice(layout, "tiny")
    stages = voice.stages.model_copy(update={"acoustic": voice.stages.acoustic.model_copy(update={"version": 2})})
    write_voice(layout, voice.model_copy(update={"stages": stages}))
    assert find_source(layout, read_voice(layout, "tiny"), "acoustic").version == 1
    judgement = judged(layout, "vocoder", 1)
    assert judgement.accepted
    assert judgement.reference["acoustic"] == "1"
    assert "acoustic version 2, which the voice pins, is compiled for a chip" in judgement.notes[0]


def test_refuses_what_is_not_there(layout: Layout):
    with pytest.raises(NotFound, match=r"tiny\.vocoder has no version 7"):
        judged(layout, "vocoder", 7)
    with pytest.raises(ConfigError, match="no stage of a voice"):
        judged(layout, "generator")


def test_refuses_stages_that_do_not_fit(layout: Layout):
    made = add_version(layout, "vocoder", "generator", generator())
    spec = read_stage(made)
    interface = spec.interface.model_copy(update={"hop_length_samples": 7})
    write_stage(made, spec.model_copy(update={"interface": interface}))
    with pytest.raises(ConfigError, match="hop_length_samples 6 and vocoder version 1 has 7"):
        judged(layout, "vocoder")


def run(root: Path, *arguments: str) -> Result:
    environment = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    return CliRunner().invoke(app, ["quality", *arguments, "--root", str(root)], env=environment)


def test_the_command_shows_the_gates_and_ends_with_the_verdict(layout: Layout):
    result = run(layout.root, "tiny.vocoder@1", "1", "--made-up")
    assert result.exit_code == 0, result.output
    assert "PESQ, wide band" in result.stdout
    assert result.stdout.rstrip().endswith("accepted: all 10 gates pass")


def test_the_exit_status_tells_refused_from_inconclusive(layout: Layout):
    add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 0.5))
    refused = run(layout.root, "tiny.vocoder@1", "tiny.vocoder@2", "--made-up", "--json")
    assert refused.exit_code == 3
    assert json.loads(refused.stdout)["verdict"] == "refused"
    open_ = run(layout.root, "tiny.vocoder@1", "1", "--made-up", "--gate", "error_rate=0.15")
    assert open_.exit_code == 4
    assert "recogniser's error rate is not measured" in open_.stdout


def test_two_sets_of_versions_can_be_compared(layout: Layout):
    add_version(layout, "vocoder", "generator", scaled(generator(), "audio", 1.01))
    add_version(layout, "acoustic", "decoder", scaled(decoder(), "features", 1.001))
    result = run(layout.root, "tiny", "--set", "vocoder=2", "--set", "acoustic=2", "--made-up", "--json")
    judgement = Judgement.model_validate_json(result.stdout)
    assert judgement.difference == "acoustic"
    assert judgement.candidate == {"text_frontend": "1", "acoustic": "2", "vocoder": "2"}
    assert [cost.stage for cost in judgement.costs] == ["acoustic", "vocoder"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("tiny.vocoder@1",), "name a second version, such as tiny.vocoder@2"),
        (("tiny",), "say with --set stage=version what the candidate has"),
        (("tiny.vocoder@1", "tiny.acoustic@1"), "are different stages"),
        (("tiny.vocoder@1", "1", "--with", "vocoder=2"), "the versions compared are of this stage"),
        (("tiny.vocoder@1", "1", "--gate", "mos=4"), "write a gate as name=limit"),
        (("tiny.vocoder@1", "1", "--made-up", "--texts", "x.txt"), "give one of them"),
        (("tiny.vocoder@1", "9"), "has no version 9"),
    ],
)
def test_the_command_refuses_what_makes_no_sense(layout: Layout, arguments: tuple[str, ...], reason: str):
    result = run(layout.root, *arguments)
    assert result.exit_code == 1
    assert reason in result.stderr


def test_the_report_holds_plots_and_audio_and_needs_nothing_else(layout: Layout, tmp_path: Path):
    pytest.importorskip("matplotlib", reason="the extra 'bench' is not installed")
    add_version(layout, "acoustic", "encoder", scaled(encoder(), "durations", 1.1))
    out = tmp_path / "out"
    result = run(layout.root, "tiny.acoustic@1", "2", "--made-up", "-o", str(out), "--samples", "4")
    assert result.exit_code in {0, 3}, result.output
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") == 2
    audio = [part.split('"')[0] for part in page.split("data:audio/wav;base64,")[1:]]
    assert len(audio) == 12  # reference, candidate, candidate at the reference's durations
    with wave.open(io.BytesIO(base64.b64decode(audio[0], validate=True))) as stream:
        assert (stream.getframerate(), stream.getnchannels(), stream.getsampwidth()) == (16_000, 1, 2)
        assert stream.getnframes() > 0
    assert "<script" not in page and "http://" not in page.replace("http://www.w3.org", "")
    markdown = (out / "report.md").read_text(encoding="utf-8")
    assert "| duration ratio | free |" in markdown
    judgement = Judgement.model_validate_json((out / "report.json").read_text(encoding="utf-8"))
    assert judgement.voice == "tiny"
    assert {path.name for path in out.iterdir()} == {
        "report.html", "report.md", "report.json", "texts.svg", "spectrum.svg"
    }  # fmt: skip


def test_a_text_cannot_become_markup(layout: Layout, tmp_path: Path):
    from voxrepo.quality.report import QualityReport, choose_samples
    from voxrepo.quality.report_files import write_report

    judge = VersionJudge(layout, "tiny", {"vocoder": 1}, OPTIONS)
    judgement = judge.judge({"vocoder": layout.version_dir("tiny.vocoder", 1)}, {"vocoder": "1"})
    text = "<img src=x onerror=alert(1)> | a"
    rows = [row.model_copy(update={"text": text}) for row in judgement.rows]
    for spoken in judge.spoken:
        spoken.text = text
    changed = judgement.model_copy(update={"rows": rows})
    write_report(QualityReport(changed, choose_samples(changed, judge.spoken), 16_000), tmp_path / "out", plots=False)
    assert "<img" not in (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert r"\<img src=x onerror=alert(1)\> \| a" in (tmp_path / "out/report.md").read_text(encoding="utf-8")


def test_a_judge_has_one_front_end(layout: Layout):
    judge = VersionJudge(layout, "tiny", {}, OPTIONS)
    with pytest.raises(InvalidArgument, match="no stage that differs"):
        judge.judge({})
