#!/usr/bin/env bash
# Makes or renews the virtual environment from a lock file: environment.sh serve|dev
set -euo pipefail
kind=$1
python=${PYTHON:-python3}
venv=${VENV:-.venv}

stop() { echo "error: $*" >&2; exit 1; }

command -v "$python" >/dev/null || stop "no $python here; install Python 3.10, 3.11 or 3.12, or say which: make PYTHON=..."
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
case $version in
  3.10 | 3.11 | 3.12) ;;
  *) stop "$python is Python $version; voxrepo runs on 3.10 to 3.12, say which with make PYTHON=python3.11" ;;
esac
case $PWD in
  *[![:ascii:]]*) stop "the path of this folder has non-ASCII characters, which Triton's Python stubs cannot handle; move it" ;;
esac
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  stop "$python has no venv module; on Debian: apt-get install python$version-venv"

if [ ! -x "$venv/bin/python" ] || [ "$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" != "$version" ]; then
  echo "making $venv with Python $version"
  rm -rf "$venv"
  "$python" -m venv "$venv" || stop "the environment could not be made; is there room on the disk?"
fi
if [ ! -x "$venv/bin/uv" ]; then
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock ||
    stop "the package index cannot be reached; check the network or pip's settings"
fi
echo "installing requirements/$kind.lock (a minute or less on a good line)"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --require-hashes -r "requirements/$kind.lock" ||
  stop "the packages of requirements/$kind.lock could not be installed; the lines above say which and why"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --require-hashes -r requirements/english.lock ||
  stop "the package of requirements/english.lock could not be installed; the lines above say why"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation -e . ||
  stop "voxrepo itself could not be installed; the lines above say why"
touch "$venv/$kind.stamp-$version"
# what the tests need includes what serving needs
[ "$kind" = serve ] || touch "$venv/serve.stamp-$version"
