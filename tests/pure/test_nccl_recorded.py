"""The programs that read the output of NCCL, nccl-tests and the GPU driver, with output recorded on a GPU."""

import re
from pathlib import Path
from typing import Any

from infra.jobs.in_pods.nccl import parsed, reason
from infra.jobs.nccl_verdict import NcclExpected, checks
from localcloud.kubernetes.node_monitoring.rules import configuration
from tests.pure import recorded_on_gpu

OVER_TCP = NcclExpected(workers=2, ranks=2, network="tcp", instance_type="p5.48xlarge", line_rate_gbps=3200.0)
OVER_EFA = NcclExpected(workers=2, ranks=2, network="efa", instance_type="p5.48xlarge", line_rate_gbps=3200.0)


def pair(log: str = recorded_on_gpu.TCP) -> list[dict[str, Any]]:
    return [
        {"nccl_rank": rank, "host": f"w-{rank}", "node": f"n-{rank}", "error": "", **parsed(text)}
        for rank, text in enumerate((recorded_on_gpu.TABLE + log, log))
    ]


def test_two_ranks_over_tcp_pass_on_a_pool_with_tcp() -> None:
    reports = pair()
    assert (reports[0]["version"], reports[0]["paths"]) == ("2.28.9+cuda13.0", {"Socket": 4})
    assert reports[0]["results"] == [[8, 0.0, False], [262144, 0.06, False]]
    results = {check.name: check.result for check in checks(reports, OVER_TCP)}
    assert (results["NCCL"], results["NCCL network"]) == ("passed", "passed")


def test_the_same_ranks_fail_on_a_pool_with_efa() -> None:
    failed = {check.name: check.failures for check in checks(pair(), OVER_EFA) if check.failures}
    assert failed["NCCL network"][0] == "rank 0 in w-0 on node n-0 uses Socket, not Libfabric"


def test_nccl_ends_without_the_plugin_for_efa_and_the_report_gives_the_reason() -> None:
    report = parsed(recorded_on_gpu.NO_PLUGIN + recorded_on_gpu.NO_PLUGIN_LOG)
    broken = {"nccl_rank": 0, "host": "w-0", "node": "n-0", "error": reason(recorded_on_gpu.NO_PLUGIN), **report}
    (failed,) = (check.failures for check in checks([broken], OVER_EFA) if check.failures)
    assert failed == (
        "w-0 on node n-0: gpumpi-rank-0: Test NCCL failure common.cu:222 "
        "'invalid usage (run with NCCL_DEBUG=WARN for details) / '. Failed to initialize any NET plugin",
    )


def test_only_the_rule_of_its_xid_matches_the_driver_s_line_and_it_sets_no_condition() -> None:
    rules = configuration(Path("kernel.log"))["rules"]
    matching = [rule for rule in rules if re.search(rule["pattern"], recorded_on_gpu.ILLEGAL_ADDRESS)]
    assert [(rule["type"], rule["reason"]) for rule in matching] == [("temporary", "NvidiaXID31Warning")]
