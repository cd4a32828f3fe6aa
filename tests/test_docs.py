"""What the documents say is what the program does. ``python -m tests.test_docs`` writes what is generated in them."""

from __future__ import annotations

import re
import shlex
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher import __version__, cli, embedded
from launcher.catalog import load
from launcher.catalog_table import page_markdown
from launcher.settings import SPECS, table_markdown
from tests import cases
from tests.conftest import Bonsai

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
MODELS = ROOT / "docs" / "models.md"
CASES = ROOT / "docs" / "cases.md"
PAGES = tuple(
    page.relative_to(ROOT).as_posix()
    for page in (
        README,
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
)
PROGRAM = re.compile(r"(?:\./|\.venv/(?:bin|Scripts)/)?bonsai(?:\.exe)?|(?:\./)?scripts/start\.(?:sh|ps1)")
OURS = re.compile(r"(?:\./)?((?:scripts|build|tests|benchmarks)/[\w./-]+\.(?:sh|ps1|py))")
OF_OTHERS = {"--list-devices", "--require-all", "--upgrade"}  # llama-server's, our tests', uv's


def block(text: str, name: str) -> re.Match[str]:
    """The part of a page between its two markers."""
    found = re.search(rf"(?s)(<!-- {name}:begin -->\n)(.*?)(<!-- {name}:end -->)", text)
    assert found, f"the markers of {name} are missing"
    return found


def generated(bonsai: Bonsai) -> dict[str, str]:
    """What stands between each pair of markers."""
    done = bonsai("--help", env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    help_text = done.stdout.replace("python -m launcher", "bonsai").strip()
    return {
        "help": f"```text\n{help_text}\n```\n",
        "environment": f"{table_markdown()}\n",
    }


@pytest.mark.parametrize("name", ["help", "environment"])
def test_a_generated_block_is_current(bonsai: Bonsai, name: str) -> None:
    current = block(README.read_text(encoding="utf-8"), name)[2]
    assert current == generated(bonsai)[name], "run: python -m tests.test_docs"


def test_the_page_of_models_is_current() -> None:
    assert MODELS.read_text(encoding="utf-8") == page_markdown(load()), "run: python -m tests.test_docs"


def test_the_page_of_public_reports_is_current() -> None:
    assert CASES.read_text(encoding="utf-8") == cases.page_markdown(), "run: python -m tests.test_docs"


def test_every_public_report_has_a_proof_and_every_mark_names_one() -> None:
    proofs = cases.proofs()
    assert [case for case in cases.CASES if case not in proofs] == []
    assert set(proofs) <= set(cases.CASES)


def test_every_command_is_explained(bonsai: Bonsai) -> None:
    text = README.read_text(encoding="utf-8")
    for line in bonsai("--help").stdout.partition("Commands:")[2].splitlines():
        if name := re.match(r"  ([a-z]+)  ", line):
            assert f"`bonsai {name[1]}" in text, name[1]


def test_every_variable_that_is_named_exists() -> None:
    known = {spec.env for spec in SPECS}
    for page in PAGES:
        named = set(re.findall(r"BONSAI_[A-Z0-9_]+", (ROOT / page).read_text(encoding="utf-8")))
        assert named - known - {"BONSAI_"} == set(), page


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_is_named_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    linked = {target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target}
    rooted = r"`((?:launcher|webui|scripts|tests|docs|benchmarks|\.ci|\.github)/[\w./]+)`"
    named = {path.rstrip("/") for path in re.findall(rooted, text)}
    missing = [path for path in linked if not (ROOT / page).parent.joinpath(path).exists()]
    assert missing + [path for path in named if not (ROOT / path).exists()] == []


# -- commands -----------------------------------------------------------------------------------------------


def spans(text: str) -> Iterator[str]:
    """What stands between single backticks, outside of blocks."""
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^```.*?^```", "", text))


def command_lines(text: str) -> Iterator[list[str]]:
    """The words of every command in the blocks of a page, in their comments, and between its backticks; slashes for
    backslashes."""
    blocks = "\n".join(re.findall(r"(?ms)^```(?:sh|powershell)\n(.*?)^```", text)).replace("\\\n", " ")
    aside = re.findall(r"#.*?(bonsai [a-z]+(?: --[\w-]+)+)", blocks)
    shown = (span for span in spans(text) if " " in span or PROGRAM.fullmatch(span))
    for line in (*blocks.splitlines(), *aside, *shown):
        reader = shlex.shlex(line.replace("\\", "/"), posix=True, punctuation_chars="|&;")
        reader.whitespace_split, reader.escape = True, ""
        words: list[str] = []
        try:
            for word in [*reader, ";"]:
                if not word.strip("|&;"):
                    yield words
                    words = []
                elif words or not re.fullmatch(r"\w+=.*", word):  # a variable for the command
                    words.append(word)
        except ValueError:  # a quotation mark alone: a sentence, not a command
            continue


def idle() -> Any:
    """The whole command with nothing behind it: it only reads its words."""

    def still(command: Any) -> Any:
        command.callback = lambda **_: None
        for inner in getattr(command, "commands", {}).values():
            still(inner)
        return command

    return still(cli.command())


def wrong(words: list[str]) -> str:
    """Why ``words`` are no command of this project, or empty."""
    for word in words:
        if (file := OURS.fullmatch(word)) and not (ROOT / file[1]).exists():
            return f"there is no {file[1]}"
    at = next((at for at, word in enumerate(words) if PROGRAM.fullmatch(word)), None)
    if at is not None:
        try:
            idle().main(words[at + 1 :], "bonsai", standalone_mode=False)
        except Exception as error:  # of the command line's own library: what it would print
            return str(getattr(error, "format_message", lambda said=error: said)())
    if "-m" in words[:-1]:
        module, *rest = words[words.index("-m") + 1 :]
        package = ROOT.joinpath(*module.split("."))
        sources = [*package.glob("*.py"), *package.parent.glob(f"{package.name}.py")]
        if module.partition(".")[0] in ("tests", "benchmarks", "launcher"):
            if not sources:
                return f"there is no {module}"
            code = "".join(path.read_text(encoding="utf-8") for path in sources)
            return next(
                (f"{module} knows no {it}" for it in rest if it[:2] == "--" and f'"{it}"' not in code), ""
            )
    return ""


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != "docs/models.md"]
)  # "bonsai 27B" is a model
def test_every_command_that_is_shown_can_be_given(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = {shlex.join(words): wrong(words) for words in command_lines(text) if words}
    assert {line: why for line, why in found.items() if why} == {}
    capsys.readouterr()


def test_the_commands_of_the_readme_are_found_and_wrong_ones_are_noticed() -> None:
    found = [shlex.join(words) for words in command_lines(README.read_text(encoding="utf-8"))]
    for line in (
        "./scripts/start.sh",
        "./scripts/start.ps1",
        "bonsai lab --quick --use coding",
        "bonsai lab --undo",
        "./scripts/start_llama_server.sh -c 32768",
        "bonsai plan --json --machine FILE",
        "./bonsai.exe plan",
        "bonsai engines remove NAME",
    ):
        assert line in found, line
    for line, why in (
        ("bonsai labs", "No such command"),
        ("bonsai plan --jsn", "No such option"),
        ("bonsai lab --draft-on", "requires an argument"),
        ("./scripts/start.sh models remove", "Missing argument"),
        ("bonsai lab --runs 0", "Invalid value for '--runs'"),
        ("./scripts/begin.sh", "there is no scripts/begin.sh"),
        ("python -m benchmarks.nothing", "there is no benchmarks.nothing"),
        ("python -m tests.campaign --loudly", "knows no --loudly"),
    ):
        assert why in wrong(line.split()), line


def options(command: Any) -> set[str]:
    """Every option of ``command`` and of those below it."""
    own = {name for it in command.params for name in (*it.opts, *it.secondary_opts)}
    return own.union(*(options(inner) for inner in getattr(command, "commands", {}).values()))


def test_every_option_that_is_named_exists() -> None:
    engines = set().union(*(line.flags for line in load().lines)) | embedded.supported_flags()
    known = options(cli.command()) | engines | OF_OTHERS | {"--help", "--"}
    for page in PAGES[:2] + PAGES[3:]:  # what a changelog names may be gone
        named = {
            span.split()[0] for span in spans((ROOT / page).read_text(encoding="utf-8")) if span[:2] == "--"
        }
        assert named - known == set(), page


def test_the_options_in_the_table_of_commands_are_those_of_its_commands() -> None:
    rows = re.findall(r"(?m)^\| (`bonsai[^|]*) \|(.*)\|$", README.read_text(encoding="utf-8"))
    assert len(rows) > 10
    for commands, explained in rows:
        for shown in spans(commands):
            command = cli.command()
            for word in shown.split()[1:]:
                command = getattr(command, "commands", {}).get(word, command)
            own = {name for it in command.params for name in it.opts}
            assert {span.split()[0] for span in spans(explained) if span[:2] == "--"} - {"--"} <= own, shown


def test_the_first_commands_of_the_readme_are_the_start_scripts() -> None:
    commands = re.findall(r"```(?:sh|powershell)\n(.*?)\n```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert commands[:2] == ["./scripts/start.sh", ".\\scripts\\start.ps1"]


def test_the_project_lists_every_package_and_carries_every_file_of_the_page() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    rooms = [room for room in ("launcher", "webui") if (ROOT / room).is_dir()]
    found = [path.parent.relative_to(ROOT) for room in rooms for path in (ROOT / room).rglob("__init__.py")]
    assert sorted(settings["packages"]) == sorted(".".join(path.parts) for path in found)
    carried = {path for glob in settings["package-data"]["webui"] for path in (ROOT / "webui").glob(glob)}
    static = {path for path in (ROOT / "webui" / "static").rglob("*") if path.is_file()}
    assert static
    assert static <= carried


def test_the_version_is_in_the_changelog() -> None:
    headings = re.findall(r"(?m)^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert "Unreleased" in headings or __version__ in headings


def write() -> None:
    """Bring the README's generated blocks and the pages of models and of public reports up to date."""
    MODELS.write_text(page_markdown(load()), encoding="utf-8")
    CASES.write_text(cases.page_markdown(), encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as home:
        for name, content in generated(Bonsai(Path(home))).items():
            found = block(text, name)
            text = text[: found.start(2)] + content + text[found.end(2) :]
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
