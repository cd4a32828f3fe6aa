"""A model that is chosen stands in the config file from then on, and everything else in it stays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from launcher import store_files
from launcher.chosen import Chosen, choose_here
from launcher.errors import BadInput, FolderError, LauncherError, PlanRefused, SettingsError
from launcher.fetch_lock import only_one
from launcher.paths import Paths, locate
from launcher.settings import Settings, resolve
from tests.conftest import Bonsai
from tests.machines import load

MACHINE = load("no-gpu")


class Home:
    def __init__(self, folder: Path) -> None:
        self.paths: Paths = locate(str(folder / "home"))
        self.file = self.paths.config_file

    def write(self, text: str) -> None:
        self.paths.data.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(text.encode())

    @property
    def text(self) -> str:
        return self.file.read_bytes().decode()

    def settings(self, env: Mapping[str, str] | None = None, **flags: str) -> Settings:
        text = self.text if self.file.exists() else ""
        return resolve(flags, env or {}, text, str(self.file))

    def chosen(self, env: Mapping[str, str] | None = None, **flags: str) -> Chosen:
        return Chosen(self.settings(env, **flags), self.paths)


@pytest.fixture
def here(tmp_path: Path) -> Home:
    return Home(tmp_path)


def choose(chosen: Chosen, name: str) -> Settings:
    chosen.choose(name, lambda: MACHINE)
    return chosen.now()


def test_what_was_chosen_is_told_and_stands_in_the_file(here: Home) -> None:
    chosen = here.chosen()
    before = chosen.now()
    now = choose(chosen, "8B")
    assert (now.model.value, now.model.source) == ("8B", f"{here.file}, line 1")
    assert here.text == 'model = "8B"\n'
    assert here.settings() == now, "as another start reads it"
    assert chosen.in_use() == before, "until somebody adopts it"
    chosen.adopt()
    assert chosen.in_use() == now
    assert choose(chosen, "auto") == before
    assert here.text == ""


def test_the_family_goes_with_the_model(here: Home) -> None:
    here.write("# mine\nport = 9000 # always\n")
    chosen = here.chosen()
    now = choose(chosen, "bonsai/4B")
    assert here.text == '# mine\nport = 9000 # always\nmodel = "4B"\nfamily = "bonsai"\n'
    assert (now.family.value, now.family.source) == ("bonsai", f"{here.file}, line 4")
    assert choose(chosen, "8B").family.value == "bonsai", "a size is one of the family's"
    now = choose(chosen, "ternary/8B")
    assert here.text == '# mine\nport = 9000 # always\nmodel = "8B"\n'
    assert not now.family.asked
    assert choose(chosen, "Qwen2.5-Coder-7B").model.value == "qwen2.5-coder-7b"
    assert here.settings() == chosen.now()


def test_where_other_values_stand_is_told_anew(here: Home) -> None:
    here.write('model = "4B"\nport = 9000\n')
    chosen = here.chosen()
    assert chosen.now().port.source.endswith("line 2")
    now = choose(chosen, "auto")
    assert (now.port.value, now.port.source) == (9000, f"{here.file}, line 1")


def test_only_the_model_is_taken_from_a_file_that_was_changed_meanwhile(here: Home) -> None:
    chosen = here.chosen({"BONSAI_ALLOW_REMOTE": "1"})
    here.write('host = "0.0.0.0"\nport = 9000\nctx = 4096\n')
    now = choose(chosen, "8B")
    assert (now.host.value, now.port.value, now.ctx.value) == ("127.0.0.1", 8080, 0)
    assert here.text == 'host = "0.0.0.0"\nport = 9000\nctx = 4096\nmodel = "8B"\n'


@pytest.mark.parametrize(
    ("env", "flags", "says"),
    [
        ({"BONSAI_MODEL": "4B"}, {}, "BONSAI_MODEL asks for 4B"),
        ({"BONSAI_MODEL": "auto"}, {}, "BONSAI_MODEL asks for auto"),
        ({"BONSAI_FAMILY": "bonsai"}, {}, "BONSAI_FAMILY asks for bonsai"),
        ({}, {"model": "4B"}, "--model asks for 4B"),
    ],
)
def test_what_comes_first_is_said_and_not_overruled(
    here: Home, env: dict[str, str], flags: dict[str, str], says: str
) -> None:
    here.write('model = "1.7B"\n')
    chosen = here.chosen(env, **flags)
    assert says in chosen.fixed()
    for name in ("8B", "auto"):
        with pytest.raises(BadInput, match="comes before what is chosen"):
            choose(chosen, name)
    assert here.text == 'model = "1.7B"\n'
    assert here.chosen().fixed() == "", "the file itself is what is changed"


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("9B", BadInput, "No model is called '9B'"),
        ("nobody/8B", BadInput, "is a file, not a model's name"),
        ("../../x.gguf", BadInput, "is a file, not a model's name"),
        ("", BadInput, "No model is called ''"),
        ("bonsai2/8B", BadInput, "No model is called"),
    ],
)
def test_a_name_that_is_none(here: Home, name: str, kind: type[LauncherError], says: str) -> None:
    with pytest.raises(kind, match=says):
        choose(here.chosen(), name)
    assert not here.file.exists()


def test_what_cannot_run_here_is_not_chosen(here: Home) -> None:
    chosen = here.chosen({"BONSAI_ENGINE": "embedded"})
    with pytest.raises(PlanRefused, match="do not fit the engine"):
        choose(chosen, "bonsai2/27B")
    assert not here.file.exists()


def test_the_practice_pair_may_be_chosen(here: Home) -> None:
    said, now = choose_here(here.settings(), here.paths, lambda: MACHINE, "practice")
    assert said.startswith("The practice pair is the model from now on")
    assert now == here.settings()
    assert here.text == 'model = "practice"\n'


@pytest.mark.parametrize(
    ("text", "kind"),
    [("model = \n", SettingsError), ("modle = 1\n", SettingsError), ('model = """\\\n27B"""\n', FolderError)],
)
def test_a_file_that_makes_no_sense_or_cannot_be_changed_alone_is_left_alone(
    here: Home, text: str, kind: type[LauncherError]
) -> None:
    chosen = here.chosen()
    here.write(text)
    with pytest.raises(kind):
        choose(chosen, "8B")
    assert here.text == text
    assert not chosen.now().model.asked


@pytest.mark.system("posix")
def test_a_link_stays_one_and_who_may_read_it_stays_so(here: Home, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles" / "bonsai.toml"
    kept.parent.mkdir()
    kept.write_text("ctx = 4096\n")
    kept.chmod(0o640)
    here.paths.data.mkdir(parents=True)
    here.file.symlink_to(kept)
    choose(here.chosen(), "8B")
    assert here.file.is_symlink()
    assert kept.read_text() == 'ctx = 4096\nmodel = "8B"\n'
    assert kept.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in here.paths.data.iterdir()) == ["config.toml"]


def test_of_many_writers_none_loses_anything(here: Home) -> None:
    here.write("# first\nctx = 4096\n# last\n")
    names = ["8B", "auto", "bonsai/8B", "4B", "qwen3.5-0.8b", "auto"] * 3
    threads = [threading.Thread(target=choose, args=(here.chosen(), name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert here.text.startswith("# first\nctx = 4096\n# last\n")
    left = here.settings()
    assert left.ctx.value == 4096
    name = left.model.value if not left.family.asked else f"{left.family.value}/{left.model.value}"
    assert name in names
    assert [path.name for path in here.paths.data.iterdir()] == ["config.toml"]


def test_another_writer_is_waited_for(here: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    here.write("ctx = 4096\n")
    chosen = here.chosen()
    monkeypatch.setattr("launcher.chosen.LOCK_S", 0.1)
    with (
        only_one(here.paths.data / ".config.lock", lambda: None),
        pytest.raises(FolderError, match="Another Bonsai"),
    ):
        choose(chosen, "8B")
    # What it wrote meanwhile is what is changed.
    store_files.write(here.file, b'port = 1\nmodel = "4B"\n')
    choose(chosen, "8B")
    assert here.text == 'port = 1\nmodel = "8B"\n'


FORBIDDEN = """
import fcntl, os, sys
from pathlib import Path
from launcher import catalog
from launcher.chosen import Chosen
from launcher.errors import LauncherError
from launcher.paths import locate
from launcher.settings import resolve
from tests.machines import load

paths, machine = locate(sys.argv[1]), load("no-gpu")
catalog.load()
if os.geteuid() == 0:  # root may do everything: be nobody
    os.seteuid(65534)
chosen = Chosen(resolve({}, {}), paths)
try:
    chosen.choose("8B", lambda: machine)
except LauncherError as error:
    print(type(error).__name__, "|", error)
print(chosen.now().model.asked)
"""


@pytest.mark.system("posix")
def test_a_folder_that_takes_nothing(here: Home) -> None:
    here.write("ctx = 4096\n")
    here.paths.data.chmod(0o555)
    for parent in (here.paths.data.parent, *here.paths.data.parent.parents):
        if parent != Path("/") and parent.stat().st_uid == os.getuid():
            parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run(
        [sys.executable, "-c", FORBIDDEN, str(here.paths.data)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(
        f"FolderError | The config file {here.file} cannot be written: Permission denied."
    ), done
    assert "BONSAI_MODEL=8B" in first
    assert second == "False"
    here.paths.data.chmod(0o755)
    assert here.text == "ctx = 4096\n"


# -- on the terminal ----------------------------------------------------------------------------------------


def test_the_command_writes_the_same_line(bonsai: Bonsai) -> None:
    env = {"BONSAI_MODEL": ""}
    done = bonsai("models", "--use", "1.7B", env=env)
    assert done.returncode == 0, done.stderr
    assert "Ternary Bonsai 1.7B is the model from now on" in done.stderr
    (file,) = bonsai.home.rglob("config.toml")
    assert file.read_text() == 'model = "1.7B"\n'
    assert str(file) in done.stderr.replace("\n", "")
    done = bonsai("models", "--use", "auto", env=env)
    assert done.returncode == 0, done.stderr
    assert file.read_text() == ""
    for arguments, more, says in (
        (["9B"], env, "No model is called '9B'"),
        (["8B"], {"BONSAI_MODEL": "4B"}, "BONSAI_MODEL asks for 4B"),
    ):
        refused = bonsai("models", "--use", *arguments, env=more)
        assert refused.returncode == 2
        assert says in refused.stderr
    assert file.read_text() == ""
