#!/usr/bin/env bash
# Builds the CPU image, runs it as docker/compose.yaml does, has it speak, stops it: docker-smoke.sh [--no-build]
# Exit code 0: all was right; 1: something was not; 2: wrong arguments; 3: there is no container engine to try it with.
#
# Environment: ENGINE  docker or podman (default: the one that works)
#              IMAGE   name of the image (default voxrepo:cpu)
#              BUILD_ARGS, RUN_ARGS  more arguments for the engine, separated by blanks
set -euo pipefail
cd "$(dirname "$0")/.."

image=${IMAGE:-voxrepo:cpu}
build=yes
ready_timeout_s=180
stop_timeout_s=75
read -ra build_args <<<"${BUILD_ARGS:-}"
read -ra run_args <<<"${RUN_ARGS:-}"

case "${1:-}" in
  "") ;;
  --no-build) build=no ;;
  *) echo "error: $1: the only argument is --no-build" >&2; exit 2 ;;
esac

find_engine() {
  local candidate
  for candidate in ${ENGINE:-docker podman}; do
    if command -v "$candidate" >/dev/null && "$candidate" info >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  echo "error: no container engine works here (tried: ${ENGINE:-docker podman}); start one and repeat" >&2
  return 3
}
engine=$(find_engine) || exit $?
command -v python3 >/dev/null || { echo "error: python3 is missing; the check of the audio needs it" >&2; exit 1; }

container=voxrepo-smoke-$$
volume=voxrepo-smoke-$$
# shellcheck disable=SC2329
clean_up() { # called by the trap
  "$engine" rm --force --volumes "$container" >/dev/null 2>&1 || true
  "$engine" volume rm --force "$volume" >/dev/null 2>&1 || true
}
trap clean_up EXIT
stop() {
  echo "error: $*" >&2
  "$engine" logs --tail 40 "$container" >&2 2>/dev/null || true
  exit 1
}

if [ "$build" = yes ]; then
  # Podman writes OCI images by default, which cannot hold a health check; Docker does not read this variable
  BUILDAH_FORMAT=docker "$engine" build "${build_args[@]}" -f docker/Dockerfile -t "$image" . || stop "the image does not build"
fi

"$engine" run --detach --name "$container" --init --read-only --shm-size 256m --cap-drop ALL \
  --security-opt no-new-privileges --tmpfs /tmp:exec,mode=1777,size=256m --volume "$volume:/srv/voxrepo" \
  --publish 127.0.0.1::8000 "${run_args[@]}" "$image" >/dev/null || stop "the container does not start"

is_healthy() {
  case $engine in
    # Podman needs systemd to run health checks by itself
    *podman) "$engine" healthcheck run "$container" >/dev/null 2>&1 ;;
    *) [ "$("$engine" inspect --format '{{.State.Health.Status}}' "$container")" = healthy ] ;;
  esac
}
started_s=$SECONDS
until is_healthy; do
  [ "$("$engine" inspect --format '{{.State.Running}}' "$container")" = true ] || stop "the container ended before it was ready"
  [ $((SECONDS - started_s)) -lt $ready_timeout_s ] || stop "not healthy after $ready_timeout_s s"
  sleep 1
done
echo "healthy after $((SECONDS - started_s)) s"

[ "$("$engine" exec "$container" id -u)" = 1000 ] || stop "the server does not run as user 1000"
status=$("$engine" exec "$container" voxrepo status 2>&1) || stop "healthy, but voxrepo status says: $status"

address=$("$engine" port "$container" 8000/tcp | head -n 1)
python3 - "http://$address" <<'PYTHON' || stop "the audio is not right"
import json
import math
import sys
import urllib.request

TEXT = "The image works, and this sentence proves it."
body = json.dumps({"text": TEXT, "seed": 1}).encode()
request = urllib.request.Request(f"{sys.argv[1]}/v2/models/en-joe/generate", body, {"Content-Type": "application/json"})
with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
    speech = json.load(answer)
samples, sample_rate_hz = speech["audio"], speech["sample_rate"]
duration_s = len(samples) / sample_rate_hz
rms = math.sqrt(sum(sample * sample for sample in samples) / len(samples)) if samples else 0.0
print(f"{duration_s:.2f} s of audio at {sample_rate_hz} Hz, RMS {rms:.0f} of 32768")
# eight words take two to four seconds; speech of this voice has an RMS of some thousands, silence one of 0
sys.exit(not (1.5 < duration_s < 8 and 300 < rms < 20000))
PYTHON

"$engine" stop --time $stop_timeout_s "$container" >/dev/null || stop "the container does not stop"
code=$("$engine" inspect --format '{{.State.ExitCode}}' "$container")
[ "$code" = 0 ] || stop "the server ended with exit code $code after SIGTERM"
echo "stopped in order"
