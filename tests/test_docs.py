"""What the documents say is what the program does. ``python -m tests.test_docs`` writes what is generated in them."""

from __future__ import annotations

import re
import tempfile
import tomllib
from pathlib import Path

import pytest

from launcher import __version__
from launcher.catalog import load
from launcher.catalog_table import page_markdown
from launcher.settings import SPECS, table_markdown
from tests import cases
from tests.conftest import Bonsai

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
MODELS = ROOT / "docs" / "models.md"
CASES = ROOT / "docs" / "cases.md"
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


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
    missing = [path for path in linked | named if not (ROOT / path).exists()]
    assert missing == []


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
