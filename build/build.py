"""Makes the app for people without Python, for the system it runs on.

    python build/build.py [--out FOLDER] [--work FOLDER] [--only app|archive]

``app``: PyInstaller, then the folder (Linux, Windows) or the bundle (macOS) with licences and a note. ``archive``:
packs what ``app`` has left and writes SHA256SUMS; whoever signs does so in between. Everything lies in the work
folder, outside the checkout; the archive goes to the out folder.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

import app_archive  # noqa: E402
import app_icon  # noqa: E402
import platformdirs  # noqa: E402
import sign_list  # noqa: E402

from launcher import __version__, embedded  # noqa: E402

SYSTEMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
PROCESSORS = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "arm64", "aarch64": "arm64"}
STRIPPED_BYTES = 1 << 18  # smaller ones are hardly worth a process
NOTE = """Bonsai Launcher {version}

{start}
A page opens in your browser. End it with Quit on that page.

What it fetches and keeps lies in your own data folder, not here: this folder can be replaced by a newer version.
In a terminal, `bonsai --help` lists the commands. Licences of everything inside: licenses/LIST.txt
"""
START = {
    "linux": "Start the program bonsai in this folder (double-click, or ./bonsai in a terminal).",
    "windows": "Double-click Bonsai Launcher. In PowerShell: .\\bonsai.exe",
}
VERSION_INFO = """VSVersionInfo(
  ffi=FixedFileInfo(filevers={numbers}, prodvers={numbers}, mask=0x3F, flags=0x0, OS=0x40004, fileType=0x1, subtype=0x0),
  kids=[
    StringFileInfo([StringTable("040904B0", [
      StringStruct("CompanyName", "Bonsai Launcher"),
      StringStruct("FileDescription", "Bonsai Launcher"),
      StringStruct("FileVersion", "{version}"),
      StringStruct("LegalCopyright", "Apache-2.0"),
      StringStruct("ProductName", "Bonsai Launcher"),
      StringStruct("ProductVersion", "{version}"),
    ])]),
    VarFileInfo([VarStruct("Translation", [1033, 1200])]),
  ],
)
"""


@dataclass(frozen=True)
class Places:
    """Where one build lies."""

    work: Path
    out: Path

    @property
    def system(self) -> str:
        """ "linux", "macos" or "windows"; KeyError elsewhere."""
        return SYSTEMS[sys.platform]

    @property
    def name(self) -> str:
        """Of the folder in the archive, and of the archive without its ending."""
        machine = platform.machine().lower()
        return f"bonsai-launcher-{__version__}-{self.system}-{PROCESSORS.get(machine, machine)}"

    @property
    def generated(self) -> Path:
        """What is made for this build: icons, licences, the version's resource."""
        return self.work / "generated"

    @property
    def app(self) -> Path:
        """What is packed: the folder, or on macOS the bundle."""
        return self.work / "dist" / ("Bonsai Launcher.app" if self.system == "macos" else self.name)

    @property
    def program(self) -> Path:
        """The app's program for terminals."""
        if self.system == "macos":
            return self.app / "Contents" / "MacOS" / "bonsai"
        return self.app / ("bonsai.exe" if self.system == "windows" else "bonsai")

    @property
    def archive(self) -> Path:
        """What is given to people."""
        return self.out / (f"{self.name}.tar.gz" if self.system == "linux" else f"{self.name}.zip")


def say(text: str) -> None:
    """A line on stderr, at once."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def make_app(places: Places) -> None:
    """Everything up to what is packed. Raises CalledProcessError when PyInstaller or the new app fails."""
    shutil.rmtree(places.work / "dist", ignore_errors=True)
    places.generated.mkdir(parents=True, exist_ok=True)
    app_icon.write(ROOT / "webui" / "static" / "icon.svg", places.generated)
    numbers = tuple(int(it) for it in (*__version__.split("."), "0"))
    info = VERSION_INFO.format(numbers=numbers, version=__version__)
    (places.generated / "version.txt").write_text(info, encoding="utf-8")
    freeze(places)
    if places.system != "macos":
        (places.work / "dist" / "bonsai").rename(places.app)
        shutil.copytree(places.generated / "licenses", places.app / "licenses")
        note = NOTE.format(version=__version__, start=START[places.system])
        (places.app / "README.txt").write_text(note, encoding="utf-8")
    if places.system == "linux":
        shutil.copyfile(places.generated / "bonsai.png", places.app / "bonsai.png")
        strip(places.app)
    said = subprocess.run([places.program, "--version"], capture_output=True, text=True, check=True).stdout
    if said.strip() != f"bonsai {__version__}":
        raise SystemExit(f"The new app says {said.strip()!r} instead of its version.")


def freeze(places: Places) -> None:
    """Run PyInstaller; all that it writes lies in the work folder."""
    env = dict(os.environ)
    env["PYINSTALLER_CONFIG_DIR"] = str(places.work / "pyinstaller")
    env["PYTHONPYCACHEPREFIX"] = str(places.work / "pycache")  # no bytecode beside the sources
    with_embedded = ["--embedded"] if embedded.available() is None else []
    command = [
        *(sys.executable, "-m", "PyInstaller", str(HERE / "bonsai.spec"), "--noconfirm"),
        *("--distpath", str(places.work / "dist"), "--workpath", str(places.work / "pyinstaller-work")),
        *("--log-level", "WARN", "--", "--generated", str(places.generated), *with_embedded),
    ]
    subprocess.run(command, env=env, cwd=places.work, check=True)


def strip(folder: Path) -> None:
    """Take the symbols out of the libraries: four fifths of the embedded engine. Libraries in a wheel's own .libs
    folder were rewritten by tools after they were linked, and stripping breaks some of those."""
    program = shutil.which("strip")
    if program is None:
        say("strip is not on this machine: the app stays larger than it could be.")
        return
    for file in sign_list.binaries(folder, "elf"):
        if file.stat().st_size > STRIPPED_BYTES and ".libs" not in file.parent.suffix and file.suffix != "":
            subprocess.run([program, "--strip-unneeded", str(file)], check=True)


def make_archive(places: Places) -> Path:
    """Pack the app into the out folder, beside its checksum. Raises SystemExit when there is no app."""
    if not places.program.exists():
        raise SystemExit(f"There is no app at {places.app}: make it first.")
    places.out.mkdir(parents=True, exist_ok=True)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", app_archive.OLDEST))
    if places.system == "macos":  # the system's own tool keeps what a signature is made of
        places.archive.unlink(missing_ok=True)
        ditto = ["ditto", "-c", "-k", "--sequesterRsrc", "--keepParent", str(places.app), str(places.archive)]
        subprocess.run(ditto, check=True)
    else:
        pack = app_archive.tar_gz if places.system == "linux" else app_archive.zipped
        pack(places.app, places.archive, epoch=epoch)
    app_archive.write_sums(places.out, [places.archive.name])
    return places.archive


def main(argv: list[str] | None = None) -> int:
    """Prints the path of what was made."""
    usual = Path(platformdirs.user_cache_dir("bonsai-launcher", appauthor=False), "app", __version__)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="for the archive (else: out in the work folder)")
    parser.add_argument("--work", type=Path, default=usual, help="for all else (else: %(default)s)")
    parser.add_argument("--only", choices=("app", "archive"), help="one of the two steps")
    options = parser.parse_args(argv)
    work = options.work.resolve()
    if work.is_relative_to(ROOT):
        parser.error("the work folder must not lie in the checkout")
    places = Places(work, (options.out or work / "out").resolve())
    if options.only != "archive":
        make_app(places)
        say(f"The app: {places.app}")
    made = places.app if options.only == "app" else make_archive(places)
    sys.stdout.write(f"{made}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
