"""The dashboard's page for given nodes, jobs, records and spending."""

import json
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any, get_args

import pytest

from cli.clusters.dashboard.page_data import Seen, build_page
from cli.clusters.dashboard.server import PAGE
from cli.clusters.status.cluster_status import PoolStatus, Status
from cli.jobs.goodput import time_account
from cli.jobs.goodput.time_account import PARTS
from cli.nodes.health.node_health import SEVERITIES, State
from cli.stacks.cost.spending import Spending
from testkit.dashboard_world import NODES, NOW, SEEN, SPENDING, STATUS, make_node

BROKEN = replace(NODES[4], state="broken", taken_out=None, next="EKS replaces it at 12:07 UTC, 10 min after the fault")
REASON = "context ada may not list Nodes; ask for access"


def render_document(snapshot: Seen = SEEN) -> dict[str, Any]:
    """Return the page's JSON document as a browser receives it."""
    document: dict[str, Any] = json.loads(json.dumps(build_page(snapshot, NOW)))
    return document


def read_row(document: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    """Return the cells of the row whose first cell is `name`."""
    (match,) = [row["cells"] for row in document[section]["rows"] if next(iter(row["cells"].values()))["text"] == name]
    cells: dict[str, Any] = match
    return cells


class Columns(HTMLParser):
    """Collects the table columns of each section of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.section = ""
        self.found: dict[str, set[str]] = {}
        self.feed((PAGE / "index.html").read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "section":
            self.section = named.get("id") or ""
        elif tag == "th":
            self.found.setdefault(self.section, set()).add(named["data-key"] or "")


def test_every_column_of_the_page_has_a_cell_in_every_row() -> None:
    document = render_document()
    for section, columns in Columns().found.items():
        assert document[section]["rows"], f"the sample has no {section}"
        for row in document[section]["rows"]:
            assert columns <= set(row["cells"]), section
            assert all(set(value) >= {"text", "note", "tone"} for value in row["cells"].values())


def test_row_keys_are_unique() -> None:
    document = render_document()
    for section in Columns().found:
        keys = [row["key"] for row in document[section]["rows"]]
        assert len(set(keys)) == len(keys), section


def test_job_row_shows_phases_progress_and_restart_reason() -> None:
    cells = read_row(render_document(), "jobs", "llm-pretrain")
    assert (cells["phase"]["text"], cells["restarts"]["text"], cells["progress"]["text"]) == ("Running", "1", "step 41,250")
    assert cells["phase"]["note"].startswith("restarted: llm-pretrain-worker-1: its node ip-10-0-1-17")
    assert cells["time"]["note"].partition("; ")[2] == (
        "queued 7m0s, starting 11m0s, training 2h31m, checkpointing 9m0s, lost 4m18s, recovering 9m0s"
    )
    assert sum(part["seconds"] for part in cells["time"]["parts"]) == 192 * 60
    assert cells["hours"]["text"] == "46.93"


def test_goodput_and_phases_of_a_job_match_the_goodput_command() -> None:
    assert not isinstance(SEEN.records, str)
    document = render_document()
    for section, record in [("jobs", SEEN.records[0]), ("ended", SEEN.records[3])]:
        spent = time_account.compute_account(record.content, NOW)
        cell = read_row(document, section, record.content["name"])["time"]
        assert f"goodput {spent.goodput_percentage}" in cell["note"].split("; ")
        assert {part["name"]: part["seconds"] for part in cell["parts"]} == {
            phase: spent.spent[phase].total_seconds() for phase in PARTS if spent.spent[phase]
        }


def test_phases_have_the_same_order_in_every_job() -> None:
    document = render_document()
    for row in (*document["jobs"]["rows"], *document["ended"]["rows"]):
        names = [part["name"] for part in row["cells"]["time"]["parts"]]
        assert names == [phase for phase in PARTS if phase in names] and names


def test_lost_time_is_unknown_for_job_without_steps() -> None:
    document = render_document()
    assert read_row(document, "jobs", "allreduce-bench")["time"]["note"].endswith("training 4m0s, lost ?")
    assert read_row(document, "jobs", "mnist")["time"]["note"] == "queued 1m0s", "in the queue, nothing can be lost"
    assert "goodput 77.8 %; " in read_row(document, "ended", "resnet-b")["time"]["note"]


def test_total_goodput_covers_running_and_ended_jobs() -> None:
    assert not isinstance(SEEN.records, str)
    (note,) = render_document()["jobs"]["notes"]
    total = time_account.sum_accounts([time_account.compute_account(record.content, NOW) for record in SEEN.records])
    assert note.startswith(f"Goodput of these and the most recently ended jobs: {total.goodput_percentage}, weighted by GPUs.")
    assert note.endswith("Lost time is unknown for 2 of 4 jobs, and counts as training.")
    assert render_document(replace(SEEN, records=SEEN.records[2:3]))["jobs"]["notes"] == [], "a job in the queue has no goodput"


def test_job_row_still_shows_a_hang_after_the_job_ended() -> None:
    assert not isinstance(SEEN.records, str)
    cells = read_row(render_document(), "ended", "resnet-a")
    assert cells["phase"]["note"] == "restarted after a hang: no new step for 630 s after step 8120"
    assert (cells["restarts"]["text"], cells["restarts"]["note"]) == ("1", "1 failed attempt, 1 hang")
    hung = {**SEEN.records[3].content, "ended": None, "phase": "Running", "name": "mnist"}
    record = replace(SEEN.records[3], content={**hung, "created": SEEN.records[2].content["created"]})
    assert read_row(render_document(replace(SEEN, records=[record])), "jobs", "mnist")["restarts"]["note"] == "1 hang"


def test_job_that_failed_without_a_reason_shows_cause_of_last_failed_attempt() -> None:
    assert not isinstance(SEEN.records, str)
    record = replace(SEEN.records[4], content={**SEEN.records[4].content, "reason": ""})
    cells = read_row(render_document(replace(SEEN, records=[record])), "ended", "resnet-b")
    assert cells["phase"]["note"] == "resnet-b-launcher-1: exit code 1"


def test_waiting_job_shows_its_reason_below_the_running_jobs() -> None:
    document = render_document()
    assert (
        read_row(document, "jobs", "mnist")["phase"]["note"] == "waits in the queue: 8 more nvidia.com/gpu of pool train needed"
    )
    assert [row["cells"]["phase"]["text"] for row in document["jobs"]["rows"]] == ["Running", "Running", "Queued"]


def test_unreported_values_are_shown_as_unknown() -> None:
    document = render_document(replace(SEEN, records=[], spending="cost so far: unknown without a stack"))
    job = read_row(document, "jobs", "llm-pretrain")
    assert (job["restarts"]["text"], job["hours"]["text"], job["progress"]["text"]) == ("?", "?", "not reported")
    assert job["time"]["parts"] == []
    assert document["pools"]["notes"][0].startswith("GPU utilization: there is no data source.")
    assert document["cost"]["rows"] == [] and document["cost"]["empty"] == "cost so far: unknown without a stack"
    assert document["tiles"][3]["value"] == "?"


def test_data_the_caller_may_not_read_is_replaced_by_the_reason() -> None:
    unread = Status("gpumpi-mine", pools=(PoolStatus("train", "p5.48xlarge", max_size=4),), unknown=(REASON,))
    document = render_document(Seen(NOW, unread, REASON, REASON, REASON, unknown=(REASON,)))
    assert document["unknown"] == [REASON]
    assert (document["nodes"]["rows"], document["nodes"]["empty"]) == ([], REASON)
    assert document["jobs"]["notes"] == [f"phases, goodput, restarts, progress and GPU hours: {REASON}"]
    assert [tile["value"] for tile in document["tiles"]] == ["?", "?", "0", "?"]
    assert read_row(document, "pools", "train")["gpus"]["text"] == "?"


@pytest.mark.parametrize("status", [Status(""), Status("mine", unknown=("ada may not list MPIJobs in namespace a",))])
def test_unreadable_jobs_are_not_shown_as_zero_jobs(status: Status) -> None:
    document = render_document(Seen(NOW, status, REASON, REASON, REASON))
    assert document["tiles"][2]["value"] == "?"
    assert document["jobs"]["empty"] == "no jobs could be read" and document["ended"]["empty"] == REASON


def test_broken_node_comes_first_with_its_fault_and_next_action() -> None:
    document = render_document(replace(SEEN, nodes=(*NODES[:4], BROKEN, *NODES[5:])))
    first = document["nodes"]["rows"][0]["cells"]
    assert (first["state"]["text"], first["state"]["tone"], first["gpus"]["text"]) == ("broken, cordoned", "bad", "7 of 8")
    assert first["what"]["text"].startswith("NvidiaXID79Error: NVRM: Xid")
    assert first["what"]["note"] == BROKEN.next
    assert document["nodes"]["rows"][1]["cells"]["what"]["note"] == "the node is fine: the application caused it"
    tile = document["tiles"][0]
    assert (tile["value"], tile["note"], tile["tone"]) == ("5 of 6", "1 broken", "bad")


def test_page_supports_every_node_state() -> None:
    assert set(SEVERITIES) == set(get_args(State))


def test_nodes_taken_out_of_service_by_the_job_controller_precede_healthy_nodes() -> None:
    states: tuple[State, ...] = ("healthy", "verifying", "draining", "not ready")
    document = render_document(replace(SEEN, nodes=[make_node(number, state=state) for number, state in enumerate(states)]))
    cells = [row["cells"]["state"] for row in document["nodes"]["rows"]]
    assert [cell["text"] for cell in cells] == ["not ready", "draining", "verifying", "healthy"]
    assert [cell["tone"] for cell in cells] == ["bad", "doubtful", "doubtful", "good"]
    assert NODES[4].taken_out is not None
    recovered = replace(NODES[4], state="verifying", faults=(), next="accepts jobs again at 12:00:30 UTC")
    what = read_row(render_document(replace(SEEN, nodes=[recovered])), "nodes", recovered.name)["what"]
    assert (what["text"], what["note"]) == ("NvidiaXID79Error, no fault now", "accepts jobs again at 12:00:30 UTC")


def test_only_healthy_nodes_are_omitted_from_a_long_list() -> None:
    many = [make_node(number) for number in range(1000)] + [replace(BROKEN, name=f"broken-{number}") for number in range(3)]
    section = render_document(replace(SEEN, nodes=many))["nodes"]
    assert [row["cells"]["state"]["text"] for row in section["rows"][:4]] == ["broken, cordoned"] * 3 + ["healthy"]
    assert (len(section["rows"]), section["more"]) == (100, "903 more nodes, all of them healthy")


def test_the_cost_is_a_lower_bound_if_a_price_is_unknown() -> None:
    spent = replace(SPENDING, total=replace(SPENDING.total, unknown=True), unknown=["the spot price of p5.48xlarge"])
    document = render_document(replace(SEEN, spending=spent))
    assert document["tiles"][3]["value"] == "at least 1,312.40"
    assert document["cost"]["notes"][1:] == ["unknown: the spot price of p5.48xlarge"]
    assert read_row(document, "cost", "pool train")["gpu"]["note"] == "18.72 without a job"


def test_cost_of_a_pool_without_any_known_price_is_unknown() -> None:
    unknown = replace(SPENDING.pools["train"], usd=Decimal(0), unknown=True)
    document = render_document(replace(SEEN, spending=replace(SPENDING, pools={"train": unknown})))
    assert read_row(document, "cost", "pool train")["usd"] == {"text": "unknown", "note": "", "tone": "doubtful"}


def test_stack_without_instances_has_zero_cost() -> None:
    document = render_document(replace(SEEN, spending=Spending(NOW, NOW)))
    assert (document["cost"]["rows"], document["cost"]["empty"]) == ([], "no instance has run")


def test_jobs_that_ended_come_from_their_records_newest_first() -> None:
    document = render_document()
    assert [row["cells"]["job"]["text"] for row in document["ended"]["rows"]] == ["resnet-a", "resnet-b"]
    assert read_row(document, "ended", "resnet-b")["phase"]["note"].startswith("BackoffLimitExceeded")
    assert document["ended"]["notes"] == ["ended and not deleted: 7 succeeded, 1 failed"]


def test_a_failed_launch_is_shown_until_a_later_one_succeeds() -> None:
    note = read_row(render_document(), "pools", "spare")["notes"]
    assert note["text"].startswith("last failed launch 3m0s ago: InsufficientInstanceCapacity") and note["tone"] == "bad"
    launch = STATUS.pools[2].last_failed_launch
    assert launch is not None
    over = replace(STATUS, pools=(replace(STATUS.pools[2], last_failed_launch=replace(launch, later_launch_succeeded=True)),))
    assert read_row(render_document(replace(SEEN, status=over)), "pools", "spare")["notes"]["text"] == ""


def test_ec2_cluster_page_names_commands_for_runs_and_nodes() -> None:
    status = Status("gpumpi-mine", "ec2", "ready", pools=(PoolStatus("workers", "g5.xlarge", ready=2, nodes=2, wanted=2),))
    document = render_document(Seen(NOW, status, "see hosts", [], SPENDING))
    assert "jobs -s STACK" in document["jobs"]["empty"]
    assert (document["tiles"][0]["value"], document["nodes"]["empty"]) == ("2 of 2", "see hosts")
    assert (document["tiles"][1]["value"], document["tiles"][2]["value"]) == ("?", "?")


def test_unwatchable_log_is_reported_in_place_of_the_step() -> None:
    assert not isinstance(SEEN.records, str)
    problem = "progress.pattern takes too long, so the job is not watched"
    records = [replace(record, content={**record.content, "progressProblem": problem}) for record in SEEN.records]
    document = render_document(replace(SEEN, records=records))
    assert read_row(document, "jobs", "llm-pretrain")["progress"] == {"text": "step 41,250", "note": problem, "tone": "doubtful"}
    assert read_row(document, "jobs", "mnist")["progress"] == {"text": "not reported", "note": problem, "tone": "doubtful"}


def test_reason_for_unwatched_job_is_shown_once_even_if_status_repeats_the_reason() -> None:
    assert not isinstance(SEEN.records, str)
    problem = "progress.pattern takes too long, so the job is not watched"
    records = [replace(record, content={**record.content, "progressProblem": problem}) for record in SEEN.records]
    jobs = tuple(replace(line, waits_for=problem) for line in STATUS.jobs)
    document = render_document(replace(SEEN, records=records, status=replace(STATUS, jobs=jobs)))
    assert [row["cells"]["phase"]["note"] for row in document["jobs"]["rows"][1:]] == ["", ""]
    assert read_row(document, "jobs", "allreduce-bench")["progress"]["note"] == problem


# --- colors -------------------------------------------------------------------------------------------------------------


def compute_luminance(color: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_phase_has_a_distinct_visible_color(scheme: int) -> None:
    """At least 3:1, https://www.w3.org/TR/WCAG22/#non-text-contrast"""
    style = (PAGE / "page.css").read_text()
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", style.split(":root {")[1 + scheme]))
    assert len({colors[phase] for phase in PARTS}) == len(PARTS)
    for phase in PARTS:
        assert f'.bar i[data-phase="{phase}"] {{\n  background: var(--{phase});' in style
        low, high = sorted(compute_luminance(colors[name]) for name in (phase, "box"))
        assert (high + 0.05) / (low + 0.05) >= 3, phase
