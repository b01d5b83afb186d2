"""Steps and gates of a rollout that does not give its own, and why each number is what it is."""

from __future__ import annotations

from voxrepo.rollout.gate import Gate

WEIGHTS = (5.0, 25.0, 50.0)
"""Percent. One user in twenty meets a fault that tests did not show; the doublings after that are for faults of load.
No step of 100: that is the promotion, which can be taken back as fast while the previous versions are kept."""
HOLD_S = 300.0
"""Longer than caches, pools and lazily compiled shapes take to settle."""
MIN_REQUESTS = 200
"""With no error among them, the 95 % interval of the error ratio ends at 1.9 %: within the gate's 2 %."""
PAIR_PERCENT = 20.0
"""40 pairs of 200 requests; the stable arm then does at most a tenth more work in the largest default step."""
KEEP_PREVIOUS_S = 600.0
"""Time for an operator to hear of trouble and take the promotion back without a load."""


def default_gates(policy: str, *, pairs: bool) -> list[Gate]:
    """The gates of a policy.

    The limits are those beyond which a listener or an operator would object, not those of an ideal candidate: an arm
    that is as good as the stable one passes them within the steps' minimum of requests.

    Args:
        policy: its kind.
        pairs: whether it makes pairs to be compared.
    """
    # Retries hide one failure in fifty from users, not more.
    errors = Gate(metric="error_ratio", max=0.02)
    if policy in {"overflow", "tiered"}:
        return [errors]
    # Copies wait behind all other work, which the originals do not: only a much slower arm is told from that.
    slack = 1.6 if policy == "shadow" else 1.0
    gates = [
        errors,
        # Texts differ in length: the median of 200 requests is known to 10 %, the 95th percentile to 20 %.
        Gate(metric="latency_p50_ms", max_ratio=1.3 * slack),
        Gate(metric="latency_p95_ms", max_ratio=1.5 * slack, min_samples=100),
        # Where arms share cores, a slow one makes all wait, and latencies come to resemble one another. The time in the
        # engine does not; nor is a copy's waiting in it.
        Gate(metric="engine_real_time_factor", max_ratio=1.3),
        # A full scale sample in a thousand is heard as a crackle.
        Gate(metric="clipped_ratio", max_difference=0.001),
        # Pauses are a fifth of read speech; a voice that is silent or swallows words has far more.
        Gate(metric="silence_ratio", max_difference=0.15),
    ]
    if pairs:
        gates += [
            # Listeners notice a change of tempo from some 5 % and mind it from about 15 %.
            Gate(metric="duration_ratio", min=0.85, max=1.15, min_samples=10),
            # 3 dB is half or twice the power: one would reach for the volume. 6 dB is far beyond.
            Gate(metric="level_difference_db", min=-3.0, max=3.0, min_samples=10),
            # Two good models of one speaker lie 4 to 8 dB apart, a smaller precision of the same one below 2: the limit
            # depends on what was changed. Hence it is reported; set one without dry_run if you know yours.
            Gate(metric="mel_cepstral_distance_db", max=8.0, min_samples=10, dry_run=True),
        ]
    return gates
