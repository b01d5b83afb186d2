#!/usr/bin/env bash
# Renews the lock files from pyproject.toml, for all supported Pythons at once.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
compile() { "$uv" pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header -q "$@"; }
compile requirements/bootstrap.in -o requirements/bootstrap.lock
# piper-tts is GPL-3.0 and no voice that `make serve` builds needs it: what is installed by default goes without it
served=(--extra convert --extra mandarin --extra emoji --extra quality)
compile pyproject.toml requirements/build.in "${served[@]}" -o requirements/serve.lock
compile requirements/english.in --no-deps -o requirements/english.lock
compile requirements/espeak.in -c requirements/serve.lock -o requirements/espeak.lock
compile pyproject.toml requirements/build.in "${served[@]}" --extra espeak --extra asr --extra bench --extra dev -o requirements/dev.lock
