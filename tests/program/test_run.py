"""Entry point: the program creates the configured resources, or reports all configuration errors at once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pulumi
import pytest
from pulumi.runtime.config import set_all_config
from pulumi.runtime.mocks import set_mocks
from pulumi.runtime.mocks import test as under_mocks

from infra import program
from infra.config.stopping import Stopped
from infra.facts import ebs_key, eks
from infra.facts.clients import Clients, Denied
from localcloud.aws import calls, faults, quotas
from localcloud.aws.faults import Fault
from localcloud.engine.mocks import MotoMocks
from tests.program import engine


@pytest.fixture
def mocks() -> Iterator[MotoMocks]:
    with MotoMocks("us-west-2") as moto:
        set_mocks(moto, project="gpumpi", stack="test")
        yield moto
    set_all_config({})


def configure_stack(**values: Any) -> None:
    """Set the configuration as the engine passes it to the program: as strings, with structured values in JSON."""
    texts = {f"gpumpi:{key}": value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    set_all_config({"aws:region": "us-west-2", **texts})


def test_a_valid_configuration_creates_a_cluster(mocks: MotoMocks) -> None:
    configure_stack(target={"kind": "eks"}, pools=[{"name": "train", "instanceType": "g5.xlarge", "maxSize": 2}])
    under_mocks(program.run_program)()  # type: ignore[no-untyped-call]
    (cluster,) = mocks.list_created(engine.CLUSTER)
    assert cluster.state["status"] == "ACTIVE"
    assert {group.inputs["labels"]["gpumpi.io/pool"] for group in mocks.list_created(engine.NODE_GROUP)} == {"system", "train"}


def test_all_errors_are_reported_at_once_and_nothing_is_created(mocks: MotoMocks) -> None:
    configure_stack(
        target={"kind": "eks", "kubernetesVersion": "1.20"},
        pools=[{"name": "Train", "instanceType": "g5.xlarg", "maxSize": 2}, {"name": "b", "instanceType": "g5.xlarge"}],
    )
    with pytest.raises(Stopped) as error:
        program.run_program()
    lines = str(error.value).splitlines()
    paths = [line.split(":")[0] for line in lines]
    assert paths == ["target.kubernetesVersion", "pools[0].name", "pools[0].instanceType", "pools[1].maxSize"]
    assert "Did you mean g5.xlarge" in lines[2]
    assert mocks.resources == []


def test_a_reported_error_exits_with_the_code_to_which_the_language_host_adds_no_message(
    mocks: MotoMocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", shown.append)
    configure_stack(target={"kind": "eks", "kubernetesVersion": "1.20"})
    with pytest.raises(SystemExit) as ended:
        program.run_program()
    assert ended.value.code == 32
    assert [text.split(":")[0] for text in shown] == ["target.kubernetesVersion"]


def test_an_unreachable_aws_endpoint_is_reported(mocks: MotoMocks, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_stack(target={"kind": "eks"})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(Stopped, match="credentials"):
        program.run_program()
    assert mocks.resources == []


def test_up_warns_about_checks_that_could_not_run(mocks: MotoMocks, monkeypatch: pytest.MonkeyPatch) -> None:
    configure_stack(target={"kind": "eks"}, platform={"install": False})
    denied = Denied("ec2:GetEbsDefaultKmsKeyId")
    monkeypatch.setattr(ebs_key, "read_default_key", lambda *_: (_ for _ in ()).throw(denied))
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    under_mocks(program.run_program)()  # type: ignore[no-untyped-call]
    assert [warning for warning in warnings if "default key of EBS" in warning] == [
        "not checked: whether Auto Scaling may use the default key of EBS: arn:aws:iam::123456789012:user/local-engineer may not "
        "call ec2:GetEbsDefaultKmsKeyId"
    ]


SMALL = {"target": {"kind": "eks"}, "platform": {"install": False}, "storage": {"efs": "none"}}

# --- logs of a deleted cluster ------------------------------------------------------------------------------------------

CONTROL_PLANE_LOGS = "/aws/eks/gpumpi-test/cluster"


def leave_log_group(**more: Any) -> Any:
    """Create the log group that EKS leaves behind after `pulumi destroy`."""
    logs = boto3.client("logs", region_name="us-west-2")
    logs.create_log_group(logGroupName=CONTROL_PLANE_LOGS, **more)
    configure_stack(**SMALL)
    return logs


def test_up_after_destroy_replaces_the_log_group_left_by_eks(mocks: MotoMocks) -> None:
    logs = leave_log_group()
    under_mocks(program.run_program)()  # type: ignore[no-untyped-call]
    (group,) = logs.describe_log_groups(logGroupNamePrefix=CONTROL_PLANE_LOGS)["logGroups"]
    assert group["retentionInDays"] == 90 and group["kmsKeyId"].startswith("arn:aws:kms:")
    assert mocks.list_created(engine.CLUSTER)


def test_a_preview_only_reports_the_log_group_left_by_eks(monkeypatch: pytest.MonkeyPatch) -> None:
    infos: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", infos.append)
    with MotoMocks("us-west-2", preview=True) as mocks:
        set_mocks(mocks, project="gpumpi", stack="test", preview=True)
        logs = leave_log_group()
        calls.clear_counts()
        under_mocks(program.run_program)()  # type: ignore[no-untyped-call]
        assert logs.describe_log_groups(logGroupNamePrefix=CONTROL_PLANE_LOGS)["logGroups"] and calls.count_writes() == {}
    assert infos == [f"EKS recreated {CONTROL_PLANE_LOGS} left over from the last deleted cluster; `pulumi up` replaces it"]


@pytest.mark.parametrize("retention_days", [None, 365])
def test_a_log_group_with_a_retention_does_not_count_as_left_by_eks(retention_days: int | None, mocks: MotoMocks) -> None:
    logs = leave_log_group()
    if retention_days:
        logs.put_retention_policy(logGroupName=CONTROL_PLANE_LOGS, retentionInDays=retention_days)
    assert eks.has_leftover_logs(Clients("us-west-2"), CONTROL_PLANE_LOGS) is not bool(retention_days)
    assert not eks.has_leftover_logs(Clients("us-west-2"), CONTROL_PLANE_LOGS.replace("test", "tes"))


def test_up_without_permission_to_delete_the_leftover_log_group_prints_the_command(
    mocks: MotoMocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_log_group()
    message = "User: ada is not authorized to perform: logs:DeleteLogGroup on resource: x"
    faults.add_fault(Fault("logs", "DeleteLogGroup", "AccessDeniedException", message))
    with pytest.raises(Stopped) as error:
        program.run_program()
    assert str(error.value) == (
        f"{CONTROL_PLANE_LOGS} is left over from a deleted cluster, but arn:aws:iam::123456789012:user/local-engineer "
        "may not call "
        f"logs:DeleteLogGroup. Allow it, or run: aws logs delete-log-group --region us-west-2 --log-group-name "
        f"{CONTROL_PLANE_LOGS}"
    )
    assert mocks.resources == []


# --- budget -------------------------------------------------------------------------------------------------------------


def configure_over_budget(action: str, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Configure a stack that costs more than its budget even without a GPU node."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    pools = [{"name": "train", "instanceType": "g5.xlarge", "maxSize": 1}]
    configure_stack(**SMALL, pools=pools, budget={"maxHourly": 0.1, "action": action})


def test_a_stack_over_its_budget_is_stopped_before_any_write(
    mocks: MotoMocks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configure_over_budget("refuse", monkeypatch, tmp_path)
    calls.clear_counts()
    with pytest.raises(Stopped, match=r"budget\.maxHourly: the stack costs [\d.]+ USD per hour .* but the budget is 0\.10"):
        program.run_program()
    assert (mocks.resources, calls.count_writes()) == ([], {})


def test_a_warning_only_budget_allows_the_stack_to_be_created(
    mocks: MotoMocks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    configure_over_budget("warn", monkeypatch, tmp_path)
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    under_mocks(program.run_program)()  # type: ignore[no-untyped-call]
    assert [warning for warning in warnings if warning.startswith("budget.maxHourly: the stack costs")]
    assert mocks.list_created(engine.CLUSTER)


# --- GPUMPI_SKIP_CHECKS -------------------------------------------------------------------------------------------------

P_QUOTA = "L-417A185B"


def configure_over_quota() -> None:
    configure_stack(**SMALL, pools=[{"name": "train", "instanceType": "p4d.24xlarge", "maxSize": 1, "desiredSize": 1}])
    quotas.set_values({P_QUOTA: 0})


def test_a_failed_check_stops_the_program_before_any_write(mocks: MotoMocks) -> None:
    configure_over_quota()
    calls.clear_counts()
    with pytest.raises(Stopped, match=P_QUOTA):
        program.run_program()
    assert (mocks.resources, calls.count_writes()) == ([], {})


def test_skip_checks_turns_problems_into_warnings_and_aws_rejects_the_request(
    mocks: MotoMocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(program.SKIP_CHECKS, "1")
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    configure_over_quota()
    with pytest.raises(Exception, match="VcpuLimitExceeded"):
        under_mocks(program.run_program)()  # type: ignore[no-untyped-call]
    assert warnings[0].startswith("GPUMPI_SKIP_CHECKS=1: failed checks are only warnings")
    assert [warning for warning in warnings if P_QUOTA in warning]
    assert mocks.list_created(engine.CLUSTER)


def test_skip_checks_does_not_apply_to_a_stack_that_cannot_be_planned(mocks: MotoMocks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(program.SKIP_CHECKS, "1")
    configure_stack(target={"kind": "eks"}, pools=[{"name": "train", "instanceType": "p9.metal", "maxSize": 1}])
    with pytest.raises(Stopped, match=r"p9\.metal"):
        program.run_program()
    assert mocks.resources == []


@pytest.mark.parametrize("value", ["", "0", "true"])
def test_only_value_1_of_the_variable_skips_the_checks(mocks: MotoMocks, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(program.SKIP_CHECKS, value)
    configure_over_quota()
    with pytest.raises(Stopped, match=P_QUOTA):
        program.run_program()
