#!/usr/bin/env bash
# System packages that some tests need, installed where this is root on a Debian-like system.
set -euo pipefail
# perf_analyzer of the tritonclient 2.42.0 wheel needs libb64
missing=()
ldconfig -p | grep -q 'libb64\.so\.0' || missing+=(libb64-0d)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get install -y -qq "${missing[@]}" >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -y -qq "${missing[@]}" >/dev/null; }
else
  echo "note: ${missing[*]} is missing; the perf_analyzer test will be skipped" >&2
fi
