"""Verdicts of `acceptance`: which rows pass, fail, need other hardware, or are not run."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from cli.clusters.acceptance import ec2_nodes, eks_nodes, own_jobs, smoke_levels, target
from cli.clusters.acceptance.aws_reads import Image, Instance
from cli.clusters.acceptance.eks import choose_pools
from cli.clusters.acceptance.report import Check, LeftOut, Notebook, Row, make_row, run_checks
from cli.clusters.status.cluster_status import PoolStatus
from cli.errors import CommandError, NotFound
from infra.jobs import nccl_verdict
from infra.naming import EMULATED_LABEL
from tests.pure.job_world import SMALL, SYSTEM, TRAIN, make_cluster

DECLARED = {"node-1": "the nodes declare it"}


def discard_line(line: str) -> None:
    """Report nothing."""


def filter_rows(results: Iterable[Row | LeftOut]) -> list[Row]:
    return [row for row in results if isinstance(row, Row)]


def make_notebook(*, saw: bool = True, fails: str = "", lacks: str = "") -> Notebook:
    notes = Notebook()
    if saw:
        notes.record_evidence("a command", "a value")
    if fails:
        notes.record_failure(fails)
    if lacks:
        notes.record_missing_hardware(lacks)
    return notes


def make_node(name: str = "node-1", pool: Any = TRAIN, *, emulated: bool = False, **allocatable: str) -> dict[str, Any]:
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


def test_check_without_failures_passes_and_keeps_its_evidence() -> None:
    row = make_row("x", make_notebook(), {}, 1.5)
    assert (row.result, row.seconds, row.evidence[0].value) == ("passed", 1.5, "a value")


def test_check_that_examined_nothing_fails() -> None:
    assert make_row("x", make_notebook(saw=False), {}, 0).result == "failed"


def test_missing_hardware_is_excused_only_where_emulation_is_declared() -> None:
    excused = make_row("x", make_notebook(lacks="no GPU"), DECLARED, 0)
    assert (excused.result, excused.reason) == ("not on this hardware", "no GPU (the nodes declare it)")
    broken = make_row("x", make_notebook(lacks="no GPU"), {}, 0)
    assert broken.result == "failed"
    assert "the nodes do not declare emulated devices, so a device or its driver is broken" in broken.reason


def test_missing_hardware_does_not_excuse_a_failure() -> None:
    assert make_row("x", make_notebook(fails="wrong sum", lacks="no GPU"), DECLARED, 0).result == "failed"


@pytest.mark.parametrize("result", ["passed", "failed", "not on this hardware", "not run"])
def test_result_without_explanation_is_rejected(result: Any) -> None:
    with pytest.raises(ValueError, match="without"):
        Row("x", result)


def test_check_is_skipped_only_if_its_prerequisite_did_not_pass() -> None:
    def raise_error(notes: Notebook) -> None:
        raise CommandError("no cluster answers")

    def record_observation(notes: Notebook) -> None:
        notes.record_evidence("a command", "a value")

    checks = [
        Check("first", raise_error),
        Check("second", record_observation, ("first",)),
        Check("third", record_observation, ("second",)),
        Check("own", record_observation),
    ]
    rows = filter_rows(run_checks(checks, dict, report=discard_line))
    assert [(row.name, row.result) for row in rows] == [
        ("first", "failed"),
        ("second", "not run"),
        ("third", "not run"),
        ("own", "passed"),
    ]
    assert (rows[0].reason, rows[1].reason) == ("no cluster answers", "an earlier check did not pass: first")


def test_missing_hardware_does_not_stop_dependent_checks() -> None:
    def require_hardware(notes: Notebook) -> None:
        notes.record_missing_hardware("no GPU")

    def record_success(notes: Notebook) -> None:
        notes.record_evidence("a command", "a value")

    rows = filter_rows(
        run_checks(
            [Check("gpu", require_hardware), Check("next", record_success, ("gpu",))], lambda: DECLARED, report=discard_line
        )
    )
    assert [row.result for row in rows] == ["not on this hardware", "passed"]


# --- the declaration


def test_emulation_requires_declaration_on_all_nodes() -> None:
    assert target.read_node_declarations([make_node("a", emulated=True), make_node("b", emulated=True)]).keys() == {"a", "b"}
    assert target.read_node_declarations([make_node("a", emulated=True), make_node("b")]) == {}
    assert target.read_node_declarations([]) == {}


def test_emulation_requires_declaration_on_all_hosts() -> None:
    declared = json.dumps({"gpu": "none"})
    assert target.read_host_declarations({"10.0.0.1": declared, "10.0.0.2": declared}).keys() == {"10.0.0.1", "10.0.0.2"}
    assert target.read_host_declarations({"10.0.0.1": declared, "10.0.0.2": ""}) == {}
    assert target.read_host_declarations({"10.0.0.1": "[]"}) == {} and target.read_host_declarations({}) == {}
    assert target.describe_devices({}) == "hardware"


# --- Kubernetes nodes


def check_versions(kubelet: str = "v1.35.0", images: tuple[str, ...] = ("ami-1", "ami-1")) -> Notebook:
    nodes = [make_node("a"), make_node("b")]
    for member in nodes:
        member["status"]["nodeInfo"]["kubeletVersion"] = kubelet
    instances = [Instance(f"i-{name}", "p4d.24xlarge", image, "train", "", 4) for name, image in zip("ab", images, strict=False)]
    notes = Notebook()
    eks_nodes.check_versions(notes, nodes, instances, {"ami-1": Image("al2023", {"gpumpi:ami": "eks"})}, "v1.35.2")
    return notes


def test_evidence_lists_versions_and_amis_of_every_node() -> None:
    notes = check_versions()
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
def test_wrong_versions_and_amis_fail_the_check(kubelet: str, images: tuple[str, ...], failure: str) -> None:
    assert any(failure in sentence for sentence in check_versions(kubelet, images).failures)


def check_device_plugin(*nodes: dict[str, Any], plugin: tuple[int, int] = (1, 1)) -> Notebook:
    notes = Notebook()
    status = {"numberReady": plugin[0], "desiredNumberScheduled": plugin[1]}
    plugins = [{"metadata": {"name": "nvidia-device-plugin-daemonset"}, "status": status}]
    eks_nodes.check_devices(notes, make_cluster(), TRAIN, nodes, plugins)
    return notes


def test_devices_must_match_cluster_description() -> None:
    assert check_device_plugin(make_node()).failures == []
    assert check_device_plugin(make_node(**{"nvidia.com_gpu": "7"})).failures == [
        "node node-1 of pool train advertises 7 nvidia.com/gpu, not 8"
    ]
    assert "0 vpc.amazonaws.com/efa, not 4" in check_device_plugin(make_node(**{"vpc.amazonaws.com_efa": "0"})).failures[0]
    assert "has 0 MiB of huge pages, not 10256" in check_device_plugin(make_node(**{"hugepages-2Mi": "0"})).failures[0]
    assert check_device_plugin(make_node(), plugin=(1, 2)).failures == [
        "DaemonSet nvidia-device-plugin-daemonset: 1 of 2 pods are ready"
    ]


def test_pool_without_ready_nodes_fails() -> None:
    assert "pool train has no ready node" in check_device_plugin(make_node("cpu", SYSTEM)).failures[0]


def check_drivers(**more: Any) -> Notebook:
    whole = {"node": "a", "kernel": "6", "nvidia": "580.1", "cuda": "13.0", "efa": "3.3", "efaDevices": 4}
    notes = Notebook()
    eks_nodes.check_drivers(notes, [whole, {**whole, "node": "b", **more}], TRAIN, 2)
    return notes


def test_missing_driver_is_missing_hardware_but_differing_drivers_fail() -> None:
    assert (check_drivers().failures, check_drivers().lacks) == ([], [])
    assert check_drivers(nvidia="").lacks == ["b: no NVIDIA driver is loaded"]
    assert check_drivers(efaDevices=3).lacks == ["b: 3 of 4 EFA devices, EFA driver 3.3"]
    assert check_drivers(nvidia="570.2").failures == ["nodes of pool train differ in NVIDIA driver: 570.2, 580.1"]


def test_missing_node_reports_fail_the_check() -> None:
    notes = Notebook()
    eks_nodes.check_drivers(notes, [], TRAIN, 2)
    assert notes.failures == ["0 of 2 workers reported their driver versions"]


def test_rank_reports_are_parsed_from_prefixed_launcher_log_lines() -> None:
    lines = ['[1,0]<stdout>:acceptance {"rank": 0}', "acceptance: other", 'acceptance {"rank": 1', 'acceptance {"rank": 2}']
    assert own_jobs.parse_reports(lines) == [{"rank": 0}, {"rank": 2}]


# --- smoke


def run_smoke_row(
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

    def judge_smoke(notes: Notebook) -> None:
        smoke_levels.record_smoke_run(notes, {"ok": ok, "failures": list(failures), "checks": checks}, "smoke", pool)

    outcomes = run_checks([Check("smoke", judge_smoke)], lambda: declared, report=discard_line)
    return [row.result if isinstance(row, Row) else "left out" for row in outcomes]


def test_each_smoke_check_becomes_a_report_row() -> None:
    assert run_smoke_row("passed", "passed") == ["passed"] * 3
    assert run_smoke_row("passed", "not on this hardware") == ["passed", "passed", "not on this hardware"]
    assert run_smoke_row("failed", "not run", ok=False, failures=("why",)) == ["failed", "failed", "not run"]


def test_smoke_check_that_lacks_hardware_fails_without_declared_emulation() -> None:
    assert run_smoke_row("passed", "not on this hardware", declared={}) == ["passed", "passed", "failed"]


def test_smoke_run_without_valid_results_fails() -> None:
    assert run_smoke_row() == ["failed"], "it checked nothing"
    assert run_smoke_row("passed", ok=False) == ["failed", "passed"], "the reports are not ok, but give no reason"
    assert run_smoke_row("a new result") == ["passed", "failed"]


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
def test_missing_hardware_is_skipped_only_if_the_pool_description_lacks_it(check: str, pool: Any, result: str) -> None:
    assert run_smoke_row("not on this hardware", name=check, pool=pool, declared={}) == ["passed", result]


def test_inconclusive_smoke_check_without_failure_is_skipped() -> None:
    assert run_smoke_row("passed", "not run") == ["passed", "passed", "left out"]


def test_checks_after_a_failed_stage_are_not_run() -> None:
    def fail_part(notes: Notebook) -> None:
        notes.record_evidence("a command", "a value")
        notes.create_part("part").record_failure("broken")

    rows = filter_rows(run_checks([Check("smoke", fail_part), Check("next", fail_part, ("smoke",))], dict, report=discard_line))
    assert [(row.name, row.result) for row in rows] == [("smoke", "passed"), ("part", "failed"), ("next", "not run")]


def test_smoke_levels_include_lower_levels() -> None:
    assert [smoke_levels.list_levels_up_to(level) for level in smoke_levels.LEVELS] == [
        ("devices",),
        ("devices", "cuda"),
        ("devices", "cuda", "nccl"),
    ]


# --- hosts

WORKER = Instance("i-2", "p4d.24xlarge", "ami-1", "", "10.0.0.2", 4)
BOOTED = {"ok": True, "gpus": 8, "efa": 4, "driver": "580", "mpi": "OpenMPI 5", "problems": []}


def check_first_boot(text: str) -> Notebook:
    notes = Notebook()
    ec2_nodes.check_first_boot(notes, {"10.0.0.2": text}, [WORKER], {"p4d.24xlarge": 8})
    return notes


def test_first_boot_report_must_match_hardware_reported_by_ec2() -> None:
    assert (check_first_boot(json.dumps(BOOTED)).failures, check_first_boot(json.dumps(BOOTED)).lacks) == ([], [])
    seven = check_first_boot(json.dumps({**BOOTED, "gpus": 7})).failures
    assert seven == ["10.0.0.2: the first boot saw 7 gpus, but EC2 reports 8 for p4d.24xlarge"]
    assert check_first_boot(json.dumps({**BOOTED, "ok": False, "problems": ["no fabric manager"]})).failures == [
        "10.0.0.2: no fabric manager"
    ]
    assert check_first_boot("").lacks == ["10.0.0.2 has no /etc/gpumpi/first-boot.json: its first-boot check saw no GPU"]


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
def test_reported_ranks_must_match_hostfile_and_expected_sum(reports: list[tuple[int, int]], failures: int) -> None:
    notes = Notebook()
    printed = [{"host": f"ip-10-0-0-{host}", "sum": total} for host, total in reports]
    ec2_nodes.check_ranks(notes, printed, {"ip-10-0-0-0": 1, "ip-10-0-0-1": 1})
    assert len(notes.failures) == failures, notes.failures


# --- pools and other people's jobs


def make_pool_status(name: str, desired: int, minimum: int = 0) -> PoolStatus:
    return PoolStatus(name, wanted=desired, min_size=minimum)


def test_smoke_test_uses_running_nodes_and_scaling_test_uses_an_empty_pool() -> None:
    in_aws = {
        "train": make_pool_status("train", 0),
        "small": make_pool_status("small", 2),
        "system": make_pool_status("system", 1),
    }
    choice = choose_pools(make_cluster(), {"train": 0, "small": 2, "system": 1}, in_aws)
    assert (choice.smoke, choice.workers, choice.scale) == (SMALL, 2, TRAIN)
    assert choice.list_node_starts({"small": 2}) == [(TRAIN, 1)]
    assert choice.describe_node_starts({"small": 2}) == [
        "starts 1 x p4d.24xlarge in pool train; the autoscaler removes them again"
    ]


def test_scaling_test_uses_a_pool_with_nodes_if_no_other_pool_can_be_empty() -> None:
    described = make_cluster(pools=(SYSTEM, TRAIN))
    choice = choose_pools(described, {"train": 2}, {"train": make_pool_status("train", 2)})
    assert (choice.scale, choice.list_node_starts({"train": 2})) == (TRAIN, [])
    assert "waits until the autoscaler has removed the nodes of pool train" in choice.describe_node_starts({"train": 2})[1]
    assert choose_pools(described, {"train": 2}, {"train": make_pool_status("train", 2, minimum=2)}).scale is None


def test_unknown_pool_is_refused() -> None:
    with pytest.raises(NotFound, match=r"there is no pool trian\. Did you mean train"):
        choose_pools(make_cluster(), {}, {}, pool="trian")


def test_gpu_pods_outside_of_jobs_are_listed_as_foreign() -> None:
    def make_pod(name: str, phase: str = "Running", **labels: str) -> dict[str, Any]:
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        metadata = {"name": name, "namespace": "x", "labels": {key.replace("_", "/"): value for key, value in labels.items()}}
        return {"metadata": metadata, "spec": {"containers": [{"resources": resources}]}, "status": {"phase": phase}}

    class Kubernetes:
        def list(self, kind: str, *arguments: Any) -> list[dict[str, Any]]:
            return (
                [make_pod("alone"), make_pod("ended", "Succeeded"), make_pod("cpu") | {"spec": {"containers": [{}]}}]
                if kind == "Pod"
                else []
            )

    api: Any = Kubernetes()
    assert own_jobs.find_foreign_jobs(api) == ["pod alone in namespace x"]
