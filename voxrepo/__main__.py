"""``python -m voxrepo``."""

from __future__ import annotations

from voxrepo.cli.main import main

if __name__ == "__main__":
    main()
