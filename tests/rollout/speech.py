"""Observations of arms as they come from real traffic: texts of many lengths, some jitter."""

from __future__ import annotations

import numpy as np

from voxrepo.rollout.samples import ArmSamples


def arm_samples(
    requests: int,
    *,
    seed: int = 0,
    pairs: int | None = None,
    errors: float = 0.0,
    slower: float = 1.0,
    waits_s: float = 0.0,
    faster: float = 1.0,
    louder_db: float = 0.0,
    is_silent: bool = False,
    clipped: float = 0.0,
) -> ArmSamples:
    """``requests`` requests, a fifth of them in pairs unless said otherwise; they wait in line for ``waits_s``, as both
    arms do.
    """
    generator = np.random.default_rng(seed)
    audio_s = generator.lognormal(1.0, 0.5, requests) / faster
    engine_s = (0.05 + 0.08 * audio_s) * generator.lognormal(0.0, 0.1, requests) * slower
    latency_s = engine_s + waits_s * generator.lognormal(0.0, 0.5, requests)
    failed = generator.random(requests) < errors
    level = generator.normal(-20.0, 1.5, requests) + louder_db
    silence = np.clip(generator.normal(0.2, 0.05, requests), 0, 1)
    count = requests // 5 if pairs is None else pairs
    measures = {
        "duration_ratio": generator.normal(1.0 / faster, 0.01, count),
        "level_difference_db": generator.normal(louder_db, 0.4, count),
        "mel_cepstral_distance_db": generator.normal(3.0, 0.5, count),
    }
    if is_silent:
        silence = np.ones(requests)
        level = np.full(requests, np.nan)
        measures["level_difference_db"] = np.full(count, np.nan)
    return ArmSamples(
        failed=failed,
        latency_s=latency_s,
        engine_s=engine_s,
        first_piece_s=np.full(requests, np.nan),
        audio_s=audio_s,
        level_dbfs=level,
        clipped_ratio=np.full(requests, clipped),
        silence_ratio=silence,
        pairs=measures,
    )
