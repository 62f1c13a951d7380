"""Every benchmark starts, its checks can fail, and the committed plots match the committed results."""

import importlib
import sys
from xml.etree import ElementTree

import pytest

from bench import figures, plot
from bench.kubernetes_scale import Seen
from tests.docs.tables import ROOT

MEASURE_NOTHING = ("figures",)
BENCH = ROOT / "bench"
MODULES = {file.stem: f"bench.{file.stem}" for file in BENCH.glob("*.py") if "__main__" in file.read_text()}
MODULES |= {file.parent.name: f"bench.{file.parent.name}.__main__" for file in BENCH.glob("*/__main__.py")}
PROGRAMS = sorted(MODULES)
NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_benchmark_describes_what_it_measures(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bench runs in this process, because a new process needs two seconds of CPU time for imports."""
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(MODULES[name]).main()
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"python -m bench.{name}" in said and "--json" in said


def test_make_runs_every_benchmark() -> None:
    text = (ROOT / "Makefile").read_text()
    measuring = [name for name in PROGRAMS if name not in MEASURE_NOTHING]
    assert [name for name in measuring if f"-m bench.{name}\n" not in text] == []


def make_workload(job: str, queued: int, admitted: int) -> dict[str, object]:
    """Return an MPIJob's Workload as Kueue reports it once the job's quota is reserved. Times are in seconds."""
    owner = {"kind": "MPIJob", "name": job}
    metadata = {"ownerReferences": [owner], "creationTimestamp": f"2026-01-01T00:00:{queued:02}Z"}
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:{admitted:02}Z"}
    return {"metadata": metadata, "status": {"conditions": [reserved]}}


def test_a_job_admitted_before_a_job_queued_in_an_earlier_second_is_reported() -> None:
    observations = Seen({})
    order = {"first": (1, 11), "third": (3, 12), "also-third": (3, 12), "second": (2, 13), "fourth": (4, 14), "zeroth": (0, 11)}
    for job, (queued, admitted) in order.items():
        observations.handle_workload_event("MODIFIED", make_workload(job, queued, admitted), 0.0)
    assert observations.find_out_of_order_admissions() == ["third", "also-third"]


def test_the_plot_has_every_line_and_every_point() -> None:
    lines = [plot.Line("one", ((2, 4.5), (4, 6.0)), "#000"), plot.Line("other", ((2, 5.0), (4, 90.0)), "#f00", dashed=True)]
    drawn = ElementTree.fromstring(plot.render_line_chart(lines, title="Title", x="workers", y="seconds", note="machine"))
    texts = {text.text for text in drawn.iter(f"{NAMESPACE}text")}
    assert {"Title", "workers", "seconds", "machine", "one", "other", "2", "4", "100"} <= texts
    assert len(list(drawn.iter(f"{NAMESPACE}circle"))) == 4


def test_the_committed_plots_match_the_committed_numbers() -> None:
    """Run `python -m bench.figures` to update the plots."""
    files = figures.draw_plots()
    assert {file.name for file in figures.FOLDER.glob("*.svg")} == set(files)
    assert [name for name, text in files.items() if (figures.FOLDER / name).read_text() != text] == []
    assert figures.PAGE.read_text() == figures.render_page()
    assert {file.stem for file in figures.FOLDER.glob("*.json")} <= set(figures.FIGURES)


def test_the_json_output_of_each_benchmark_can_be_plotted() -> None:
    """Older output of `bench.scale` (a list without a description of the machine) can be plotted too."""
    scale = [{"pools": 1, "resources": 100, "up": 9.0, "unchanged": 4.0, "destroy": 2.0, "perResource": 0.09}]
    thousand = {"nodes": 10, "jobs": 3, "workers": 8, "seconds": {"nodes 0 -> 10": 4.2}, "peakMib": {"etcd": 80}, "problems": []}
    for name, result, numbers in (("scale", scale, ["100"]), ("kubernetes_scale", thousand, ["4.2 s", "80 MiB"])):
        texts = "".join(figures.FIGURES[name].draw(result).values())
        assert all(f">{number}<" in texts for number in numbers)
