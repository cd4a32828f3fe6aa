"""The app's icon as picture files, drawn from the page's own icon (webui/static/icon.svg)."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from PIL import Image, ImageDraw

SVG = "{http://www.w3.org/2000/svg}"
SIZES = (16, 24, 32, 48, 64, 128, 256)
LARGEST = 1024
FINER = 4  # drawn larger and scaled down: Pillow does not smooth edges
STEPS = 48  # straight pieces for a curve
Point = tuple[float, float]


def draw(svg: Path, size: int) -> Image.Image:
    """The icon with ``size`` pixels a side. ``svg`` may hold rectangles, ellipses, and paths of M, l, v, h, c, z in
    numbers; raises ValueError for what cannot be drawn here."""
    root = ET.fromstring(svg.read_text(encoding="utf-8"))  # noqa: S314 - a file of ours
    side = float(root.attrib["viewBox"].split()[2])
    scale = size * FINER / side
    image = Image.new("RGBA", (size * FINER, size * FINER))
    pen = ImageDraw.Draw(image)
    for shape in root:
        _shape(pen, shape.tag.removeprefix(SVG), shape.attrib, scale)
    return image.resize((size, size), Image.Resampling.LANCZOS)


def _shape(pen: ImageDraw.ImageDraw, kind: str, said: dict[str, str], scale: float) -> None:
    def number(name: str) -> float:
        return float(said.get(name, "0")) * scale

    fill = said.get("fill", "#000")
    if kind == "rect":
        box = (
            number("x"), number("y"), number("x") + number("width") - 1, number("y") + number("height") - 1
        )  # fmt: skip
        pen.rounded_rectangle(box, number("rx"), fill=fill)
    elif kind == "ellipse":
        x, y, rx, ry = (number(name) for name in ("cx", "cy", "rx", "ry"))
        pen.ellipse((x - rx, y - ry, x + rx, y + ry), fill=fill)
    elif kind == "path":
        points = [(x * scale, y * scale) for x, y in path_points(said["d"])]
        if fill != "none":
            pen.polygon(points, fill=fill)
        if "stroke" in said:
            width = number("stroke-width")
            pen.line(points, fill=said["stroke"], width=round(width))
            for x, y in points:  # round ends and joints
                pen.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=said["stroke"])
    else:
        raise ValueError(f"the icon holds a <{kind}>, which is not drawn here")


def path_points(text: str) -> list[Point]:
    """The corners of one SVG path, its curves in STEPS straight pieces."""
    points: list[Point] = []
    x = y = 0.0
    for letter, rest in re.findall(r"([a-zA-Z])([^a-zA-Z]*)", text):
        values = [float(it) for it in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", rest)]
        if letter == "M":
            x, y = values
        elif letter == "l":
            x, y = x + values[0], y + values[1]
        elif letter in "hv":
            x, y = (x + values[0], y) if letter == "h" else (x, y + values[0])
        elif letter == "c":
            ends = [(x + dx, y + dy) for dx, dy in zip(values[::2], values[1::2], strict=True)]
            first, second, last = ends
            points += [_bezier((x, y), first, second, last, at / STEPS) for at in range(1, STEPS)]
            x, y = last
        elif letter in "zZ":
            continue
        else:
            raise ValueError(f"the icon's path holds {letter!r}, which is not drawn here")
        points.append((x, y))
    return points


def _bezier(a: Point, b: Point, c: Point, d: Point, t: float) -> Point:
    """The point at ``t`` of the cubic Bézier curve from ``a`` to ``d``."""
    u = 1 - t
    weights = (u**3, 3 * u**2 * t, 3 * u * t**2, t**3)
    x, y = (sum(w * p[axis] for w, p in zip(weights, (a, b, c, d), strict=True)) for axis in (0, 1))
    return x, y


def write(svg: Path, folder: Path) -> None:
    """Write ``bonsai.ico`` (Windows), ``bonsai.icns`` (macOS) and ``bonsai.png`` (Linux) into ``folder``."""
    large = draw(svg, LARGEST)
    large.save(folder / "bonsai.icns")
    draw(svg, 256).save(folder / "bonsai.png", optimize=True)
    small = [draw(svg, size) for size in SIZES]
    small[-1].save(folder / "bonsai.ico", append_images=small[:-1], sizes=[(size, size) for size in SIZES])
