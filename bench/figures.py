"""Draw plots from the benchmark results in docs/measurements/figures, and write docs/measurements/plots.md.

This module measures nothing. To update a plot, run `python -m bench.scale --json > docs/measurements/figures/scale.json` first.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import mpi_start, plot
from bench.plot import Bar, Line

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "measurements" / "figures"
PAGE = ROOT / "docs" / "measurements" / "plots.md"
BLUE, ORANGE, GREEN = "#1f6feb", "#d1580c", "#1a7f37"


@dataclass(frozen=True)
class Figure:
    """The plots of one benchmark."""

    title: str
    reading: str
    """Explanation of how to read the plots."""
    draw: Callable[[Any], Mapping[str, str]]
    """Function that converts the benchmark's JSON results to SVGs, keyed by file name suffix."""


def _format_note(result: Any) -> str:
    """Return the machine, date and remark recorded in the JSON, if any."""
    if not isinstance(result, Mapping):
        return ""
    return ", ".join(str(result[key]) for key in ("machine", "date", "remark") if key in result)


def _get_rows(result: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result["rows"] if isinstance(result, Mapping) else result
    return rows


def _make_line(name: str, rows: list[dict[str, Any]], x: str, y: str, color: str) -> Line:
    return Line(name, tuple((row[x], row[y]) for row in rows if row.get(y)), color)


def _plot_mpi_start(result: Any) -> Mapping[str, str]:
    when = ", ".join(str(result[key]) for key in ("date", "remark") if key in result)
    return {"": mpi_start.draw_plot(_get_rows(result), {**result, "date": when})}


def _plot_kubernetes_scale(result: Any) -> Mapping[str, str]:
    seconds = [Bar(name, value) for name, value in result["seconds"].items()]
    largest = sorted(result["peakMib"].items(), key=lambda peak: (-peak[1], peak[0]))
    title = f"{result['nodes']} nodes, {result['jobs']} jobs, {result['workers']} workers"
    return {
        "": plot.render_bar_chart(seconds, title=title, unit="s", note=_format_note(result)),
        "-memory": plot.render_bar_chart(
            [Bar(*peak) for peak in largest], title=f"Most memory, {title}", unit="MiB", note=_format_note(result)
        ),
    }


def _plot_hosts(result: Any) -> Mapping[str, str]:
    joins, start = result["joins"], result["start"]
    lines = [
        _make_line("all have joined", joins, "nodes", "seconds", BLUE),
        _make_line("per node", joins, "nodes", "seconds_a_node", ORANGE),
        _make_line("mpiexec, one rank per node", joins, "nodes", "mpiexec", GREEN),
    ]
    steps = [Bar("AWS has the instances", start["created"]), Bar("all have joined", start["joined"])]
    steps.append(Bar("first mpiexec ended", start["mpiexec"]))
    title = f"From `up` to the first mpiexec, {start['nodes']} nodes"
    return {
        "": plot.render_line_chart(
            lines,
            title="EC2 cluster: from `scale` until all nodes have joined",
            x="nodes",
            y="seconds",
            note=_format_note(result),
        ),
        "-up": plot.render_bar_chart(steps, title=title, unit="s", note=_format_note(result)),
    }


def _plot_scale(result: Any) -> Mapping[str, str]:
    rows = _get_rows(result)
    lines = [
        _make_line("up", rows, "resources", "up", BLUE),
        _make_line("destroy", rows, "resources", "destroy", ORANGE),
        _make_line("up, unchanged", rows, "resources", "unchanged", GREEN),
    ]
    return {"": plot.render_line_chart(lines, title="Growing stack", x="resources", y="seconds", note=_format_note(result))}


FIGURES: Mapping[str, Figure] = {
    "mpi_start": Figure(
        "The MPI start curve",
        "Time from submission until the first rank and until all ranks run, by number of workers and by launcher. Both "
        "axes are logarithmic.",
        _plot_mpi_start,
    ),
    "kubernetes_scale": Figure(
        "A thousand nodes",
        "Simulated nodes start, a queue of jobs fills them, and they are removed. The plots also show the peak memory of "
        "each cluster program.",
        _plot_kubernetes_scale,
    ),
    "hosts": Figure(
        "EC2 clusters",
        "Time until nodes have joined, by number of nodes, and the duration of `pulumi up` and the first `mpiexec`.",
        _plot_hosts,
    ),
    "scale": Figure(
        "Stacks of hundreds of resources",
        "A stack with 1 to 24 pools: create, update without changes, destroy. Both axes are logarithmic.",
        _plot_scale,
    ),
}
"""Maps the name of each benchmark to its figure. The benchmark's JSON file is named NAME.json."""


def draw_plots(folder: Path = FOLDER) -> dict[str, str]:
    """Draw plots for every JSON file in the folder and return the SVGs, keyed by file name."""
    svgs = {}
    for name, figure in FIGURES.items():
        file = folder / f"{name}.json"
        if file.exists():
            for part, text in figure.draw(json.loads(file.read_text())).items():
                svgs[f"{name}{part}.svg"] = text
    return svgs


def render_page(folder: Path = FOLDER) -> str:
    """Return the text of docs/measurements/plots.md."""
    lines = ["# Plots", "", "Drawn by `python -m bench.figures` from the JSON file linked below each plot. Tables and"]
    lines += [
        "conditions are in [Measurements](README.md). Other benchmarks have not been recorded with `--json` yet.",
        "",
    ]
    files = draw_plots(folder)
    for name, figure in FIGURES.items():
        own = [file for file in files if file.startswith((f"{name}.", f"{name}-"))]
        if own:
            lines += [f"## {figure.title}: `python -m bench.{name}`", "", figure.reading, ""]
            lines += [f"![{figure.title}](figures/{file})" for file in own]
            lines += ["", f"Numbers: [{name}.json](figures/{name}.json)", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.figures", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the names of the files written, as JSON")
    arguments = parser.parse_args()
    files = draw_plots()
    for name, text in files.items():
        (FOLDER / name).write_text(text)
    PAGE.write_text(render_page())
    written = [*(f"docs/measurements/figures/{name}" for name in files), "docs/measurements/plots.md"]
    print(json.dumps(written) if arguments.json else "\n".join(written))


if __name__ == "__main__":
    main()
