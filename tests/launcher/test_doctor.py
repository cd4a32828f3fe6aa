"""What the doctor says of this machine: what would stop a start, what is only worth knowing, and what to do."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from launcher import catalog
from launcher.doctor import Check, Report, examine, print_report, report_json
from launcher.engine_install import install
from launcher.hardware.model import Machine
from launcher.paths import locate
from launcher.settings import resolve
from tests.conftest import Bonsai, free_port
from tests.machines import load
from tests.standins import engine_archive, engine_script

MACHINE = load("no-gpu")


class Surgery:
    """A home, and the ports of whoever asks."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {"BONSAI_PORT": str(free_port()), "BONSAI_UI_PORT": str(free_port())}

    def look(self, machine: Machine = MACHINE, *, home: Path | None = None, **env: str) -> Report:
        variables = self.env | {f"BONSAI_{name.upper()}": text for name, text in env.items()}
        return examine(resolve({}, variables), locate(str(home or self.home)), {}, machine, elsewhere=False)


def named(report: Report, name: str) -> list[Check]:
    return [check for check in report.checks if check.name == name]


def only(report: Report, name: str) -> Check:
    (found,) = named(report, name)
    return found


@pytest.fixture
def surgery(home: Path) -> Surgery:
    return Surgery(home)


@pytest.fixture
def taken() -> Iterator[int]:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_fresh_machine_is_healthy_and_told_what_is_lacking(surgery: Surgery) -> None:
    report = surgery.look()
    assert report.healthy
    files = only(report, "Files")
    assert files.state == "note"
    for name in ("Ternary-Bonsai-27B-Q2_0.gguf", "dspark-Q4_1.gguf", "ubuntu-x64.tar.gz"):
        assert name in files.what
    assert "9.1 GB" in files.what
    assert files.remedy == "Run `bonsai fetch`."
    assert only(report, "Engine").state == "note"  # nobody has asked it yet
    assert only(report, "Data folder").state == "ok"
    assert "GB free" in only(report, "Data folder").what
    assert only(report, "Port of the page").what == surgery.env["BONSAI_UI_PORT"]


def test_practice_lacks_nothing(surgery: Surgery) -> None:
    report = surgery.look(model="practice")
    assert report.healthy
    assert named(report, "Files") == []
    assert report.plan is not None
    assert report.plan.resolved.practice


def test_a_model_that_does_not_fit_would_stop_a_start(surgery: Surgery) -> None:
    small = replace(MACHINE, ram_bytes=4 * 2**30, ram_free_bytes=2 * 2**30)
    report = surgery.look(small, model="27B")
    plan = only(report, "Plan")
    assert not report.healthy
    assert plan.state == "bad"
    assert "does not fit" in plan.what
    assert "BONSAI_MODEL" in plan.remedy
    assert report.plan is None
    assert report_json(report)["plan"] is None


def test_a_port_that_was_asked_for_and_is_taken_would_stop_a_start(surgery: Surgery, taken: int) -> None:
    report = surgery.look(ui_port=str(taken))
    port = only(report, "Port of the page")
    assert (port.state, report.healthy) == ("bad", False)
    assert str(taken) in port.what
    assert port.remedy


def test_a_usual_port_that_is_taken_is_only_worth_knowing(surgery: Surgery) -> None:
    with closing(socket.socket()) as listening:
        try:
            listening.bind(("127.0.0.1", 7860))
            listening.listen()
        except OSError:
            pass  # taken by somebody else: as good
        del surgery.env["BONSAI_UI_PORT"]
        report = surgery.look()
    port = only(report, "Port of the page")
    assert port.state == "note"
    assert port.what.startswith("7860 is taken by ")
    assert port.what.endswith("the page will take another one.")
    assert report.healthy


def test_an_address_of_another_machine(surgery: Surgery) -> None:
    report = surgery.look(host="192.0.2.1", allow_remote="1")
    assert not report.healthy
    assert "No server can listen on 192.0.2.1" in only(report, "Port of the page").what


def test_a_data_folder_that_cannot_be_one(surgery: Surgery, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    report = surgery.look(home=tmp_path / "file" / "x")
    folder = only(report, "Data folder")
    assert (folder.state, report.healthy) == ("bad", False)
    assert "BONSAI_HOME" in folder.remedy


@pytest.mark.case("D-12")
@pytest.mark.system("posix")
def test_an_engine_that_lost_a_file_is_named(surgery: Surgery, tmp_path: Path) -> None:
    line = catalog.load().line("prism-legacy")
    build = next(it for it in line.builds if (it.system, it.arch, it.backend) == ("Linux", "x86_64", "cpu"))
    archive = tmp_path / "engine.tar.gz"
    archive.write_bytes(engine_archive(line, build, engine_script("fork")))
    folder = install(locate(str(surgery.home)).engines, line, build, [archive], lambda step: None)  # noqa: ARG005
    whole = surgery.look()
    assert named(whole, "Fetched engine") == []
    assert only(whole, "Engine").state == "ok"
    (folder / "libllama.so.0.13.1").unlink()
    report = surgery.look()
    engine = only(report, "Fetched engine")
    assert engine.state == "note"
    assert "libllama.so.0" in engine.what
    assert "antivirus" in engine.what
    assert "ubuntu-x64.tar.gz" in only(report, "Files").what  # it would be fetched again, with consent


def test_what_settings_have_to_say_is_there(surgery: Surgery) -> None:
    report = surgery.look(mmproj_cpu="1")
    assert any("BONSAI_MMPROJ_CPU" in check.what for check in named(report, "Setting"))


@pytest.mark.case("A-10")
@pytest.mark.system("posix")
def test_speculation_that_was_asked_for_and_cannot_be_is_a_note(surgery: Surgery, tmp_path: Path) -> None:
    own = tmp_path / "llama-server"
    own.write_text(engine_script("old"))  # its help knows no draft-dspark
    own.chmod(0o755)
    report = surgery.look(model="practice", llama_server=str(own), speculative="1")
    speculation = only(report, "Speculation")
    assert speculation.state == "note"
    assert speculation.what.startswith("none: ")
    assert "draft-dspark" in speculation.what
    assert report.healthy


def test_on_paper(surgery: Surgery, taken: int, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(surgery.look(ui_port=str(taken)))
    out, err = capsys.readouterr()
    lines = out.splitlines()
    bad = next(at for at, line in enumerate(lines) if line.startswith("BAD "))
    assert str(taken) in lines[bad]
    assert lines[bad + 1].lstrip().startswith("-> ")
    assert sum(line.startswith("ok  ") for line in lines) > 5
    assert "see BAD" in err


def test_the_command_says_by_its_exit_status_whether_a_start_is_possible(bonsai: Bonsai, taken: int) -> None:
    env = {"BONSAI_PORT": str(free_port()), "BONSAI_UI_PORT": str(free_port())}
    assert bonsai("doctor", env=env).returncode == 0
    done = bonsai("doctor", "--json", env=env | {"BONSAI_PORT": str(taken)})
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["healthy"] is False
    assert {"name", "state", "what", "remedy"} == set(report["checks"][0])
