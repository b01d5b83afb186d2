"""``voxrepo controller``."""

from __future__ import annotations

import logging
from pathlib import Path

from rich.logging import RichHandler

from voxrepo.cli.output import RootOption, console, layout_of, shows_errors
from voxrepo.rollout.process import run_until_signal
from voxrepo_contract.errors import ConfigError


@shows_errors
def controller(root: RootOption = Path()) -> None:
    """Carry out the rollouts of a folder, until Ctrl-C. `voxrepo serve` does so too; one of all leads."""
    layout = layout_of(root, None)
    if not layout.root.is_dir():
        raise ConfigError("there is no such folder", file=layout.root)
    logging.basicConfig(
        level=logging.INFO,
        format="%(message)s",
        handlers=[RichHandler(console=console, show_path=False, rich_tracebacks=False)],
    )
    run_until_signal(layout)
