"""AWS client that reads and resizes Auto Scaling groups."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from localcloud.kubernetes.autoscaler.groups import Group, InstanceType

_ENDING = ("Terminating", "Terminated", "Detaching", "Detached")
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}


class AwsRefused(Exception):
    """AWS rejected a request. The message comes from AWS."""


class Cloud(Protocol):
    def groups(self) -> list[Group]: ...

    def resize(self, group: Group, size: int) -> None: ...

    def terminate(self, instance_id: str) -> None: ...

    def find_launch_failure(self, group: Group, since: float) -> str: ...


class AwsCloud:
    """Calls AWS with boto3, using the Pod Identity credentials from the environment."""

    def __init__(self, discovery: Sequence[Mapping[str, str | None]], region: str | None) -> None:
        import boto3  # slow to import

        session = boto3.session.Session(region_name=region)
        self._region = str(session.region_name)
        self._autoscaling, self._ec2 = session.client("autoscaling"), session.client("ec2")
        self._discovery = discovery
        self._types: dict[str, InstanceType] = {}
        self._types_refused: AwsRefused | None = None
        """Error of DescribeInstanceTypes, if any. The call is not retried, because the real program makes it only at
        startup.
        """
        self._templates: dict[tuple[str, str], str] = {}

    def groups(self) -> list[Group]:
        pages = self._autoscaling.get_paginator("describe_auto_scaling_groups").paginate()
        raw = [group for page in pages for group in page["AutoScalingGroups"]]
        return [
            self._parse_group(group, tags)
            for group in raw
            if self._is_discovered(tags := _parse_tags(group)) and "Status" not in group
        ]

    def resize(self, group: Group, size: int) -> None:
        self._call_aws(
            self._autoscaling.set_desired_capacity,
            AutoScalingGroupName=group.name,
            DesiredCapacity=size,
            HonorCooldown=False,
        )

    def terminate(self, instance_id: str) -> None:
        """Terminate an instance and lower the group's desired size by one."""
        self._call_aws(
            self._autoscaling.terminate_instance_in_auto_scaling_group,
            InstanceId=instance_id,
            ShouldDecrementDesiredCapacity=True,
        )

    def find_launch_failure(self, group: Group, since: float) -> str:
        """Return the error of the group's last scaling activity; empty if the activity did not fail or started before
        `since`."""
        description = self._autoscaling.describe_scaling_activities(AutoScalingGroupName=group.name, MaxRecords=1)
        for activity in description["Activities"][:1]:
            if activity["StatusCode"] in ("Failed", "Cancelled") and activity["StartTime"].timestamp() >= int(since):
                return str(activity.get("StatusMessage") or activity["StatusCode"])
        return ""

    def _is_discovered(self, tags: Mapping[str, str]) -> bool:
        return any(all(key in tags and value in (None, tags[key]) for key, value in needed.items()) for needed in self._discovery)

    def _parse_group(self, raw: Mapping[str, Any], tags: Mapping[str, str]) -> Group:
        return Group(
            name=raw["AutoScalingGroupName"],
            minimum=raw["MinSize"],
            maximum=raw["MaxSize"],
            desired=raw["DesiredCapacity"],
            instance_type=self._describe_instance_type(self._find_instance_type_name(raw)),
            tags=tags,
            instances=frozenset(
                instance["InstanceId"] for instance in raw["Instances"] if not instance["LifecycleState"].startswith(_ENDING)
            ),
            region=self._region,
            zones=tuple(raw["AvailabilityZones"]),
        )

    def _find_instance_type_name(self, raw: Mapping[str, Any]) -> str:
        """Return the group's first instance type, which the group prefers for launches."""
        template = raw.get("LaunchTemplate")
        if policy := raw.get("MixedInstancesPolicy"):
            template = policy["LaunchTemplate"]["LaunchTemplateSpecification"]
            overrides = policy["LaunchTemplate"].get("Overrides") or ()
            if overrides and overrides[0].get("InstanceType"):
                return str(overrides[0]["InstanceType"])
        if template is None:
            raise AwsRefused(f"group {raw['AutoScalingGroupName']} has no launch template")
        key = template["LaunchTemplateId"], str(template.get("Version") or "$Default")
        if key not in self._templates:
            versions = self._call_aws(self._ec2.describe_launch_template_versions, LaunchTemplateId=key[0], Versions=[key[1]])
            name = str(versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]["InstanceType"])
            if key[1].startswith("$"):
                return name
            self._templates[key] = name
        return self._templates[key]

    def _describe_instance_type(self, name: str) -> InstanceType:
        """Return the CPUs, memory and GPUs of an instance type.

        If AWS does not describe the type, the template of a group without nodes is unknown, and the whole pass fails.
        The real program also fails, except for the types in its compiled-in list (GenerateEC2InstanceTypes and
        getAsgTemplate in kubernetes/autoscaler@cluster-autoscaler-1.35.0:cluster-autoscaler/cloudprovider/aws).
        """
        if self._types_refused is not None:
            raise self._types_refused
        if name not in self._types:
            try:
                facts = self._call_aws(self._ec2.describe_instance_types, InstanceTypes=[name])["InstanceTypes"][0]
            except AwsRefused as refused:
                self._types_refused = AwsRefused(f"the size of {name} is unknown, so no group can be scaled up: {refused}")
                raise self._types_refused from None
            architecture = facts["ProcessorInfo"]["SupportedArchitectures"][0]
            self._types[name] = InstanceType(
                name=name,
                cpus=facts["VCpuInfo"]["DefaultVCpus"],
                memory_mib=facts["MemoryInfo"]["SizeInMiB"],
                gpus=sum(gpu["Count"] for gpu in facts.get("GpuInfo", {}).get("Gpus", ()) if gpu["Manufacturer"] == "NVIDIA"),
                architecture=_ARCHITECTURES.get(architecture, architecture),
            )
        return self._types[name]

    def _call_aws(self, operation: Any, **parameters: Any) -> Any:
        from botocore.exceptions import ClientError

        try:
            return operation(**parameters)
        except ClientError as error:
            raise AwsRefused(str(error)) from error


def _parse_tags(raw: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in raw.get("Tags", ())}
