"""Results by message size, as a table and as a chart."""

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 400, 70, 50, 50
COLORS = {"latency, us": "#1b6ca8", "allreduce, us": "#b5452c", "bandwidth, MB/s": "#3a8a4d"}


@dataclass(frozen=True)
class Row:
    """Results for one message size."""

    size: int
    """Message size in bytes."""
    latency_us: float
    """One-way latency."""
    bandwidth: float
    """One-way bandwidth in MB/s."""
    allreduce_us: float
    right: bool = True
    """Whether the allreduce returned the correct sum."""

    def figures(self) -> "dict[str, float]":
        return {
            "bytes": self.size,
            "latencyMicroseconds": round(self.latency_us, 2),
            "bandwidthMegabytesPerSecond": round(self.bandwidth, 2),
            "allreduceMicroseconds": round(self.allreduce_us, 2),
        }


def render_table(rows: "list[Row]") -> str:
    head = f"{'bytes':>12}  {'latency us':>12}  {'MB/s':>12}  {'allreduce us':>14}"
    lines = [f"{row.size:12}  {row.latency_us:12.2f}  {row.bandwidth:12.2f}  {row.allreduce_us:14.2f}" for row in rows]
    return "\n".join([head, *lines])


def render_chart(rows: "list[Row]", title: str) -> str:
    """Return an SVG chart with two logarithmic axes."""
    series = {
        "latency, us": [row.latency_us for row in rows],
        "allreduce, us": [row.allreduce_us for row in rows],
        "bandwidth, MB/s": [row.bandwidth for row in rows],
    }
    decades = max(1, math.ceil(math.log10(max(max(values) for values in series.values()))))
    lowest = min(0, math.floor(math.log10(min(min(values) for values in series.values()))))
    across = max(1, len(rows) - 1)

    def scale_x(number: int) -> float:
        return LEFT + number * (WIDTH - LEFT - 150) / across

    def scale_y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - lowest) * (HEIGHT - TOP - BOTTOM) / (decades - lowest)

    parts = [f'<text x="{LEFT}" y="25" font-weight="bold">{escape(title)}</text>']
    for exponent in range(lowest, decades + 1):
        at = scale_y(10.0**exponent)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - 150}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**exponent:g}</text>')
    for number, row in enumerate(rows):
        parts.append(
            f'<text x="{scale_x(number):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{format_size(row.size)}</text>'
        )
    for name, values in series.items():
        points = " ".join(f"{scale_x(number):.1f},{scale_y(value):.1f}" for number, value in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - 142}" y="{scale_y(values[-1]) + 4:.1f}" fill="{COLORS[name]}">{name}</text>')
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">{"".join(parts)}</svg>\n'


def format_size(size: int) -> str:
    """
    >>> format_size(4), format_size(65536), format_size(1 << 30)
    ('4', '64K', '1G')
    """
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size // unit}{letter}"
    return str(size)
