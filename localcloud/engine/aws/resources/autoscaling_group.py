"""Auto Scaling groups with a single launch template."""

from functools import partial
from typing import Any

from localcloud.engine.aws.resource import Args, AutoName, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.names import choose_physical_name
from localcloud.engine.aws.resources.requests import (
    MINUTE,
    find_first,
    ignore_gone,
    report_partial_creation,
    retry,
    to_request,
    to_state,
    wait_until_gone,
)

DELETED = 10 * MINUTE
PROFILE_KNOWN = 2 * MINUTE
GROUP_GONE = "ValidationError"
SIZES = ("MinSize", "MaxSize", "DesiredCapacity")
HOOK = {
    "name": "LifecycleHookName",
    "lifecycleTransition": "LifecycleTransition",
    "heartbeatTimeout": "HeartbeatTimeout",
    "defaultResult": "DefaultResult",
    "notificationMetadata": "NotificationMetadata",
    "notificationTargetArn": "NotificationTargetARN",
    "roleArn": "RoleARN",
}


@register
class Group(Resource):
    """Auto Scaling group. The handler does not wait for the group's instances, so it requires
    `waitForCapacityTimeout: "0"` and `forceDelete`."""

    token = "aws:autoscaling/group:Group"
    title = "Auto Scaling Group"
    auto_name = AutoName()
    SIMPLE = {
        "minSize": "MinSize",
        "maxSize": "MaxSize",
        "desiredCapacity": "DesiredCapacity",
        "defaultCooldown": "DefaultCooldown",
        "healthCheckGracePeriod": "HealthCheckGracePeriod",
        "healthCheckType": "HealthCheckType",
        "capacityRebalance": "CapacityRebalance",
        "terminationPolicies": "TerminationPolicies",
    }
    props = {
        "name": Prop(replace=True),
        "namePrefix": Prop(replace=True, write_only=True),
        "minSize": Prop(),
        "maxSize": Prop(),
        "desiredCapacity": Prop(),
        "defaultCooldown": Prop(),
        "healthCheckGracePeriod": Prop(default=300),
        "healthCheckType": Prop(),
        "capacityRebalance": Prop(default=False),
        "terminationPolicies": Prop(),
        "vpcZoneIdentifiers": Prop(unordered=True),
        "launchTemplate": Prop(fields={"id": Prop(), "name": Prop(), "version": Prop()}),
        "initialLifecycleHooks": Prop(replace=True, unordered=True, write_only=True, fields=dict.fromkeys(HOOK, Prop())),
        "tags": Prop(unordered=True, fields={"key": Prop(), "value": Prop(), "propagateAtLaunch": Prop()}),
        "forceDelete": Prop(write_only=True, default=False),
        "waitForCapacityTimeout": Prop(write_only=True, default="10m"),
    }

    def create(self, aws: Aws, args: Args) -> str:
        """Create the group. With initial lifecycle hooks, create it with size 0, and set its size after the hooks exist."""
        autoscaling, name, hooks = aws.client("autoscaling"), choose_physical_name(args), args.get("initialLifecycleHooks") or []
        self._reject_capacity_wait(args)
        request = self._build_request(args)
        sizes = {key: request.pop(key) for key in SIZES if key in request}
        make = partial(
            autoscaling.create_auto_scaling_group,
            AutoScalingGroupName=name,
            Tags=[_build_tag(name, tag) for tag in args.get("tags") or []],
            **request,
            **({"MinSize": 0, "MaxSize": 0} if hooks else sizes),
        )
        # A new instance profile takes some time to propagate to Auto Scaling:
        # https://github.com/hashicorp/terraform-provider-aws (resourceGroupCreate)
        retry(
            aws,
            f"{self.title} ({name}) create",
            make,
            GROUP_GONE,
            containing="nvalid IAM Instance Profile",
            timeout=PROFILE_KNOWN,
        )
        if hooks:
            with report_partial_creation(name):
                for hook in hooks:
                    autoscaling.put_lifecycle_hook(
                        AutoScalingGroupName=name, **to_request({**hook, **_parse_heartbeat_timeout(hook)}, HOOK)
                    )
                autoscaling.update_auto_scaling_group(AutoScalingGroupName=name, **sizes)
        return name

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        group = self._describe(aws, id)
        if group is None:
            return None
        template = group.get("LaunchTemplate") or {}
        named = {"id": "LaunchTemplateId", "name": "LaunchTemplateName", "version": "Version"}
        tags = [
            {"key": tag["Key"], "value": tag.get("Value", ""), "propagateAtLaunch": bool(tag["PropagateAtLaunch"])}
            for tag in group.get("Tags", ())
        ]
        return {
            **to_state(group, {**self.SIMPLE, "arn": "AutoScalingGroupARN", "name": "AutoScalingGroupName"}),
            "availabilityZones": sorted(group["AvailabilityZones"]),
            "vpcZoneIdentifiers": [subnet_id for subnet_id in group.get("VPCZoneIdentifier", "").split(",") if subnet_id],
            **({"launchTemplate": to_state(template, named)} if template else {}),
            **({"tags": tags} if tags else {}),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        self._reject_capacity_wait(new)
        autoscaling = aws.client("autoscaling")
        request = self._build_request({key: new.get(key, self.props[key].default) for key in changed})
        if request:
            autoscaling.update_auto_scaling_group(AutoScalingGroupName=id, **request)
        if "tags" in changed:
            before = {tag["key"]: tag for tag in old.get("tags") or []}
            after = {tag["key"]: tag for tag in new.get("tags") or []}
            if removed := [_build_tag(id, tag) for key, tag in before.items() if key not in after]:
                autoscaling.delete_tags(Tags=removed)
            if written := [_build_tag(id, tag) for key, tag in after.items() if before.get(key) != tag]:
                autoscaling.create_or_update_tags(Tags=written)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        if not state.get("forceDelete"):
            raise Failed(f"{self.token}: deleting without forceDelete is not emulated")
        with ignore_gone(GROUP_GONE):
            aws.client("autoscaling").delete_auto_scaling_group(AutoScalingGroupName=id, ForceDelete=True)
        wait_until_gone(aws, f"{self.title} ({id})", partial(self._describe, aws, id), timeout=DELETED)

    def _reject_capacity_wait(self, args: Args) -> None:
        if args.get("waitForCapacityTimeout") != "0":
            raise Failed(f'{self.token}: waitForCapacityTimeout other than "0" is not emulated')

    def _build_request(self, args: Args) -> dict[str, Any]:
        request = to_request(args, self.SIMPLE)
        request = {key: int(value) if isinstance(value, float) else value for key, value in request.items()}
        if args.get("vpcZoneIdentifiers"):
            request["VPCZoneIdentifier"] = ",".join(args["vpcZoneIdentifiers"])
        if template := args.get("launchTemplate"):
            named = {"LaunchTemplateId": template["id"]} if template.get("id") else {"LaunchTemplateName": template["name"]}
            request["LaunchTemplate"] = {**named, "Version": str(template.get("version") or "$Default")}
        return request

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        autoscaling = aws.client("autoscaling")
        return find_first(lambda: autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[id])["AutoScalingGroups"])


def _parse_heartbeat_timeout(hook: dict[str, Any]) -> dict[str, Any]:
    return {"heartbeatTimeout": int(hook["heartbeatTimeout"])} if hook.get("heartbeatTimeout") else {}


def _build_tag(group: str, tag: dict[str, Any]) -> dict[str, Any]:
    return {
        "ResourceType": "auto-scaling-group",
        "ResourceId": group,
        "Key": tag["key"],
        "Value": tag["value"],
        "PropagateAtLaunch": bool(tag["propagateAtLaunch"]),
    }
