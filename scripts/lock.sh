#!/usr/bin/env bash
# Renews the lock files from pyproject.toml, for all supported Pythons at once.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
compile() { "$uv" pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header -q "$@"; }
compile requirements/bootstrap.in -o requirements/bootstrap.lock
compile pyproject.toml requirements/build.in --extra convert --extra espeak -o requirements/serve.lock
compile pyproject.toml requirements/build.in --extra convert --extra espeak --extra asr --extra dev -o requirements/dev.lock
