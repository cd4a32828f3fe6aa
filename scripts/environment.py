"""Makes or refreshes this checkout's Python environment from requirements.lock. Needs a bare Python >= 3.11.

    python environment.py [--check] [EXTRA ...]

Prints the environment's folder on stdout (on Windows, whose pipes have no agreed encoding, as JSON); all talk
goes to stderr. With --check it changes nothing and says by its exit status whether the environment holds what
requirements.lock and pyproject.toml ask for. The start scripts call it; so may you.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATE = "bonsai-launcher.json"  # marks a folder as ours; written first ("making") and last ("ready")
LOCK = "bonsai-launcher.lock"
WINDOWS = os.name == "nt"


def is_editable() -> bool:
    """Whether the environment can point at the checkout (pip must write there) or needs a copy of it."""
    return os.access(ROOT, os.W_OK)


def fingerprint() -> str:
    """Changes whenever the environment must: with the lock, with pyproject.toml, and with copied sources."""
    digest = hashlib.sha256()
    for name in ("requirements.lock", "pyproject.toml"):
        digest.update((ROOT / name).read_bytes())
    if not is_editable():
        from env_install import SOURCES

        for path in sorted(path for name in SOURCES for path in (ROOT / name).rglob("*.*")):
            if path.suffix != ".pyc":
                status = path.stat()
                digest.update(f"{path} {status.st_size} {status.st_mtime_ns}".encode(errors="replace"))
    return digest.hexdigest()


def cache_folder() -> Path:
    """For a checkout that cannot be written to, or whose .venv is somebody else's."""
    name = "venv-" + hashlib.sha256(str(ROOT).encode(errors="replace")).hexdigest()[:12]
    if WINDOWS:
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "bonsai-launcher" / name


def read_state(venv: Path) -> dict[str, object]:
    try:
        state = json.loads((venv / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(venv: Path, state: dict[str, object]) -> None:
    new = venv / (STATE + ".new")
    new.write_text(json.dumps(state), encoding="utf-8")
    new.replace(venv / STATE)


def is_ours(venv: Path) -> bool:
    """An environment that somebody else made is left alone."""
    if not venv.exists():
        return True
    return venv.is_dir() and ((venv / STATE).exists() or all(path.name == LOCK for path in venv.iterdir()))


def place() -> Path | None:
    """The environment's folder, existing and writable: .venv in the checkout where that is possible."""
    for venv in (ROOT / ".venv", cache_folder()):
        with contextlib.suppress(OSError):
            if is_ours(venv):
                venv.mkdir(parents=True, exist_ok=True)
                (venv / LOCK).touch()
                return venv
    return None


def program(venv: Path, name: str) -> Path:
    return venv / "Scripts" / f"{name}.exe" if WINDOWS else venv / "bin" / name


def version_of(python: Path) -> str:
    """A Python's major.minor version by running it; empty when it does not run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    command = [str(python), "-E", "-s", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def usable(venv: Path, state: dict[str, object]) -> bool:
    """Whether it was finished, stands where it was made, and its Python still is the one it was made with."""
    if (state.get("state"), state.get("root"), state.get("venv")) != ("ready", str(ROOT), str(venv)):
        return False
    if Path(sys.prefix) == venv:
        return state.get("python") == f"{sys.version_info.major}.{sys.version_info.minor}"
    return state.get("python") == version_of(program(venv, "python"))


def extras_in(state: dict[str, object]) -> set[str]:
    extras = state.get("extras")
    return set(extras) if isinstance(extras, list) else set()


def ready(venv: Path, extras: set[str]) -> bool:
    """Whether nothing needs to be installed. Fast: this runs at every start."""
    state = read_state(venv)
    return (
        state.get("fingerprint") == fingerprint()
        and extras <= extras_in(state)
        and program(venv, "bonsai").exists()
        and usable(venv, state)
    )


@contextlib.contextmanager
def only_one(venv: Path) -> Iterator[None]:
    """One installer at a time. The system drops the lock of a process that dies."""
    from env_install import say

    with (venv / LOCK).open("r+b") as file:
        waiting = False
        while not take(file.fileno()):
            if not waiting:
                say("Another start is installing the packages already: waiting for it …")
                waiting = True
            time.sleep(0.2)
        yield


def take(descriptor: int) -> bool:
    """Try to lock a file; a file system that cannot lock does not keep anyone from starting."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def wipe(venv: Path) -> None:
    """Empty the folder, but for the lock that we hold and the mark that it is ours."""
    for path in venv.iterdir():
        if path.name in (LOCK, STATE):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def make(venv: Path, extras: set[str]) -> None:
    """Install what is missing; from nothing where the folder is new, half-made or of another Python."""
    from env_install import explain, install_packages, install_project, run, say

    started = time.monotonic()
    log = venv / "install.log"
    old = read_state(venv)
    keep = usable(venv, old)
    write_state(venv, {"state": "making"})
    if keep:
        extras = extras | extras_in(old)
        say(f"Refreshing the Python packages in {venv} …")
    else:
        say(f"Installing Bonsai Launcher's Python packages into {venv}: this happens once, about a minute.")
        wipe(venv)
        failed = run([sys.executable, "-m", "venv", str(venv)], log)
        if failed:
            explain(failed, log)
    python = program(venv, "python")
    install_packages(ROOT, python, extras, log)
    install_project(ROOT, python, log, editable=is_editable())
    done = {"state": "ready", "root": str(ROOT), "venv": str(venv), "python": version_of(python)}
    write_state(venv, {**done, "extras": sorted(extras), "fingerprint": fingerprint()})
    say(f"Installed in {time.monotonic() - started:.0f} s.")


def ensure(extras: set[str]) -> Path:
    """The environment's folder with everything in it; ends the process with a sentence when that fails."""
    from env_install import fail

    venv = place()
    if venv is None:
        fail(
            f"Python packages can be installed neither into {ROOT} nor into {cache_folder().parent}.",
            "Make one of these folders writable, or free some disk space.",
        )
    try:
        if not ready(venv, extras):
            with only_one(venv):
                if not ready(venv, extras):
                    make(venv, extras)
    except OSError as error:
        fail(f"The Python environment in {venv} cannot be made: {error}.", "Check that disk and try again.")
    return venv


def main(arguments: list[str]) -> int:
    extras = {argument for argument in arguments if argument != "--check"}
    if "--check" in arguments:
        found = [venv for venv in (ROOT / ".venv", cache_folder()) if ready(venv, extras)]
        if not found:
            return 1
        venv = found[0]
    else:
        try:
            venv = ensure(extras)
        except KeyboardInterrupt:
            print("\nStopped. Start again to go on.", file=sys.stderr)
            return 130
    sys.stdout.buffer.write(json.dumps({"venv": str(venv)}).encode() if WINDOWS else os.fsencode(venv))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
