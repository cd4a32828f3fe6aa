#!/bin/sh
# Starts Bonsai Launcher: `./scripts/start.sh` opens the page, `./scripts/start.sh plan` and so on run a command.
# Its Python environment is made on the first start and refreshed when the list of packages changes.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0" 2>/dev/null || printf '%s' "$0")")" && pwd -P)
. "$here/_env.sh"
case "${1:-} ${2:-}" in
    "engines build") prepare embedded build ;; # CMake and Ninja, for those who compile
    *) prepare embedded ;;
esac
exec "$venv/bin/bonsai" "$@"
