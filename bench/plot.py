"""SVG charts, drawn with the standard library only. The same numbers always produce the same bytes.

Line charts have logarithmic axes because they plot times against powers of two. Bars start at zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 60, 190, 50, 60
INK, GRID = "#57606a", "#d0d7de"


@dataclass(frozen=True)
class Line:
    """Named series of points."""

    name: str
    points: tuple[tuple[float, float], ...]
    color: str
    dashed: bool = False


def render_line_chart(lines: Sequence[Line], *, title: str, x: str, y: str, note: str) -> str:
    """Return a line chart as an SVG document."""
    across = sorted({point[0] for line in lines for point in line.points})
    up = _choose_ticks([point[1] for line in lines for point in line.points])
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def scale_x(value: float) -> float:
        return round(_scale_position(value, across[0], across[-1], LEFT, right), 1)

    def scale_y(value: float) -> float:
        return round(_scale_position(value, up[0], up[-1], bottom, TOP), 1)

    root = _create_svg_root(title, HEIGHT)
    for value in up:
        _add_polyline(root, [(LEFT, scale_y(value)), (right, scale_y(value))], GRID)
        _add_text(root, LEFT - 8, scale_y(value) + 4, f"{value:g}", {"text-anchor": "end"})
    for value in across:
        _add_polyline(root, [(scale_x(value), TOP), (scale_x(value), bottom)], GRID)
        _add_text(root, scale_x(value), bottom + 18, f"{value:g}", {"text-anchor": "middle"})
    _add_text(root, (LEFT + right) / 2, bottom + 38, x, {"text-anchor": "middle"})
    _add_text(root, LEFT - 8, TOP - 10, y, {"text-anchor": "end"})
    _add_text(root, LEFT, HEIGHT - 8, note, {"font-size": "10"})
    for number, line in enumerate(lines):
        dashes = {"stroke-dasharray": "5 4"} if line.dashed else {}
        _add_polyline(
            root, [(scale_x(at), scale_y(other)) for at, other in line.points], line.color, {"stroke-width": "2", **dashes}
        )
        for at, other in line.points:
            SubElement(root, "circle", {"cx": f"{scale_x(at)}", "cy": f"{scale_y(other)}", "r": "3", "fill": line.color})
        level = TOP + 10 + 20 * number
        _add_polyline(root, [(right + 16, level), (right + 44, level)], line.color, {"stroke-width": "2", **dashes})
        _add_text(root, right + 50, level + 4, line.name)
    return _serialize_svg(root)


@dataclass(frozen=True)
class Bar:
    """Named value."""

    name: str
    value: float


def render_bar_chart(every: Sequence[Bar], *, title: str, unit: str, note: str) -> str:
    """Return a chart of horizontal bars, in the given order and labeled with their values, as an SVG document."""
    left, thickness, gap = 230, 18, 10
    most = max((bar.value for bar in every), default=0.0) or 1.0
    height = TOP + len(every) * (thickness + gap) + 30
    root = _create_svg_root(title, height)
    for number, bar in enumerate(every):
        level = TOP + number * (thickness + gap)
        length = round(bar.value / most * (WIDTH - left - 90), 1)
        place = {"x": str(left), "y": str(level), "width": f"{length:g}", "height": str(thickness), "fill": "#1f6feb"}
        SubElement(root, "rect", place)
        _add_text(root, left - 8, level + 13, bar.name, {"text-anchor": "end"})
        _add_text(root, left + length + 6, level + 13, f"{bar.value:g} {unit}")
    _add_text(root, LEFT, height - 8, note, {"font-size": "10"})
    return _serialize_svg(root)


def _create_svg_root(title: str, height: int) -> Element:
    size = {"viewBox": f"0 0 {WIDTH} {height}", "width": str(WIDTH), "height": str(height)}
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "font-family": "sans-serif", "font-size": "12"})
    SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "white"})
    _add_text(root, LEFT, 24, title, {"font-size": "16", "fill": "#1f2328"})
    return root


def _serialize_svg(root: Element) -> str:
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _choose_ticks(values: Sequence[float]) -> list[float]:
    """Return the ticks (1, 2, 5, 10, ...) that cover the range of the values."""
    every = [digit * 10.0**power for power in range(-2, 5) for digit in (1, 2, 5)]
    low = max(tick for tick in every if tick <= min(values))
    high = min(tick for tick in every if tick >= max(values))
    return [tick for tick in every if low <= tick <= high]


def _scale_position(value: float, low: float, high: float, start: float, end: float) -> float:
    share = math.log(value / low) / math.log(high / low) if high > low else 0.5
    return start + share * (end - start)


def _add_polyline(root: Element, points: Sequence[tuple[float, float]], color: str, more: dict[str, str] | None = None) -> None:
    text = " ".join(f"{column_x},{other}" for column_x, other in points)
    SubElement(root, "polyline", {"points": text, "fill": "none", "stroke": color, **(more or {})})


def _add_text(root: Element, across: float, down: float, text: str, more: dict[str, str] | None = None) -> None:
    SubElement(root, "text", {"x": f"{across:g}", "y": f"{down:g}", "fill": INK, **(more or {})}).text = text
