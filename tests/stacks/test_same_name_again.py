"""A stack is deployed again under the same name after `destroy`, as a user with only the policies of docs/iam."""

from localcloud.instance import LocalCloud
from testkit import iam_policies
from tests.stacks.account import destroy_without_leftovers, prepare_stack

LOGS = "/aws/eks/gpumpi-faults/cluster"


def test_a_stack_can_be_redeployed_although_eks_has_recreated_its_log_group(cloud: LocalCloud) -> None:
    stack = prepare_stack(cloud)
    iam_policies.restrict_user(cloud.clients(stack.region), map(iam_policies.read_policy, iam_policies.STACK))
    cloud.control().set_baseline()
    logs = cloud.clients(stack.region)("logs")
    assert (up := stack.run("up")).ok, up.output
    destroy_without_leftovers(stack)
    (group,) = logs.describe_log_groups(logGroupNamePrefix=LOGS)["logGroups"]
    assert "kmsKeyId" not in group and "retentionInDays" not in group, "EKS delivered the last audit logs"

    preview = stack.run("preview")
    assert preview.ok and f"EKS recreated {LOGS}" in preview.output, preview.output
    assert logs.describe_log_groups(logGroupNamePrefix=LOGS)["logGroups"], "a preview deletes nothing"
    assert (again := stack.run("up")).ok, again.output
    (group,) = logs.describe_log_groups(logGroupNamePrefix=LOGS)["logGroups"]
    assert group["kmsKeyId"] and group["retentionInDays"] == 90
    unchanged = stack.run("up")
    assert unchanged.ok and not unchanged.changed, unchanged.output
    destroy_without_leftovers(stack)
