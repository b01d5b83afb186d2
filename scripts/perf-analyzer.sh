#!/usr/bin/env bash
# Puts NVIDIA's perf_analyzer, which PyPI carries inside an old tritonclient wheel, into .cache/perf_analyzer/.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python
target=.cache/perf_analyzer
[ -x "$target/perf_analyzer" ] && exit 0
[ "$(uname -m)" = x86_64 ] || { echo "note: perf_analyzer exists for x86_64 only; its test will be skipped" >&2; exit 0; }
mkdir -p "$target"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
  -r requirements/perf-analyzer.lock -d "$target"
"$python" - "$target" <<'PYTHON'
import pathlib, sys, zipfile

target = pathlib.Path(sys.argv[1])
wheel = next(target.glob("tritonclient-*.whl"))
with zipfile.ZipFile(wheel) as archive:
    name = next(name for name in archive.namelist() if name.endswith("/bin/perf_analyzer"))
    (target / "perf_analyzer").write_bytes(archive.read(name))
(target / "perf_analyzer").chmod(0o755)
wheel.unlink()
PYTHON
# it asks for these libraries by their plain names; those that nvidia-pytriton carries will do
"$python" - "$target" <<'PYTHON'
import importlib.metadata, pathlib, sys

libraries = pathlib.Path(str(importlib.metadata.distribution("nvidia-pytriton").locate_file("nvidia_pytriton.libs")))
for plain, pattern in (("libcudart.so.12", "libcudart-*"), ("libb64.so.0d", "libb64-*")):
    link = pathlib.Path(sys.argv[1]) / plain
    link.unlink(missing_ok=True)
    link.symlink_to(next(libraries.glob(pattern)))
PYTHON
