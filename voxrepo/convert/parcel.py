"""What goes to a machine with Ascend's compiler: a folder with all that it needs, and how its result comes back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np

from voxrepo.convert.job import Job
from voxrepo.convert.sources import StageSource
from voxrepo.convert.stage_conversion import NOT_BUILT_SHA256, ConvertedStage
from voxrepo.convert.staging import sync_folder
from voxrepo.repository.layout import Layout
from voxrepo_contract.names import stage_model_name
from voxrepo_contract.stage import STAGE_FILE, sha256_of

FOLDER = "convert"
"""Under the root: not part of the repository, since nothing in it can be served."""
NOTE = "README.md"
COMPILED = "om"
"""Folder of the parcel that is brought back."""
FINISH = "finish.sh"


def parcel_name(voice: str, source: StageSource, soc: str, precision: str) -> str:
    """Name of the folder."""
    return f"{stage_model_name(voice, source.stage)}@{source.version}-{soc}-{precision}"


def complete_parcel(folder: Path, voice: str, source: StageSource, job: Job, converted: ConvertedStage) -> None:
    """Add to what the target left: the version's description without hashes, what fills them in, and a note.

    Raises:
        OSError: it cannot be written.
    """
    description = (folder / STAGE_FILE).read_text(encoding="utf-8")
    for name in converted.spec.graphs:
        # written in the order of the graphs, so the first that is left is this one's
        description = description.replace(NOT_BUILT_SHA256, f"@sha256-of-{name}@", 1)
    (folder / f"{STAGE_FILE}.in").write_text(description, encoding="utf-8")
    (folder / STAGE_FILE).unlink()
    graphs = list(converted.spec.graphs)
    (folder / FINISH).write_text(_finish(graphs, [e.file for e in converted.spec.files.values()]), encoding="utf-8")
    (folder / FINISH).chmod(0o755)
    for entry in converted.spec.files.values():
        shutil.copyfile(source.folder / entry.file, folder / entry.file)
    for name, rows in converted.calibration.items():
        for tensor, value in rows.items():
            place = folder / "calibration" / name / tensor
            place.mkdir(parents=True)
            np.ascontiguousarray(value).tofile(place / "0.bin")
    (folder / NOTE).write_text(_note(folder, voice, source, job, converted), encoding="utf-8")


def place_parcel(layout: Layout, voice: str, source: StageSource, job: Job, folder: Path) -> Path:
    """Move a complete parcel to where users find it; one of the same name is replaced.

    Raises:
        OSError: it cannot be written.
    """
    place = layout.root / FOLDER / parcel_name(voice, source, job.soc.name, job.precision)
    place.parent.mkdir(parents=True, exist_ok=True)
    for path in [folder, *(entry for entry in folder.rglob("*") if entry.is_dir())]:
        sync_folder(path)
    old = place.with_name(f".{place.name}.{os.getpid()}")
    if place.exists():
        place.rename(old)
    folder.rename(place)
    shutil.rmtree(old, ignore_errors=True)
    return place


def _finish(graphs: list[str], files: list[str]) -> str:
    lines = [
        "#!/usr/bin/env bash",
        "# After convert.sh: puts the compiled graphs and their description into one folder.",
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        f"mkdir -p {COMPILED}",
        f"cp {STAGE_FILE}.in {COMPILED}/{STAGE_FILE}",
    ]
    for name in graphs:
        lines += [
            # atc may add the operating system to the name
            f"made=$(ls {name}.om {name}_linux_*.om 2>/dev/null | head -n 1 || true)",
            f'[ -n "$made" ] || {{ echo "{name}.om is missing: run convert.sh first" >&2; exit 1; }}',
            f'cp "$made" {COMPILED}/{name}.om',
            f'sum=$(sha256sum {COMPILED}/{name}.om | cut -d" " -f1)',
            f'sed -i "s/@sha256-of-{name}@/$sum/" {COMPILED}/{STAGE_FILE}',
        ]
    lines += [f"cp {file} {COMPILED}/" for file in files]
    lines += [f'echo "{COMPILED} is complete: take it to the server with the NPU and add it with voxrepo version add"']
    return "\n".join(lines) + "\n"


def _note(folder: Path, voice: str, source: StageSource, job: Job, converted: ConvertedStage) -> str:
    model = stage_model_name(voice, source.stage)
    script = next((graph.script.name for graph in converted.built.values() if graph.script), "convert.sh")
    kept = {graph: nodes for graph, nodes in converted.kept.items() if nodes}
    lines = [
        f"# {model}, version {source.version}, for {job.soc.name} at {job.precision}",
        "",
        f"Made by `{job.command}`.",
        "",
        "Ascend's compiler was not found where this was made, or a step before it is done by another of its tools.",
        "On a machine with CANN, in this folder:",
        "",
        "```bash",
        f"bash {script}",
        f"bash {FINISH}",
        "```",
        "",
        f"Then bring the folder `{COMPILED}` to the server with the NPU, and add it there; ROOT is the folder of its",
        "repository:",
        "",
        "```bash",
        f"voxrepo version add {model} {COMPILED} --root ROOT",
        "```",
        "",
        "It speaks on the NPU, beside the version that is served, before it is taken. On a machine without one that",
        "is refused; `--no-smoke` adds it untried.",
        "",
    ]
    if job.precision == "int8":
        lines += [
            "8-bit graphs are made by AMCT, which comes with CANN and is installed apart from it; the script calls it.",
            "Its calibration inputs are in `calibration/`. What was judged here is the same quantisation as voxrepo",
            "does it; measure the result on the chip with `voxrepo quality`.",
            "",
        ]
    if kept:
        lines += ["Kept in full precision:", ""]
        lines += [f"* {graph}: `{node}`: {why}" for graph, nodes in kept.items() for node, why in nodes.items()]
        lines += [""]
    lines += ["Files:", ""]
    lines += [
        f"* `{path.relative_to(folder)}` {path.stat().st_size} bytes, sha256 `{sha256_of(path)}`"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != NOTE
    ]
    return "\n".join(lines) + "\n"
