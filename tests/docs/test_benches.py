"""Every bench starts, and the verdicts that they give can be wrong."""

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from bench import plot
from bench.kubernetes_scale import Seen
from tests.docs.tables import ROOT

PROGRAMS = sorted(file.stem for file in (ROOT / "bench").glob("*.py") if "__main__" in file.read_text())
NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_bench_says_what_it_measures(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"python -m bench.{name}" in done.stdout and "--json" in done.stdout


def test_every_bench_is_run_by_make() -> None:
    text = (ROOT / "Makefile").read_text()
    assert [name for name in PROGRAMS if f"-m bench.{name}\n" not in text] == []


def workload(job: str, second: int) -> dict[str, object]:
    """As Kueue shows one that has its quota."""
    owner = {"kind": "MPIJob", "name": job}
    metadata = {"ownerReferences": [owner], "creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}
    return {"metadata": metadata, "status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}


def test_a_job_that_overtakes_one_of_an_earlier_second_is_named() -> None:
    seen = Seen({})
    for job, second in (("first", 1), ("third", 3), ("also-third", 3), ("second", 2), ("fourth", 4)):
        seen.hear_workload("MODIFIED", workload(job, second), 0.0)
    assert seen.overtaken() == ["third", "also-third"]


def test_the_plot_has_every_line_and_every_point() -> None:
    lines = [plot.Line("one", ((2, 4.5), (4, 6.0)), "#000"), plot.Line("other", ((2, 5.0), (4, 90.0)), "#f00", dashed=True)]
    drawn = ElementTree.fromstring(plot.svg(lines, title="Title", x="workers", y="seconds", note="machine"))
    texts = {text.text for text in drawn.iter(f"{NAMESPACE}text")}
    assert {"Title", "workers", "seconds", "machine", "one", "other", "2", "4", "100"} <= texts
    assert len(list(drawn.iter(f"{NAMESPACE}circle"))) == 4
