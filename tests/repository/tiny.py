"""Voices whose files are described rightly and hold nothing: enough for everything short of running them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from voxrepo.repository.layout import Layout
from voxrepo.repository.voice import VoiceSpec, write_voice
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.stage import (
    AnyStage,
    FileEntry,
    GraphSpec,
    GraphTensor,
    Interface,
    LengthRegulatedOptions,
    LengthRegulatedStage,
    TextFrontendOptions,
    TextFrontendStage,
    WindowedOptions,
    WindowedStage,
    sha256_of,
    write_stage,
)

CHANNELS = 8
SAMPLE_RATE_HZ = 16_000
INVENTORY = "0" * 64
DIRECT_CONFIG = """\
name: "echo"
backend: "ascend_om"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ 2 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 2 ] }
"""


def graph_spec(folder: Path, name: str) -> GraphSpec:
    file = folder / f"{name}.onnx"
    file.write_bytes(f"graph {name}".encode())
    tensor = GraphTensor(name="x", dtype="FP32", dims=["batch", 2])
    return GraphSpec(file=file.name, sha256=sha256_of(file), inputs=[tensor], outputs=[tensor])


def voice_spec(name: str = "tiny", **changes: Any) -> VoiceSpec:
    stage: dict[str, Any] = {"version": 1}
    return VoiceSpec.model_validate(
        {
            "voice": name,
            "language": "en-US",
            "sample_rate_hz": SAMPLE_RATE_HZ,
            "speakers": ["joe"],
            "stages": {"text_frontend": stage, "acoustic": stage, "vocoder": stage},
            **changes,
        }
    )


def write_stages(layout: Layout, name: str, version: int = 1, speakers: tuple[str, ...] = ("joe",)) -> None:
    """The three stage versions of a voice."""
    folders = {}
    for stage in ("text_frontend", "acoustic", "vocoder"):
        folders[stage] = layout.version_dir(stage_model_name(name, stage), version)
        folders[stage].mkdir(parents=True)
    table = folders["text_frontend"] / "inventory.json"
    table.write_text("{}", encoding="utf-8")
    stages: dict[str, AnyStage] = {
        "text_frontend": TextFrontendStage(
            program="text_frontend",
            stage="text_frontend",
            files={"inventory": FileEntry(file=table.name, sha256=sha256_of(table))},
            interface=Interface(inventory_sha256=INVENTORY, speakers=len(speakers)),
            options=TextFrontendOptions(
                language="en-US", phonemizer="espeak", phonemizer_voice="en-us", speakers=list(speakers)
            ),
        ),
        "acoustic": LengthRegulatedStage(
            program="length_regulated",
            stage="acoustic",
            graphs={name: graph_spec(folders["acoustic"], name) for name in ("encoder", "decoder")},
            interface=Interface(
                inventory_sha256=INVENTORY,
                speakers=len(speakers),
                feature_kind="vits_latent",
                channels=CHANNELS,
                hop_length_samples=256,
                sample_rate_hz=SAMPLE_RATE_HZ,
            ),
            options=LengthRegulatedOptions(noise_scale=0.6, noise_w_scale=0.8, length_scale=1.0),
        ),
        "vocoder": WindowedStage(
            program="windowed",
            stage="vocoder",
            graphs={"generator": graph_spec(folders["vocoder"], "generator")},
            interface=Interface(
                feature_kind="vits_latent",
                channels=CHANNELS,
                hop_length_samples=256,
                sample_rate_hz=SAMPLE_RATE_HZ,
            ),
            options=WindowedOptions(window_frames=64, overlap_frames=8),
        ),
    }
    for stage, written in stages.items():
        write_stage(folders[stage], written)


def make_voice(layout: Layout, name: str = "tiny", speakers: tuple[str, ...] = ("joe",)) -> VoiceSpec:
    """A sound voice."""
    write_stages(layout, name, speakers=speakers)
    spec = voice_spec(name, speakers=list(speakers))
    write_voice(layout, spec)
    return spec


def make_model(layout: Layout, name: str = "echo", config: str = DIRECT_CONFIG) -> Path:
    """A sound ``direct`` model; returns its folder."""
    folder = layout.model_repository / name
    version = folder / "1"
    version.mkdir(parents=True)
    spec = graph_spec(version, "model")
    (version / "stage.yaml").write_text(
        "program: direct\nstage: model\ngraphs:\n  model:\n"
        f"    file: {spec.file}\n    sha256: {spec.sha256}\n"
        "    inputs: [{name: x, dtype: FP32, dims: [batch, 2]}]\n"
        "    outputs: [{name: y, dtype: FP32, dims: [batch, 2]}]\n",
        encoding="utf-8",
    )
    (folder / "config.pbtxt").write_text(config, encoding="utf-8")
    return folder


def make_python_model(layout: Layout, name: str = "code", config: str = "") -> Path:
    """A sound model of Triton's own Python backend; returns its folder."""
    folder = layout.model_repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text("class TritonPythonModel:\n    pass\n", encoding="utf-8")
    (folder / "config.pbtxt").write_text(f'backend: "python"\n{config}', encoding="utf-8")
    return folder
