"""Gathers the licences of everything that is inside the app, and a list of what that is."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NAMES = ("licen", "copying", "notice", "copyright", "authors")
OURS = {"launcher", "webui", "pandas", "app_entry", "app_slim"}  # pandas: a file of ours stands for it
STANDARD = sys.stdlib_module_names


@dataclass(frozen=True)
class Part:
    """Something inside: its licence as its makers declare it, and the files that say so."""

    name: str
    version: str
    declared: str
    files: tuple[Path, ...]


def distributions(modules: Iterable[str]) -> list[metadata.Distribution]:
    """The installed distributions that hold these top-level modules. Raises LookupError for a module of which
    nobody knows where it comes from: its licence would be missing."""
    known = metadata.packages_distributions()
    names: set[str] = set()
    for module in modules:
        top = module.split(".")[0]
        if top in STANDARD or top in OURS or top.startswith("_sysconfigdata"):
            continue
        if top not in known:
            raise LookupError(f"No installed package says that it holds {top}.")
        names |= set(known[top])
    return [metadata.distribution(name) for name in sorted(names, key=str.lower)]


def part(distribution: metadata.Distribution) -> Part:
    """What a distribution says of itself."""
    said: Any = distribution.metadata
    declared = said.get("License-Expression") or said.get("License") or ""
    if not declared or "\n" in declared:
        classifiers = [
            it.split(" :: ")[-1] for it in said.get_all("Classifier") or [] if it.startswith("License")
        ]
        declared = ", ".join(classifiers) or declared.partition("\n")[0] or "see its files"
    files = [
        Path(str(file.locate()))
        for file in distribution.files or ()
        if ".dist-info" in str(file) and any(name in file.name.lower() for name in NAMES)
    ]
    return Part(said["Name"], distribution.version, declared, tuple(sorted(set(files))))


def system_parts(files: Iterable[Path]) -> Iterator[Part]:
    """Libraries that were taken from this system: by the package that holds them, where dpkg knows."""
    prefixes = {Path(sysconfig.get_paths()[name]).resolve() for name in ("stdlib", "purelib", "platlib")}
    prefixes |= {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), HERE.parent}
    packages: dict[str, list[str]] = {}
    for file in files:
        if not any(file.resolve().is_relative_to(prefix) for prefix in prefixes):
            packages.setdefault(_package(file) or "", []).append(file.name)
    for package, names in sorted(packages.items()):
        copyright_file = Path("/usr/share/doc", package.split(":")[0], "copyright")
        found = (copyright_file,) if package and copyright_file.is_file() else ()
        libraries = ", ".join(sorted(set(names)))
        yield Part(package.split(":")[0] or "libraries of the system", libraries, "see its files", found)


def _package(file: Path) -> str:
    """The Debian package that holds ``file``, empty where nobody knows."""
    if not shutil.which("dpkg-query"):
        return ""
    spellings = {str(file), str(file.resolve()), str(file).removeprefix("/usr"), f"/usr{file}"}
    for spelling in sorted(spellings):
        done = subprocess.run(["dpkg-query", "-S", spelling], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.partition(": ")[0].split(",")[0]
    return ""


def own_parts(*, embedded: bool) -> Iterator[Part]:
    """Ourselves, Python, the start program, and what the embedded engine is made of."""
    yield Part("Bonsai Launcher", "", "Apache-2.0", (HERE.parent / "LICENSE",))
    stdlib = Path(sysconfig.get_path("stdlib"))
    places = (stdlib / "LICENSE.txt", Path(sys.base_prefix, "LICENSE.txt"), Path(sys.base_prefix, "LICENSE"))
    found = tuple(place for place in places if place.is_file())[:1]
    yield Part("Python", sys.version.split()[0], "PSF-2.0", found)
    yield part(metadata.distribution("pyinstaller"))
    if embedded:
        yield Part("llama.cpp", "", "MIT and others", (HERE / "notices" / "llama.cpp.txt",))


def gather(modules: Iterable[str], files: Iterable[Path], folder: Path, *, embedded: bool) -> list[Part]:
    """Write all licences below ``folder``, which is emptied first, and ``LIST.txt``, which names every part."""
    shutil.rmtree(folder, ignore_errors=True)
    parts = [
        *own_parts(embedded=embedded),
        *(part(it) for it in distributions(modules)),
        *system_parts(files),
    ]
    lines = [
        "What is inside this app, and under which licences. The texts lie in folders of the same names.",
        "",
    ]
    for it in parts:
        home = folder / it.name
        home.mkdir(parents=True, exist_ok=True)
        for number, file in enumerate(it.files):
            name = file.name if not (home / file.name).exists() else f"{number}-{file.name}"
            shutil.copyfile(file, home / name)
        if not it.files:
            (home / "DECLARED.txt").write_text(
                f"{it.name} {it.version} declares its licence as: {it.declared}\n", encoding="utf-8"
            )
        lines.append(f"{it.name} {it.version}".strip() + f": {it.declared}")
    (folder / "LIST.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return parts
