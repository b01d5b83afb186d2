#!/usr/bin/env bash
# Builds the package pesq, which PyPI has as source only, and installs it into the environment: pesq.sh [FOLDER]
# With a folder the wheel is put there instead.
#
# `voxrepo quality` scores pairs of recordings with it. It needs a C compiler: the one that CC names, or cc, or else the
# Zig compiler, which PyPI carries as a wheel. The wrapper's licence is MIT, but the ITU-T's reference code inside allows
# evaluation without commercial use only; any other use needs a licence of OPTICOM or Psytechnics. That is why nothing
# else of voxrepo installs it; `--gate fixed_pesq=off` does without.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${VENV:-.venv}/bin/python
stop() { echo "error: $*" >&2; exit 1; }

[ -x "$python" ] || stop "no $python here; run make first, or say where the environment is: VENV=... bash scripts/pesq.sh"
python=$(cd "$(dirname "$python")" && pwd)/python
if [ $# -eq 0 ] && "$python" -c 'import pesq' 2>/dev/null; then
  echo "pesq is installed already"
  exit 0
fi
"$python" -c 'import numpy' 2>/dev/null || stop "the environment of $python has no numpy; run make first"
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -f "$headers/Python.h" ] ||
  stop "the headers of Python are missing ($headers/Python.h); on Debian: apt-get install python3-dev"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install() {
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --target "$work/tools" -r "$1" || stop "the packages of $1 could not be installed; the lines above say why"
}
install "$here/pesq-build.lock"
if [ -n "${CC:-}" ]; then
  echo "building pesq with $CC"
elif command -v cc >/dev/null; then
  echo "building pesq with cc"
  export CC=cc
else
  echo "building pesq with Zig's C compiler, since there is no cc here"
  install "$here/pesq-zig.lock"
  export CC="$python -m ziglang cc" ZIG_GLOBAL_CACHE_DIR="$work/zig" ZIG_LOCAL_CACHE_DIR="$work/zig"
fi
export LDSHARED="$CC -shared" PYTHONPATH="$work/tools"
cat >"$work/pesq.lock" <<'PINS'
pesq==0.0.4 --hash=sha256:b724b28f73fb638522982bd68e8c3c0957e2f45210639a460233b17aa7fc890b
PINS
# numpy is the environment's own, so that the extension fits it
"$python" -m pip wheel --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation \
  --no-binary pesq --require-hashes -r "$work/pesq.lock" -w "$work/wheel" ||
  stop "pesq could not be built; the lines above say why"
wheel=$(echo "$work"/wheel/pesq-*.whl)
if [ $# -gt 0 ]; then
  mkdir -p "$1"
  cp "$wheel" "$1/"
  echo "wrote $1/$(basename "$wheel")"
  exit 0
fi
unset PYTHONPATH
"$python" -m pip install --quiet --disable-pip-version-check --no-deps "$wheel" || stop "pesq could not be installed"
"$python" -c 'import pesq' || stop "pesq was built, but does not load"
echo "installed pesq 0.0.4; its reference code may be used for evaluation only, see scripts/pesq.sh"
