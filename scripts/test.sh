#!/bin/sh
# The whole suite: lint, types, then pytest, which gets the arguments.
# What needs a tool that is missing (Chromium, a C++ compiler) is reported as skipped;
# with --require-all that is a failure.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0" 2>/dev/null || printf '%s' "$0")")" && pwd -P)
. "$here/_env.sh"
prepare embedded build test test-models
checks=0
"$here/check.sh" || checks=$?
cd "$root"
# Most tests wait for some other process: two at a time take little more than half as long.
"$venv/bin/python" -m pytest -n 2 --dist loadfile "$@" || exit
exit "$checks"
