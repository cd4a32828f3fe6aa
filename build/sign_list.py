"""Lists every program and library inside an app, deepest first: each has to be signed, and the app itself last.

    python build/sign_list.py FOLDER [--format macho|pe|elf] [--null]

What counts is how a file begins, not its name: the notary refuses an app for one library that was passed over.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

MACHO = {0xFEEDFACE, 0xFEEDFACF, 0xCEFAEDFE, 0xCFFAEDFE}
UNIVERSAL = {0xCAFEBABE, 0xCAFEBABF}
# Java's classes begin with 0xCAFEBABE as well; their next number is their version, 45 or more.
MOST_ARCHITECTURES = 40


def kind(path: Path) -> str | None:
    """``macho``, ``pe`` or ``elf``; None for anything else."""
    with path.open("rb") as file:
        start = file.read(64)
        if start[:4] == b"\x7fELF":
            return "elf"
        if len(start) >= 8:
            magic, count = struct.unpack(">II", start[:8])
            if magic in MACHO or (magic in UNIVERSAL and 0 < count < MOST_ARCHITECTURES):
                return "macho"
        if start[:2] == b"MZ" and len(start) == 64:
            file.seek(struct.unpack("<I", start[60:64])[0])
            if file.read(4) == b"PE\0\0":
                return "pe"
    return None


def binaries(folder: Path, wanted: str | None = None) -> Iterator[Path]:
    """The files to sign, deepest first; a link is no file of its own."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in sorted(found, key=lambda path: (-len(path.parts), str(path))):
        what = kind(path)
        if what is not None and wanted in (None, what):
            yield path


def main(argv: list[str] | None = None) -> int:
    """Prints the paths. 1 when there is none: then something is wrong with the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", choices=("macho", "pe", "elf"))
    parser.add_argument("--null", action="store_true", help="end each with a null byte, for xargs -0")
    options = parser.parse_args(argv)
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is no folder")
    paths = list(binaries(options.folder, options.format))
    for path in paths:
        sys.stdout.write(f"{path}{chr(0) if options.null else chr(10)}")
    return 0 if paths else 1


if __name__ == "__main__":
    sys.exit(main())
