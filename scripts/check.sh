#!/bin/sh
# Lint and types, nothing else: fast enough for every commit.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0" 2>/dev/null || printf '%s' "$0")")" && pwd -P)
. "$here/_env.sh"
prepare embedded build test
cd "$root"
failed=''
check() {
    name=$1
    shift
    "$@" || failed="$failed, $name"
}
check "ruff check" "$venv/bin/ruff" check
check "ruff format" "$venv/bin/ruff" format --check
check mypy "$venv/bin/mypy"
shellcheck=$venv/bin/shellcheck
[ -x "$shellcheck" ] || shellcheck=$(command -v shellcheck) || shellcheck=''
if [ -n "$shellcheck" ]; then
    check shellcheck "$shellcheck" -x -P SCRIPTDIR scripts/*.sh .ci/run
else
    say "shellcheck is not on this machine: the shell scripts were not checked."
fi
if [ -n "$failed" ]; then
    say "Not clean: ${failed#, }"
    exit 1
fi
