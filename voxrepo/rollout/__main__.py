"""``python -m voxrepo.rollout --root ROOT``: the controller, started by the supervisor."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from voxrepo.repository.layout import Layout
from voxrepo.rollout.process import run_until_signal


def main() -> int:
    """Run until a signal comes; 0 then."""
    parser = argparse.ArgumentParser(prog="voxrepo.rollout")
    parser.add_argument("--root", type=Path, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    run_until_signal(Layout.of(arguments.root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
