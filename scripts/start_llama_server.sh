#!/bin/sh
# llama-server alone, in the foreground, on 127.0.0.1:8080: stands for `bonsai serve`.
# BONSAI_SPECULATIVE and the other variables are honoured; all arguments go on to llama-server.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0" 2>/dev/null || printf '%s' "$0")")" && pwd -P)
. "$here/_env.sh"
prepare embedded
exec "$venv/bin/bonsai" serve -- "$@"
