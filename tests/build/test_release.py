"""The release workflow and the signing scripts, as far as they can be tried without Apple, Microsoft and GitHub."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.build.test_sign_list import ELF, MACHO_64, UNIVERSAL

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
SIGN_MACOS = ROOT / "build" / "sign_macos.sh"
SIGN_WINDOWS = ROOT / "build" / "sign_windows.ps1"


@pytest.fixture(scope="module")
def jobs() -> Any:
    return yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]


def steps_that(job: Any, words: str) -> list[int]:
    """Where ``words`` stand in a job's steps."""
    return [at for at, step in enumerate(job["steps"]) if words in step.get("run", "") + step.get("uses", "")]


def test_every_system_is_built_tried_and_only_then_kept(jobs: Any) -> None:
    app = jobs["app"]
    systems = [name.split("-")[0] for name in app["strategy"]["matrix"]["os"]]
    assert sorted(systems) == ["macos", "ubuntu", "windows"]
    (made,), (packed,), (tried,) = (
        steps_that(app, it) for it in ("--only app", "--only archive", "build/smoke.py")
    )
    (kept,) = steps_that(app, "actions/upload-artifact")
    (macos,), (windows,) = steps_that(app, "sign_macos.sh"), steps_that(app, "sign_windows.ps1")
    assert made < macos < packed < tried < kept
    assert made < windows < packed
    for step in app["steps"]:
        assert not step.get("continue-on-error")
    assert jobs["release"]["needs"] == "app"
    assert steps_that(jobs["release"], "sha256sum") < steps_that(jobs["release"], "gh release upload")


def test_what_is_not_signed_is_said(jobs: Any) -> None:
    conditions = [step.get("if", "") for step in jobs["app"]["steps"]]
    for secrets, script in (
        ("HAS_MACOS_SECRETS", "sign_macos.sh"),
        ("HAS_WINDOWS_SECRETS", "sign_windows.ps1"),
    ):
        (signed,) = steps_that(jobs["app"], script)
        (said,) = [at for at, it in enumerate(conditions) if f"env.{secrets} != 'true'" in it]
        assert f"env.{secrets} == 'true'" in conditions[signed]
        assert "::warning::" in jobs["app"]["steps"][said]["run"]
    (made,) = steps_that(jobs["release"], "gh release create")
    step = jobs["release"]["steps"][made]
    for name in ("MACOS", "WINDOWS"):
        assert "not signed" in step["env"][name]
        assert f"${name}" in step["run"]


def test_only_the_last_job_may_write(jobs: Any) -> None:
    assert yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}
    assert jobs["app"].get("permissions") is None
    assert jobs["release"]["permissions"] == {"contents": "write"}
    for job in jobs.values():
        for step in job["steps"]:
            assert step.get("uses", "actions/").startswith("actions/")
            # A secret reaches a program through its environment, never as part of a command line.
            assert "secrets." not in step.get("run", "")


def shell_blocks() -> list[tuple[str, str]]:
    found = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return [
        (step["name"], step["run"])
        for job in found.values()
        for step in job["steps"]
        if "run" in step and step.get("shell", "bash") == "bash"
    ]


@pytest.mark.system("posix")
@pytest.mark.parametrize(("name", "script"), shell_blocks(), ids=lambda it: it[:40])
def test_the_shell_reads_each_step(name: str, script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (name, done.stderr)


@pytest.mark.system("posix")
def test_the_macos_script_is_clean() -> None:
    beside = Path(sys.executable).with_name("shellcheck")
    shellcheck = str(beside) if beside.exists() else shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not on this machine")
    done = subprocess.run([shellcheck, str(SIGN_MACOS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_powershell_can_parse_the_windows_steps() -> None:
    import tree_sitter
    import tree_sitter_powershell

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    texts = [step["run"] for step in jobs["app"]["steps"] if step.get("shell") == "pwsh"]
    for text in [SIGN_WINDOWS.read_text(encoding="utf-8"), *texts]:
        assert not parser.parse(text.encode()).root_node.has_error, text
    assert SIGN_WINDOWS.read_text(encoding="utf-8").isascii()


# Apple's tools, as far as the script can tell: they note how they were called.
TOOLS = {
    "codesign": 'echo "codesign $*" >> "$CALLS"\n'
    "for last; do :; done\n"
    'case "$*" in *--display*) echo "TeamIdentifier=$(grep -qxF "$last" "$UNSIGNED" && echo - || echo TEAM)" >&2;; esac\n',
    "ditto": 'echo "ditto $*" >> "$CALLS"\n',
    "xcrun": 'echo "xcrun $*" >> "$CALLS"\n[ "$1 $2" != "notarytool submit" ] || echo plist\n',
    "plutil": 'case "$2" in status) echo "$NOTARY";; *) echo id;; esac\n',
    "spctl": 'echo "spctl $*" >> "$CALLS"\n',
}


class Mac:
    def __init__(self, folder: Path) -> None:
        self.app = folder / "Bonsai Launcher.app"
        self.calls, self.unsigned, self.bin = folder / "calls", folder / "unsigned", folder / "bin"
        for name, content in (
            ("MacOS/bonsai", MACHO_64),
            ("Frameworks/a/deep lib.so", UNIVERSAL),
            ("Frameworks/x", ELF),
        ):
            file = self.app / "Contents" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        self.bin.mkdir()
        self.unsigned.write_text("", encoding="utf-8")
        for name, text in TOOLS.items():
            (self.bin / name).write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
            (self.bin / name).chmod(0o755)

    def sign(self, notary: str = "Accepted", **more: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "CALLS": str(self.calls),
            "UNSIGNED": str(self.unsigned),
            "NOTARY": notary,
            "MACOS_IDENTITY": "Developer ID",
            "APPLE_ID": "me",
            "APPLE_TEAM_ID": "TEAM",
            "APPLE_APP_PASSWORD": "secret",
        }
        command = [str(SIGN_MACOS), sys.executable, str(self.app)]
        return subprocess.run(command, env=env | more, capture_output=True, text=True, check=False)

    def said(self, start: str) -> list[str]:
        return [
            line for line in self.calls.read_text(encoding="utf-8").splitlines() if line.startswith(start)
        ]


@pytest.fixture
def mac(tmp_path: Path) -> Mac:
    return Mac(tmp_path)


@pytest.mark.system("posix")
@pytest.mark.case("F-06")
def test_every_binary_is_signed_by_itself_and_the_app_last(mac: Mac) -> None:
    done = mac.sign()
    assert done.returncode == 0, done.stderr
    signed = mac.said("codesign --force")
    assert [line.rpartition("Developer ID ")[2] for line in signed] == [
        f"{mac.app}/Contents/Frameworks/a/deep lib.so",
        f"{mac.app}/Contents/MacOS/bonsai",
        str(mac.app),
    ]
    assert all("--options runtime" in line and "entitlements.plist" in line for line in signed)
    assert mac.said("xcrun stapler staple")
    assert mac.said("spctl --assess")


@pytest.mark.system("posix")
@pytest.mark.case("F-06")
@pytest.mark.parametrize("answer", ["Invalid", "Rejected", ""])
def test_a_no_of_the_notary_fails_the_release(mac: Mac, answer: str) -> None:
    done = mac.sign(answer)
    assert done.returncode == 1
    assert f"The notary says {answer}" in done.stderr
    assert not mac.said("xcrun stapler")
    assert mac.said("xcrun notarytool log")


@pytest.mark.system("posix")
@pytest.mark.case("F-06")
def test_one_that_stays_unsigned_fails_the_release(mac: Mac) -> None:
    passed_over = f"{mac.app}/Contents/Frameworks/a/deep lib.so"
    mac.unsigned.write_text(passed_over, encoding="utf-8")
    done = mac.sign()
    assert done.returncode == 1
    assert f"Not signed by TEAM: {passed_over}" in done.stderr
    assert not mac.said("xcrun")


@pytest.mark.system("posix")
def test_without_a_secret_it_does_not_begin(mac: Mac) -> None:
    assert mac.sign(APPLE_ID="").returncode != 0
    assert not mac.calls.exists()
