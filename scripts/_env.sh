# shellcheck shell=sh
# Sourced by the scripts beside it, which set $here to this folder.
# `prepare EXTRA...` leaves the checkout in $root and its Python environment, made or refreshed, in $venv.

# shellcheck disable=SC2154  # set by the script that sources this one
root=$(CDPATH='' cd -- "$here/.." && pwd -P)

say() { printf '%s\n' "$*" >&2; }

# Where a Python may be, separated by colons.
python_places() {
    places=${PATH:-}
    for place in /opt/homebrew/bin /usr/local/bin /usr/bin "${HOME:-/}"/.local/bin \
        /Library/Frameworks/Python.framework/Versions/3.*/bin /opt/homebrew/opt/python@3.*/bin \
        "${HOME:-/}"/.pyenv/versions/3.*/bin "${HOME:-/}"/.local/share/uv/python/cpython-3.*/bin; do
        if [ -d "$place" ]; then places=$places:$place; fi
    done
    printf '%s' "$places"
}

# Prints the newest Python that can make an environment; or says what is missing, and fails.
# Runs in a subshell: it changes IFS.
find_python() (
    places=$(python_places)
    system=$(uname -s)
    rejected='' seen=: bare=''
    IFS=:
    set -f
    for name in python3.14 python3.13 python3.12 python3.11 python3 python; do
        for place in $places; do
            candidate=$place/$name
            case $candidate in
                "$root"/.venv/* | [!/]*) continue ;; # ours, perhaps broken; or relative to wherever we are
            esac
            case $seen in *":$candidate:"*) continue ;; esac
            seen=$seen$candidate:
            if [ ! -x "$candidate" ] || [ -d "$candidate" ]; then continue; fi
            # On a Mac without developer tools this one only opens a window that offers them.
            if [ "$system" = Darwin ] && [ "$candidate" = /usr/bin/python3 ]; then continue; fi
            verdict=$("$candidate" -E -s "$root/scripts/env_probe.py" 2>/dev/null </dev/null) || verdict=broken
            version=${verdict#* }
            case $verdict in
                "good "*)
                    printf '%s' "$candidate"
                    exit 0
                    ;;
                "old "*) why="too old: $version" ;;
                "narrow "*) why="32 bit" ;;
                "bare "*)
                    why="Python $version without the modules venv and ensurepip"
                    bare=${bare:-$version}
                    ;;
                *) why="does not run" ;;
            esac
            rejected="$rejected
  $candidate ($why)"
        done
    done
    say "Bonsai Launcher needs Python 3.11 or newer, and found none that it can use."
    if [ -n "$rejected" ]; then say "Found:$rejected"; fi
    say "Looked for python3.14, python3.13, python3.12, python3.11, python3 and python in $places"
    if [ -n "$bare" ]; then
        say "Install the missing modules, on Debian and Ubuntu: sudo apt install python$bare-venv"
    elif [ "$system" = Darwin ]; then
        say "Install one from python.org, or with Homebrew: brew install python"
    else
        say "Install one from your system's packages, on Debian and Ubuntu: sudo apt install python3 python3-venv"
    fi
    exit 1
)

prepare() {
    python=$root/.venv/bin/python
    # The usual case, fast: the environment is there, and says itself that nothing has changed.
    if [ -x "$python" ] && venv=$("$python" -E -s "$root/scripts/environment.py" --check "$@" 2>/dev/null); then
        return
    fi
    python=$(find_python) || exit
    # shellcheck disable=SC2034  # for the script that sources this one
    venv=$("$python" -E -s "$root/scripts/environment.py" "$@") || exit
}
