from __future__ import annotations

from pathlib import Path

import pytest

from voxrepo.rollout.check import check_spec
from voxrepo.rollout.spec import read_spec

EXAMPLES = sorted((Path(__file__).parents[2] / "docs/examples").glob("rollout-*.yaml"))
STABLE = {"text_frontend": 1, "acoustic": 1, "vocoder": 1}


def test_there_is_an_example_of_each_policy():
    kinds = {read_spec(file).policy.kind for file in EXAMPLES}
    assert kinds == {"canary", "ab", "shadow", "overflow", "tiered"}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_can_be_carried_out(file):
    versions = {stage: [1, 2, 3] for stage in STABLE}
    check_spec(read_spec(file), {"en-joe": STABLE}, versions, {}, file=file)
