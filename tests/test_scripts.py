"""The scripts that find a Python, checked as scripts: what they choose, what they say, and their syntax."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import clean_environment

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
SHELL = sorted(SCRIPTS.glob("*.sh"))
POWERSHELL = sorted(SCRIPTS.glob("*.ps1"))

# Real Pythons that look like what people have: the probe runs in them as it would there.
BEGIN = f'#!/bin/sh\nexec "{sys.executable}" -c \'import sys, runpy; '
END = 'runpy.run_path(sys.argv[-1])\' "$@"\n'
FAKES = {
    "good": f"{BEGIN}sys.maxsize = 2**63 - 1; {END}",
    "old": f"{BEGIN}sys.version_info = (3, 9, 2); {END}",
    "narrow": f"{BEGIN}sys.maxsize = 2**31 - 1; {END}",
    "bare": f'{BEGIN}sys.modules["ensurepip"] = None; {END}',
    "broken": "#!/bin/sh\necho 'pyenv: version not installed' >&2\nexit 127\n",
    "silent": "#!/bin/sh\nexit 0\n",
    "nonsense": "\x00\x01 not a program\n",
}

posix = pytest.mark.system("posix")
Place = Callable[..., Path]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Makes a folder with Pythons: ``place("bin", **{"python3": "old"})``."""

    def make(folder: str, **pythons: str) -> Path:
        path = tmp_path / folder
        path.mkdir(parents=True)
        for name, kind in pythons.items():
            program = path / name
            program.write_text(FAKES[kind])
            program.chmod(0o755)
        return path

    return make


def find_python(*places: Path | str) -> subprocess.CompletedProcess[str]:
    """Run the real search over ``places`` alone, as if there were no other folders on the machine."""
    script = f"""
        here='{SCRIPTS}'
        . "$here/_env.sh"
        python_places() {{ printf '%s' "$PLACES"; }}
        find_python
    """
    return subprocess.run(
        ["/bin/sh", "-eu", "-c", script],
        env=clean_environment({"PLACES": ":".join(map(str, places))}),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@posix
def test_the_newest_that_works_is_taken(place: Place) -> None:
    one = place("a b/grün", **{"python3.12": "good", "python3": "good"})
    two = place("two", **{"python3.14": "broken", "python3.13": "bare", "python3.11": "good"})
    found = find_python(one, two)
    assert (found.returncode, found.stdout, found.stderr) == (0, str(one / "python3.12"), "")


@posix
@pytest.mark.parametrize("bad", ["old", "narrow", "bare", "broken", "silent", "nonsense"])
def test_one_that_cannot_be_used_does_not_hide_one_that_can(place: Place, bad: str) -> None:
    first, second = place("first", python3=bad), place("second", python3="good")
    found = find_python(first, second)
    assert found.stdout == str(second / "python3"), found.stderr


@posix
def test_when_there_is_none_it_says_what_is_needed_and_where_it_looked(place: Place) -> None:
    first = place("first", **{"python3.13": "broken", "python3": "old"})
    second = place("second", **{"python": "narrow"})
    (second / "python3.12").mkdir()
    found = find_python(first, second, "relative/place", "/nonexistent")
    assert (found.returncode, found.stdout) == (1, "")
    assert "needs Python 3.11 or newer" in found.stderr
    assert f"{first}/python3.13 (does not run)" in found.stderr
    assert f"{first}/python3 (too old: 3.9)" in found.stderr
    assert f"{second}/python (32 bit)" in found.stderr
    assert f"{first}:{second}" in found.stderr
    assert "sudo apt install python3 python3-venv" in found.stderr or "brew install" in found.stderr


@posix
def test_a_python_without_venv_gets_its_debian_package_named(place: Place) -> None:
    found = find_python(place("bin", python3="bare"))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert found.returncode == 1
    assert f"python3 (Python {version} without the modules venv and ensurepip)" in found.stderr
    assert f"sudo apt install python{version}-venv" in found.stderr


@posix
def test_the_places_are_path_and_the_usual_folders(tmp_path: Path) -> None:
    pyenv = tmp_path / ".pyenv" / "versions" / "3.12.1" / "bin"
    pyenv.mkdir(parents=True)
    script = f"here='{SCRIPTS}'; . \"$here/_env.sh\"; python_places"
    env = clean_environment({"HOME": str(tmp_path)})
    done = subprocess.run(
        ["/bin/sh", "-eu", "-c", script], env=env, capture_output=True, text=True, check=True
    )
    places = done.stdout.split(":")
    assert places[: len(env["PATH"].split(":"))] == env["PATH"].split(":")
    assert str(pyenv) in places


@posix
@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_shell_scripts_are_clean(path: Path) -> None:
    shellcheck = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or shutil.which(
        "shellcheck"
    )
    if shellcheck is None:
        pytest.skip("shellcheck is not on this machine")
    check = [shellcheck, "-x", "-P", "SCRIPTDIR", "-"]
    text = path.read_text(encoding="utf-8")
    done = subprocess.run(check, input=text, cwd=SCRIPTS, capture_output=True, encoding="utf-8", check=False)
    assert done.stdout == ""
    broken = subprocess.run(
        check, input=f"{text}\nrm -rf $HOME/$1\n", capture_output=True, encoding="utf-8", check=False
    )
    assert "SC2086" in broken.stdout, "shellcheck sees a mistake in this script"


@posix
def test_shell_scripts_can_be_run() -> None:
    assert all(path.stat().st_mode & 0o111 for path in SHELL if not path.name.startswith("_"))
    assert {
        path.read_text(encoding="utf-8").splitlines()[0] for path in SHELL if path.stat().st_mode & 0o111
    } == {"#!/bin/sh"}


def parse(text: str) -> bool:
    """Whether PowerShell's grammar takes ``text``."""
    import tree_sitter
    import tree_sitter_powershell

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    return not parser.parse(text.encode()).root_node.has_error


@pytest.mark.parametrize("path", POWERSHELL, ids=lambda path: path.name)
def test_powershell_scripts_parse(path: Path) -> None:
    text = path.read_bytes().decode("ascii")  # 5.1 reads anything else as the system's code page
    assert parse(text)
    for broken in ("if ($x { exit }", "foreach $x in 1, 2 { }", "function { }", "& ("):
        assert not parse(f"{text}\n{broken}\n"), "a mistake in this script is seen"


def test_every_script_has_its_twin_and_both_look_for_the_same_pythons() -> None:
    for name in ("_env", "start", "start_llama_server", "test"):
        assert (SCRIPTS / f"{name}.sh").exists()
        assert (SCRIPTS / f"{name}.ps1").exists()
    shell, powershell = (
        re.findall(r"python3\.\d+", (SCRIPTS / name).read_text()) for name in ("_env.sh", "_env.ps1")
    )
    assert set(shell) == set(powershell) == {"python3.11", "python3.12", "python3.13", "python3.14"}
    launcher = re.findall(r"'(3\.\d+)'", (SCRIPTS / "_env.ps1").read_text())
    assert {f"python{version}" for version in launcher} == set(powershell)


def test_with_require_all_a_skipped_test_is_a_failed_one(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n\ndef test_one():\n    pytest.skip('no foo here')\n\ndef test_two():\n    pass\n\n"
        "@pytest.mark.system('nowhere')\ndef test_three():\n    pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
    ]
    command += [str(tmp_path), "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        [*command, "--require-all"],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no foo here" in done.stdout
    assert "1 failed, 1 passed, 1 deselected" in done.stdout
