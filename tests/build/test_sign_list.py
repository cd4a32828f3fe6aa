"""Every program and library inside an app is found, by how it begins and not by its name."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import sign_list

MACHO_64 = struct.pack("<II", 0xFEEDFACF, 0x0100000C) + bytes(56)
MACHO_32_BIG = struct.pack(">II", 0xFEEDFACE, 18) + bytes(56)
UNIVERSAL = struct.pack(">II", 0xCAFEBABE, 2) + bytes(56)
JAVA = struct.pack(">IHH", 0xCAFEBABE, 0, 61) + bytes(56)
ELF = b"\x7fELF\x02\x01" + bytes(58)
PE = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + bytes(20)
DOS = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"NE\0\0" + bytes(20)


@pytest.mark.case("F-06")
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (MACHO_64, "macho"),
        (MACHO_32_BIG, "macho"),
        (UNIVERSAL, "macho"),
        (ELF, "elf"),
        (PE, "pe"),
        (JAVA, None),
        (DOS, None),
        (b"MZ", None),
        (b"MZ" + bytes(58) + b"\xff\xff\xff\xff", None),
        (b"#!/bin/sh\n", None),
        (b"", None),
        (MACHO_64[:4], None),
    ],
)
def test_what_a_file_is_stands_in_its_first_bytes(tmp_path: Path, content: bytes, kind: str | None) -> None:
    file = tmp_path / "anything.txt"
    file.write_bytes(content)
    assert sign_list.kind(file) == kind


@pytest.mark.case("F-06")
@pytest.mark.system("posix")
def test_the_deepest_come_first_and_a_link_is_no_second_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = tmp_path / "Bonsai Launcher.app" / "Contents"
    for name in (
        "MacOS/bonsai",
        "Frameworks/numpy/_core/umath.so",
        "Frameworks/libssl.dylib",
        "Frameworks/no-name",
    ):
        file = app / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(MACHO_64)
    (app / "Info.plist").write_text("<plist/>", encoding="utf-8")
    (app / "Frameworks" / "linux.so").write_bytes(ELF)
    (app / "Resources").mkdir()
    (app / "Resources" / "libssl.dylib").symlink_to("../Frameworks/libssl.dylib")
    assert sign_list.main([str(app.parent), "--format", "macho"]) == 0
    listed = [Path(line).relative_to(app).as_posix() for line in capsys.readouterr().out.splitlines()]
    assert listed == [
        "Frameworks/numpy/_core/umath.so",
        "Frameworks/libssl.dylib",
        "Frameworks/no-name",
        "MacOS/bonsai",
    ]
    assert sign_list.main([str(app.parent), "--null"]) == 0
    assert capsys.readouterr().out.count("\0") == 5


def test_a_folder_without_any_is_a_mistake(tmp_path: Path) -> None:
    assert sign_list.main([str(tmp_path)]) == 1
    with pytest.raises(SystemExit):
        sign_list.main([str(tmp_path / "nothing")])


@pytest.mark.frozen
@pytest.mark.system("linux")
@pytest.mark.case("F-06")
def test_it_finds_what_the_loader_would_load_in_the_real_app(app_program: Path) -> None:
    listed = set(sign_list.binaries(app_program.parent, "elf"))
    by_name = {it for it in app_program.parent.rglob("*.so*") if not it.is_symlink()}
    assert app_program in listed
    assert by_name <= listed
    assert len(listed) > 40
