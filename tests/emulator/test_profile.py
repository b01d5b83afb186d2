"""Device times from profile files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.emulator import makers
from tests.emulator.makers import REPOSITORY, emulator_environment, run_function

if TYPE_CHECKING:
    import time

    import acl

    from tests.emulator.session import Model, Session, ok

PROFILES = REPOSITORY / "profiles"


def durations_ms(profile: Path, *runs: tuple[str, str, int, int], tmp_path: Path) -> list[float]:
    """Device times of (graph name, precision, batch, length)."""
    program = f"""
from acl.emulation.profile import Profile
profile = Profile.load({str(profile)!r})
for name, precision, batch, length in {list(runs)!r}:
    print(profile.duration_s(name, precision, [(batch, length), (batch,)]) * 1e3)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=emulator_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(line) for line in done.stdout.split()]


def test_gives_the_published_figures_of_the_910b(tmp_path: Path) -> None:
    runs = [("tts", precision, batch, 256) for precision in ("fp16", "origin", "int8") for batch in (1, 64, 129)]
    found = durations_ms(PROFILES / "ascend910b.yaml", *runs, tmp_path=tmp_path)
    assert found[0] == pytest.approx(28.0, abs=0.1)
    for at_64, per_second in zip(found[1::3], (1520, 850, 2100), strict=True):
        assert 64 / at_64 * 1e3 == pytest.approx(per_second, rel=0.01)
    assert found[2] == pytest.approx(4 * (27.8 + 0.224 * 129))


def test_gives_the_published_figure_of_the_310p(tmp_path: Path) -> None:
    assert durations_ms(PROFILES / "ascend310p.yaml", ("tts", "fp16", 1, 430), tmp_path=tmp_path) == [350.0]


def test_splits_the_pipeline_between_graphs_and_scales_with_length(tmp_path: Path) -> None:
    names = ("en-joe.encoder", "decoder", "en-joe-generator")
    parts = durations_ms(PROFILES / "ascend910b.yaml", *((name, "fp16", 1, 256) for name in names), tmp_path=tmp_path)
    assert sum(parts) == pytest.approx(28.0, abs=0.1)
    runs = [("decoder", "fp16", 1, length) for length in (8, 64, 512)]
    short, quarter, double = durations_ms(PROFILES / "ascend910b.yaml", *runs, tmp_path=tmp_path)
    assert short == quarter, "no run costs less than the floor"
    assert double == pytest.approx(2 * parts[1])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[]", "a mapping is expected"),
        ("device: x", "precisions: a mapping"),
        ("device: Ascend910B\nsource: s\nprecisions: {a: {base_ms: 1}}\ndefault_precision: a", "per_batch_ms"),
        ("device: Ascend910B\nsource: s\nprecisions: {}\ndefault_precision: a", "default_precision: 'a' is none"),
        (
            "device: Ascend910B\nsource: s\nprecisions: {a: {base_ms: -1, per_batch_ms: 0}}\ndefault_precision: a",
            "precisions.a.base_ms: a number of 0 or more",
        ),
        ("devices: x", "unknown key 'devices'"),
        ("{", "not YAML"),
        (
            "device: Ascend310P\nsource: s\nprecisions: {a: {base_ms: 1, per_batch_ms: 0}}\ndefault_precision: a",
            "the emulated device is Ascend910B3",
        ),
    ],
)
def test_refuses_a_wrong_profile_and_names_the_key(tmp_path: Path, text: str, part: str) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", "import acl"],
        env=emulator_environment(tmp_path, profile=str(profile)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert part in done.stderr
    assert "p.yaml" in done.stderr


def test_reads_a_profile_in_json_without_a_yaml_library(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise ImportError('not here')\n")
    profile = tmp_path / "p.json"
    profile.write_text(
        '{"device": "Ascend910B", "source": "s", "precisions": {"a": {"base_ms": 1, "per_batch_ms": 0}},'
        ' "default_precision": "a"}'
    )
    environment = emulator_environment(tmp_path, profile=str(profile))
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    subprocess.run([sys.executable, "-c", "import acl"], env=environment, check=True)


def test_lets_work_of_several_streams_share_the_device(tmp_path: Path) -> None:
    def program(path: str) -> None:
        session = Session()
        models = [Model(session, path) for _ in range(2)]
        other = ok(acl.rt.create_stream())
        start = time.monotonic()
        assert models[0].start() == 0
        assert acl.mdl.execute_async(models[1].id, models[1].input_set, models[1].output_set, other) == 0
        assert session.synchronise() == 0
        first_s = time.monotonic() - start
        ok(acl.rt.synchronize_stream(other))
        both_s = time.monotonic() - start
        assert first_s >= 0.099
        assert both_s >= 0.199, f"cores do one run after the other: {first_s}, {both_s}"
        ok(acl.rt.destroy_stream(other))
        for model in models:
            model.close()
        session.close()

    profile = tmp_path / "p.yaml"
    profile.write_text(
        "{device: Ascend910B, source: a test, default_precision: origin,"
        " precisions: {origin: {base_ms: 100, per_batch_ms: 0}}}"
    )
    ended = run_function(tmp_path, program, makers.write_static(tmp_path / "m.om"), profile=str(profile))
    assert (ended.violations, ended.leaks) == ([], [])
