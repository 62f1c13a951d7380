"""Verdicts of `acceptance`: which rows pass, fail, need other hardware, or are not run."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from cli.clusters.acceptance import ec2_nodes, eks_nodes, own_jobs, smoke_levels, target
from cli.clusters.acceptance.aws_reads import Image, Instance
from cli.clusters.acceptance.eks import choose
from cli.clusters.acceptance.report import Check, LeftOut, Notebook, Row, make_row, run_checks
from cli.clusters.status.cluster_status import PoolStatus
from cli.errors import CommandError, NotFound
from infra.jobs import nccl_verdict
from infra.naming import EMULATED_LABEL
from tests.pure.job_world import SMALL, SYSTEM, TRAIN, cluster

DECLARED = {"node-1": "the nodes declare it"}


def silent(line: str) -> None:
    """Report nothing."""


def rows_of(results: Iterable[Row | LeftOut]) -> list[Row]:
    return [row for row in results if isinstance(row, Row)]


def notebook(*, saw: bool = True, fails: str = "", lacks: str = "") -> Notebook:
    notes = Notebook()
    if saw:
        notes.saw("a command", "a value")
    if fails:
        notes.fail(fails)
    if lacks:
        notes.needs_hardware(lacks)
    return notes


def node(name: str = "node-1", pool: Any = TRAIN, *, emulated: bool = False, **allocatable: str) -> dict[str, Any]:
    whole = {"nvidia.com/gpu": str(pool.gpus), "vpc.amazonaws.com/efa": str(pool.efa), "hugepages-2Mi": f"{pool.hugepages_mib}Mi"}
    labels = {**pool.labels, **({EMULATED_LABEL: "true"} if emulated else {})}
    info = {"kubeletVersion": "v1.35.0", "containerRuntimeVersion": "containerd://2", "kernelVersion": "6", "osImage": "AL2023"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"aws:///us-west-2a/i-{name}"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": whole | {key.replace("_", "/"): value for key, value in allocatable.items()},
            "nodeInfo": info,
        },
    }


# --- the verdict on one row


def test_a_row_without_failures_passes_with_its_evidence() -> None:
    row = make_row("x", notebook(), {}, 1.5)
    assert (row.result, row.seconds, row.evidence[0].value) == ("passed", 1.5, "a value")


def test_a_check_that_looked_at_nothing_fails() -> None:
    assert make_row("x", notebook(saw=False), {}, 0).result == "failed"


def test_missing_hardware_is_excused_only_where_emulation_is_declared() -> None:
    excused = make_row("x", notebook(lacks="no GPU"), DECLARED, 0)
    assert (excused.result, excused.reason) == ("not on this hardware", "no GPU (the nodes declare it)")
    broken = make_row("x", notebook(lacks="no GPU"), {}, 0)
    assert broken.result == "failed"
    assert "the nodes do not declare emulated devices, so a device or its driver is broken" in broken.reason


def test_a_failure_is_not_excused_by_missing_hardware() -> None:
    assert make_row("x", notebook(fails="wrong sum", lacks="no GPU"), DECLARED, 0).result == "failed"


@pytest.mark.parametrize("result", ["passed", "failed", "not on this hardware", "not run"])
def test_no_row_can_lack_what_explains_it(result: Any) -> None:
    with pytest.raises(ValueError, match="without"):
        Row("x", result)


def test_a_check_is_not_run_only_because_an_earlier_one_did_not_pass() -> None:
    def breaks(notes: Notebook) -> None:
        raise CommandError("no cluster answers")

    def works(notes: Notebook) -> None:
        notes.saw("a command", "a value")

    checks = [Check("first", breaks), Check("second", works, ("first",)), Check("third", works, ("second",)), Check("own", works)]
    rows = rows_of(run_checks(checks, dict, report=silent))
    assert [(row.name, row.result) for row in rows] == [
        ("first", "failed"),
        ("second", "not run"),
        ("third", "not run"),
        ("own", "passed"),
    ]
    assert (rows[0].reason, rows[1].reason) == ("no cluster answers", "an earlier check did not pass: first")


def test_a_row_that_needs_other_hardware_does_not_stop_the_next_one() -> None:
    def lacks(notes: Notebook) -> None:
        notes.needs_hardware("no GPU")

    def works(notes: Notebook) -> None:
        notes.saw("a command", "a value")

    rows = rows_of(run_checks([Check("gpu", lacks), Check("next", works, ("gpu",))], lambda: DECLARED, report=silent))
    assert [row.result for row in rows] == ["not on this hardware", "passed"]


# --- the declaration


def test_nodes_declare_emulation_only_all_together() -> None:
    assert target.read_node_declarations([node("a", emulated=True), node("b", emulated=True)]).keys() == {"a", "b"}
    assert target.read_node_declarations([node("a", emulated=True), node("b")]) == {}
    assert target.read_node_declarations([]) == {}


def test_hosts_declare_emulation_only_all_together() -> None:
    declared = json.dumps({"gpu": "none"})
    assert target.read_host_declarations({"10.0.0.1": declared, "10.0.0.2": declared}).keys() == {"10.0.0.1", "10.0.0.2"}
    assert target.read_host_declarations({"10.0.0.1": declared, "10.0.0.2": ""}) == {}
    assert target.read_host_declarations({"10.0.0.1": "[]"}) == {} and target.read_host_declarations({}) == {}
    assert target.describe_devices({}) == "hardware"


# --- Kubernetes nodes


def versions(kubelet: str = "v1.35.0", images: tuple[str, ...] = ("ami-1", "ami-1")) -> Notebook:
    nodes = [node("a"), node("b")]
    for member in nodes:
        member["status"]["nodeInfo"]["kubeletVersion"] = kubelet
    instances = [Instance(f"i-{name}", "p4d.24xlarge", image, "train", "", 4) for name, image in zip("ab", images, strict=False)]
    notes = Notebook()
    eks_nodes.check_versions(notes, nodes, instances, {"ami-1": Image("al2023", {"gpumpi:ami": "eks"})}, "v1.35.2")
    return notes


def test_versions_and_amis_are_the_evidence_of_every_node() -> None:
    notes = versions()
    assert notes.failures == []
    shown = [f"{piece.source}: {piece.value}" for piece in notes.evidence]
    assert "node a: ec2 describe-instances i-a: p4d.24xlarge, AMI ami-1" in shown
    assert "pool train: ec2 describe-images ami-1: al2023 (gpumpi:ami=eks)" in shown


@pytest.mark.parametrize(
    ("kubelet", "images", "failure"),
    [
        ("v1.31.9", ("ami-1", "ami-1"), "kubelet v1.31.9 is not compatible with the API server's v1.35.2"),
        ("v1.36.0", ("ami-1", "ami-1"), "kubelet v1.36.0 is not compatible"),
        ("v1.35.0", ("ami-1", "ami-2"), "pool train: its nodes use 2 AMIs: ami-1, ami-2"),
        ("v1.35.0", ("ami-1",), "node b: EC2 reports no running instance of this stack"),
    ],
)
def test_wrong_versions_and_amis_fail(kubelet: str, images: tuple[str, ...], failure: str) -> None:
    assert any(failure in sentence for sentence in versions(kubelet, images).failures)


def devices(*nodes: dict[str, Any], plugin: tuple[int, int] = (1, 1)) -> Notebook:
    notes = Notebook()
    status = {"numberReady": plugin[0], "desiredNumberScheduled": plugin[1]}
    plugins = [{"metadata": {"name": "nvidia-device-plugin-daemonset"}, "status": status}]
    eks_nodes.check_devices(notes, cluster(), TRAIN, nodes, plugins)
    return notes


def test_devices_must_equal_the_description() -> None:
    assert devices(node()).failures == []
    assert devices(node(**{"nvidia.com_gpu": "7"})).failures == ["node node-1 of pool train advertises 7 nvidia.com/gpu, not 8"]
    assert "0 vpc.amazonaws.com/efa, not 4" in devices(node(**{"vpc.amazonaws.com_efa": "0"})).failures[0]
    assert "has 0 MiB of huge pages, not 10256" in devices(node(**{"hugepages-2Mi": "0"})).failures[0]
    assert devices(node(), plugin=(1, 2)).failures == ["DaemonSet nvidia-device-plugin-daemonset: 1 of 2 pods are ready"]


def test_a_pool_without_ready_nodes_cannot_pass() -> None:
    assert "pool train has no ready node" in devices(node("cpu", SYSTEM)).failures[0]


def drivers(**more: Any) -> Notebook:
    whole = {"node": "a", "kernel": "6", "nvidia": "580.1", "cuda": "13.0", "efa": "3.3", "efaDevices": 4}
    notes = Notebook()
    eks_nodes.check_drivers(notes, [whole, {**whole, "node": "b", **more}], TRAIN, 2)
    return notes


def test_a_node_without_a_driver_lacks_hardware_and_different_drivers_fail() -> None:
    assert (drivers().failures, drivers().lacks) == ([], [])
    assert drivers(nvidia="").lacks == ["b: no NVIDIA driver is loaded"]
    assert drivers(efaDevices=3).lacks == ["b: 3 of 4 EFA devices, EFA driver 3.3"]
    assert drivers(nvidia="570.2").failures == ["nodes of pool train differ in NVIDIA driver: 570.2, 580.1"]


def test_missing_reports_fail() -> None:
    notes = Notebook()
    eks_nodes.check_drivers(notes, [], TRAIN, 2)
    assert notes.failures == ["0 of 2 workers reported their driver versions"]


def test_reports_are_found_behind_a_launchers_prefix() -> None:
    lines = ['[1,0]<stdout>:acceptance {"rank": 0}', "acceptance: other", 'acceptance {"rank": 1', 'acceptance {"rank": 2}']
    assert own_jobs.parse_reports(lines) == [{"rank": 0}, {"rank": 2}]


# --- smoke


def smoked(
    *results: str,
    ok: bool = True,
    failures: tuple[str, ...] = (),
    declared: Any = DECLARED,
    name: str = "check",
    pool: Any = TRAIN,
) -> list[str]:
    """Return the results of row `smoke` and of each check in it."""
    checks = [
        {"name": f"{name}{'' if number == 0 else number}", "result": text, "detail": "why"} for number, text in enumerate(results)
    ]

    def judges(notes: Notebook) -> None:
        smoke_levels.judge(notes, {"ok": ok, "failures": list(failures), "checks": checks}, "smoke", pool)

    outcomes = run_checks([Check("smoke", judges)], lambda: declared, report=silent)
    return [row.result if isinstance(row, Row) else "left out" for row in outcomes]


def test_each_check_of_smoke_is_a_row() -> None:
    assert smoked("passed", "passed") == ["passed"] * 3
    assert smoked("passed", "not on this hardware") == ["passed", "passed", "not on this hardware"]
    assert smoked("failed", "not run", ok=False, failures=("why",)) == ["failed", "failed", "not run"]


def test_a_check_of_smoke_that_needs_hardware_fails_where_no_emulation_is_declared() -> None:
    assert smoked("passed", "not on this hardware", declared={}) == ["passed", "passed", "failed"]


def test_a_smoke_run_cannot_pass_silently() -> None:
    assert smoked() == ["failed"], "it checked nothing"
    assert smoked("passed", ok=False) == ["failed", "passed"], "the reports are not ok, but give no reason"
    assert smoked("a new result") == ["passed", "failed"]


@pytest.mark.parametrize(
    ("check", "pool", "result"),
    [
        ("EFA devices", SMALL, "left out"),
        ("EFA devices", TRAIN, "failed"),
        ("GPU devices", SYSTEM, "left out"),
        ("GPU devices", TRAIN, "failed"),
        ("CUDA kernel", TRAIN, "failed"),
        (nccl_verdict.GPUDIRECT, SMALL, "left out"),
        (nccl_verdict.GPUDIRECT, TRAIN, "failed"),
        (nccl_verdict.NETWORK, SMALL, "failed"),
    ],
)
def test_only_the_description_can_leave_out_hardware_on_aws(check: str, pool: Any, result: str) -> None:
    assert smoked("not on this hardware", name=check, pool=pool, declared={}) == ["passed", result]


def test_what_smoke_cannot_judge_without_a_failure_is_left_out() -> None:
    assert smoked("passed", "not run") == ["passed", "passed", "left out"]


def test_rows_after_a_failed_part_are_not_run() -> None:
    def judges(notes: Notebook) -> None:
        notes.saw("a command", "a value")
        notes.part("part").fail("broken")

    rows = rows_of(run_checks([Check("smoke", judges), Check("next", judges, ("smoke",))], dict, report=silent))
    assert [(row.name, row.result) for row in rows] == [("smoke", "passed"), ("part", "failed"), ("next", "not run")]


def test_levels_include_the_lower_ones() -> None:
    assert [smoke_levels.list_levels_up_to(level) for level in smoke_levels.LEVELS] == [
        ("devices",),
        ("devices", "cuda"),
        ("devices", "cuda", "nccl"),
    ]


# --- hosts

WORKER = Instance("i-2", "p4d.24xlarge", "ami-1", "", "10.0.0.2", 4)
BOOTED = {"ok": True, "gpus": 8, "efa": 4, "driver": "580", "mpi": "OpenMPI 5", "problems": []}


def booted(text: str) -> Notebook:
    notes = Notebook()
    ec2_nodes.check_first_boot(notes, {"10.0.0.2": text}, [WORKER], {"p4d.24xlarge": 8})
    return notes


def test_the_first_boot_must_have_seen_what_ec2_sells() -> None:
    assert (booted(json.dumps(BOOTED)).failures, booted(json.dumps(BOOTED)).lacks) == ([], [])
    seven = booted(json.dumps({**BOOTED, "gpus": 7})).failures
    assert seven == ["10.0.0.2: the first boot saw 7 gpus, but EC2 reports 8 for p4d.24xlarge"]
    assert booted(json.dumps({**BOOTED, "ok": False, "problems": ["no fabric manager"]})).failures == [
        "10.0.0.2: no fabric manager"
    ]
    assert booted("").lacks == ["10.0.0.2 has no /etc/gpumpi/first-boot.json: its first-boot check saw no GPU"]


def test_workers_with_different_amis_fail_but_the_head_node_may_differ() -> None:
    head, other = Instance("i-1", "c7i.large", "ami-0", "", "10.0.0.1", 0), Instance("i-3", "x", "ami-2", "", "10.0.0.3", 0)
    for instances, wrong in (([head, WORKER], 0), ([head, WORKER, other], 1)):
        notes = Notebook()
        ec2_nodes.check_amis(notes, instances, {}, "i-1")
        assert len(notes.failures) == wrong


def test_nodes_with_different_mpi_versions_fail() -> None:
    notes = Notebook()
    ec2_nodes.check_versions(notes, {"a": "MPI_VERSION=5.0.1\n", "b": "MPI_VERSION=5.0.2\n"}, {"a": "", "b": ""})
    assert notes.failures == ["/etc/gpumpi/mpi differs between nodes: a, b"]


@pytest.mark.parametrize(
    ("reports", "failures"),
    [([(0, 3), (0, 3)], 1), ([(0, 3), (1, 3)], 0), ([(0, 3), (1, 4)], 1), ([], 2)],
    ids=["one host", "right", "wrong sum", "nothing"],
)
def test_ranks_must_fill_the_hostfile_with_the_right_sum(reports: list[tuple[int, int]], failures: int) -> None:
    notes = Notebook()
    printed = [{"host": f"ip-10-0-0-{host}", "sum": total} for host, total in reports]
    ec2_nodes.check_ranks(notes, printed, {"ip-10-0-0-0": 1, "ip-10-0-0-1": 1})
    assert len(notes.failures) == failures, notes.failures


# --- pools and other people's jobs


def status(name: str, desired: int, minimum: int = 0) -> PoolStatus:
    return PoolStatus(name, wanted=desired, min_size=minimum)


def test_running_nodes_are_smoked_and_an_empty_pool_is_scaled() -> None:
    in_aws = {"train": status("train", 0), "small": status("small", 2), "system": status("system", 1)}
    choice = choose(cluster(), {"train": 0, "small": 2, "system": 1}, in_aws)
    assert (choice.smoke, choice.workers, choice.scale) == (SMALL, 2, TRAIN)
    assert choice.starts({"small": 2}) == [(TRAIN, 1)]
    assert choice.sentences({"small": 2}) == ["starts 1 x p4d.24xlarge in pool train; the autoscaler removes them again"]


def test_a_pool_with_nodes_is_scaled_if_no_other_may_be_empty() -> None:
    described = cluster(pools=(SYSTEM, TRAIN))
    choice = choose(described, {"train": 2}, {"train": status("train", 2)})
    assert (choice.scale, choice.starts({"train": 2})) == (TRAIN, [])
    assert "waits until the autoscaler has removed the nodes of pool train" in choice.sentences({"train": 2})[1]
    assert choose(described, {"train": 2}, {"train": status("train", 2, minimum=2)}).scale is None


def test_a_pool_that_does_not_exist_is_refused() -> None:
    with pytest.raises(NotFound, match=r"there is no pool trian\. Did you mean train"):
        choose(cluster(), {}, {}, pool="trian")


def test_pods_with_gpus_outside_of_jobs_are_foreign() -> None:
    def pod(name: str, phase: str = "Running", **labels: str) -> dict[str, Any]:
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        metadata = {"name": name, "namespace": "x", "labels": {key.replace("_", "/"): value for key, value in labels.items()}}
        return {"metadata": metadata, "spec": {"containers": [{"resources": resources}]}, "status": {"phase": phase}}

    class Kubernetes:
        def list(self, kind: str, *arguments: Any) -> list[dict[str, Any]]:
            return [pod("alone"), pod("ended", "Succeeded"), pod("cpu") | {"spec": {"containers": [{}]}}] if kind == "Pod" else []

    api: Any = Kubernetes()
    assert own_jobs.find_foreign_jobs(api) == ["pod alone in namespace x"]
