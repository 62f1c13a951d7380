"""The programs that read the output of NCCL, nccl-tests and the GPU driver, with output recorded on a GPU."""

import re
from pathlib import Path
from typing import Any

from infra.jobs.in_pods.nccl import find_error_line, parse_output
from infra.jobs.nccl_verdict import NcclExpected, evaluate_reports
from localcloud.kubernetes.node_monitoring.rules import build_configuration
from tests.pure import recorded_on_gpu

OVER_TCP = NcclExpected(workers=2, ranks=2, network="tcp", instance_type="p5.48xlarge", line_rate_gbps=3200.0)
OVER_EFA = NcclExpected(workers=2, ranks=2, network="efa", instance_type="p5.48xlarge", line_rate_gbps=3200.0)


def make_report_pair(log: str = recorded_on_gpu.TCP) -> list[dict[str, Any]]:
    return [
        {"nccl_rank": rank, "host": f"w-{rank}", "node": f"n-{rank}", "error": "", **parse_output(text)}
        for rank, text in enumerate((recorded_on_gpu.TABLE + log, log))
    ]


def test_two_ranks_over_tcp_pass_on_a_tcp_pool() -> None:
    reports = make_report_pair()
    assert (reports[0]["version"], reports[0]["paths"]) == ("2.28.9+cuda13.0", {"Socket": 4})
    assert reports[0]["results"] == [[8, 0.0, False], [262144, 0.06, False]]
    results = {check.name: check.result for check in evaluate_reports(reports, OVER_TCP)}
    assert (results["NCCL"], results["NCCL network"]) == ("passed", "passed")


def test_two_ranks_over_tcp_fail_on_an_efa_pool() -> None:
    failed = {check.name: check.failures for check in evaluate_reports(make_report_pair(), OVER_EFA) if check.failures}
    assert failed["NCCL network"][0] == "rank 0 in w-0 on node n-0 uses Socket, not Libfabric"


def test_nccl_fails_without_the_efa_plugin_and_the_report_gives_the_reason() -> None:
    report = parse_output(recorded_on_gpu.NO_PLUGIN + recorded_on_gpu.NO_PLUGIN_LOG)
    broken = {"nccl_rank": 0, "host": "w-0", "node": "n-0", "error": find_error_line(recorded_on_gpu.NO_PLUGIN), **report}
    (failed,) = (check.failures for check in evaluate_reports([broken], OVER_EFA) if check.failures)
    assert failed == (
        "w-0 on node n-0: gpumpi-rank-0: Test NCCL failure common.cu:222 "
        "'invalid usage (run with NCCL_DEBUG=WARN for details) / '. Failed to initialize any NET plugin",
    )


def test_driver_log_line_matches_only_the_rule_of_its_xid_and_sets_no_condition() -> None:
    rules = build_configuration(Path("kernel.log"))["rules"]
    matching = [rule for rule in rules if re.search(rule["pattern"], recorded_on_gpu.ILLEGAL_ADDRESS)]
    assert [(rule["type"], rule["reason"]) for rule in matching] == [("temporary", "NvidiaXID31Warning")]
