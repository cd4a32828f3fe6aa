"""The smaller parts of the build: icon, what is left out, licences, the app's first steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import app_entry
import app_icon
import app_licenses
import app_slim
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
SVG = ROOT / "webui" / "static" / "icon.svg"


def test_the_icon_is_drawn_for_every_system(tmp_path: Path) -> None:
    app_icon.write(SVG, tmp_path)
    sizes = {}
    for name in ("bonsai.ico", "bonsai.icns", "bonsai.png"):
        assert (tmp_path / name).stat().st_size < 200_000
        with Image.open(tmp_path / name) as image:
            sizes[name] = image.info.get("sizes", {image.size})
            image.load()
    assert {(16, 16), (256, 256)} <= set(sizes["bonsai.ico"])
    assert (512, 512, 2) in sizes["bonsai.icns"]
    with Image.open(tmp_path / "bonsai.png") as image:
        picture: Any = image.convert("RGBA")
    points = [picture.getpixel(at) for at in ((0, 0), (128, 245), (160, 80), (128, 170))]
    assert points[0] == (0, 0, 0, 0)  # a round corner
    assert points[1][:3] == (0x2B, 0x6A, 0x4C)  # the ground
    assert points[2][:3] == (0xBF, 0xE3, 0xCB)  # a crown
    assert points[3][:3] == (0xF3, 0xEF, 0xE2)  # the trunk


@pytest.mark.parametrize(
    ("d", "points"),
    [("M1 2l3 4h1v-1z", [(1, 2), (4, 6), (5, 6), (5, 5)]), ("M0-1.500l-.5-2", [(0, -1.5), (-0.5, -3.5)])],
)
def test_a_path_is_read(d: str, points: list[tuple[float, float]]) -> None:
    assert app_icon.path_points(d) == points


def test_a_curve_begins_and_ends_where_it_says() -> None:
    points = app_icon.path_points("M0 0c0 10 10 10 10 0")
    assert points[0] == (0, 0)
    assert points[-1] == (10, 0)
    assert max(y for _, y in points) == pytest.approx(7.5)


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'A'"):
        app_icon.path_points("M0 0A1 1 0 0 0 2 2")
    file = tmp_path / "x.svg"
    file.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><text>x</text></svg>', encoding="utf-8"
    )
    with pytest.raises(ValueError, match="text"):
        app_icon.draw(file, 16)


@pytest.mark.parametrize(
    ("place", "out"),
    [
        ("gradio/media_assets/images/x.png", True),
        ("gradio\\media_assets\\x.png", True),
        ("gradio/templates/node/build/index.js", True),
        ("gradio/templates/frontend/static/ffmpeg/ffmpeg-core.wasm", True),
        ("gradio/templates/frontend/assets/PlotlyPlot-D9.js", True),
        ("gradio/templates/frontend/assets/index-D9.js", False),
        ("gradio/templates/frontend/index.html", False),
        ("gradio_client/types.json", False),
        ("safehttpx/version.txt", False),
        ("webui/static/main.js", False),
        ("certifi/cacert.pem", False),
    ],
)
def test_what_is_left_out(place: str, out: bool) -> None:
    assert app_slim.is_left_out(place) is out
    assert app_slim.kept([(place, "source", "DATA")]) == ([] if out else [(place, "source", "DATA")])


def test_gradio_and_our_page_need_nothing_that_is_left_out() -> None:
    """The page is made with every module that is left out being impossible to import, and with our pandas."""
    code = f"""
import json, os, sys
sys.path.insert(0, {str(ROOT / "build" / "stubs")!r})
class Left:
    def find_spec(self, name, path=None, target=None):
        if name in {set(app_slim.MODULES)!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Left())
from webui.gradio_seam import gradio_environment, import_gradio
os.environ.update(gradio_environment({{}}))
from webui.layout import make_blocks
gr = import_gradio()
make_blocks(gr)
import gguf, uvicorn, launcher.cli, launcher.practice, webui.routes
print(json.dumps([sys.modules["pandas"].__file__, sorted({{name.split(".")[0] for name in sys.modules}})]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pandas, loaded = json.loads(done.stdout)
    assert Path(pandas).is_relative_to(ROOT)
    # Whatever is loaded has a licence that is found.
    assert app_licenses.distributions(it for it in loaded if not it.startswith(("_", "cython_runtime")))


def test_licences_are_gathered_with_a_list(tmp_path: Path) -> None:
    folder = tmp_path / "licenses"
    folder.mkdir()
    (folder / "old").write_text("from an earlier build", encoding="utf-8")
    parts = app_licenses.gather({"numpy", "json", "latex2mathml", "launcher"}, [], folder, embedded=True)
    names = [part.name for part in parts]
    assert names[:2] == ["Bonsai Launcher", "Python"]
    assert {"pyinstaller", "llama.cpp", "numpy", "latex2mathml"} <= set(names)
    assert not (folder / "old").exists()
    listed = (folder / "LIST.txt").read_text(encoding="utf-8")
    assert f"numpy {metadata.version('numpy')}: BSD-3-Clause" in listed
    for name in names:
        assert any(file.stat().st_size > 40 for file in (folder / name).iterdir()), name
    assert "ggml authors" in (folder / "llama.cpp" / "llama.cpp.txt").read_text(encoding="utf-8")
    # No file of its own: what it declares is written down.
    assert "MIT" in (folder / "latex2mathml" / "DECLARED.txt").read_text(encoding="utf-8")


def test_a_module_of_unknown_origin_stops_the_build() -> None:
    with pytest.raises(LookupError, match="smuggled"):
        app_licenses.distributions(["smuggled.part"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"LD_LIBRARY_PATH": "/app"}, {}),
        (
            {"LD_LIBRARY_PATH": "/app:/mine", "LD_LIBRARY_PATH_ORIG": "/mine"},
            {"LD_LIBRARY_PATH": "/mine", "LD_LIBRARY_PATH_ORIG": "/mine"},
        ),
        ({"PATH": "/bin"}, {"PATH": "/bin"}),
    ],
)
def test_library_paths_are_the_persons_own_again(before: dict[str, str], after: dict[str, str]) -> None:
    app_entry.give_back_library_paths(before)
    assert before == after


@pytest.mark.parametrize(
    ("argv", "parent", "env", "finder"),
    [
        (["bonsai"], 1, {}, True),
        (["bonsai"], 1, {"BONSAI_DETACHED": "1"}, False),
        (["bonsai"], 500, {}, False),
        (["bonsai", "plan"], 1, {}, False),
    ],
)
def test_what_finder_opens_is_told_from_what_a_person_types(
    argv: list[str], parent: int, env: dict[str, str], finder: bool
) -> None:
    assert app_entry.opened_by_finder(argv, parent, env) is finder


@pytest.mark.case("F-04")
def test_nothing_comes_before_the_guard_against_endless_starts() -> None:
    lines = (ROOT / "build" / "app_entry.py").read_text(encoding="utf-8").split('"""', 2)[2].split()
    assert lines[:3] == ["import", "multiprocessing", "multiprocessing.freeze_support()"]


def test_the_build_refuses_to_work_in_the_checkout(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "build" / "build.py"), "--work", str(ROOT / "build" / "work")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "must not lie in the checkout" in done.stderr
    nothing = [*command[:2], "--work", str(tmp_path / "work"), "--only", "archive"]
    done = subprocess.run(
        nothing, capture_output=True, text=True, check=False, env=os.environ | {"HOME": str(tmp_path)}
    )
    assert done.returncode == 1
    assert "make it first" in done.stderr
