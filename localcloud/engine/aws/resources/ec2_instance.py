"""EC2 instances that are launched from a launch template.

https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/ec2/ec2_instance.go
"""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.ec2_tags import TAGS, build_tag_specification, parse_tags, update_tags
from localcloud.engine.aws.resources.requests import (
    MINUTE,
    build_ec2_arn,
    find_first,
    generate_client_token,
    ignore_gone,
    report_partial_creation,
    retry,
    to_state,
)

CREATED = 10 * MINUTE
STOPPED = STARTED = 10 * MINUTE
DELETED = 20 * MINUTE
PROFILE_KNOWN = 2 * MINUTE
USER_DATA = {"userData", "userDataBase64"}
ABSENT = "InvalidInstanceID.NotFound"


@register
class Instance(Resource):
    """EC2 instance. A change to another launch template or version replaces the instance.

    User data is read back as `userData`, which is not computed, unless the program sets `userDataBase64`. Therefore,
    if user data comes from the launch template, the next update clears it. That update stops and starts the instance.
    """

    token = "aws:ec2/instance:Instance"
    title = "EC2 Instance"
    OUTPUTS = {
        "ami": "ImageId",
        "instanceType": "InstanceType",
        "privateIp": "PrivateIpAddress",
        "privateDns": "PrivateDnsName",
        "publicIp": "PublicIpAddress",
        "publicDns": "PublicDnsName",
        "subnetId": "SubnetId",
    }
    ATTRIBUTES = {
        "disableApiStop": "DisableApiStop",
        "disableApiTermination": "DisableApiTermination",
        "instanceInitiatedShutdownBehavior": "InstanceInitiatedShutdownBehavior",
    }
    props = {
        "launchTemplate": Prop(replace=True, fields={"id": Prop(), "name": Prop(), "version": Prop(default="$Default")}),
        "monitoring": Prop(),
        "userData": Prop(default=""),
        "userDataBase64": Prop(),
        "userDataReplaceOnChange": Prop(write_only=True, default=False),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        ec2, template = aws.client("ec2"), args["launchTemplate"]
        named = {"LaunchTemplateId": template["id"]} if template.get("id") else {"LaunchTemplateName": template["name"]}
        version = str(template.get("version") or "$Default")
        ec2.describe_launch_template_versions(**named, Versions=[version])
        launch = partial(
            ec2.run_instances,
            MinCount=1,
            MaxCount=1,
            ClientToken=generate_client_token(),
            LaunchTemplate={**named, "Version": version},
            TagSpecifications=build_tag_specification("instance", args),
            # The official provider always sends these properties. These values override those of the launch template.
            DisableApiTermination=False,
            EbsOptimized=False,
            Monitoring={"Enabled": bool(args.get("monitoring"))},
            **({"UserData": text} if (text := _get_plain_user_data(args)) else {}),
        )
        # A new instance profile takes some time to propagate to EC2:
        # https://github.com/hashicorp/terraform-provider-aws (resourceInstanceCreate)
        transient, words = "InvalidParameterValue", "nvalid IAM Instance Profile"
        response = retry(aws, f"{self.title} create", launch, transient, containing=words, timeout=PROFILE_KNOWN)
        id = str(response["Instances"][0]["InstanceId"])
        with report_partial_creation(id):
            aws.wait(f"{self.title} ({id}) create", lambda: self._describe_if_in_state(aws, id, "running"), timeout=CREATED)
            if args.get("monitoring"):
                ec2.monitor_instances(InstanceIds=[id])
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        instance = self._describe(aws, id)
        if instance is None:
            return None
        ec2 = aws.client("ec2")
        primary = next((eni for eni in instance["NetworkInterfaces"] if eni["Attachment"]["DeviceIndex"] == 0), None)
        ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [id]}])
        return {
            **to_state(instance, self.OUTPUTS),
            **parse_tags(instance.get("Tags")),
            **self._read_launch_template(aws, id, recorded),
            **({"primaryNetworkInterfaceId": primary["NetworkInterfaceId"]} if primary else {}),
            **self._read_cpu_credits(aws, instance),
            **{ours: _read_attribute(ec2, id, ours, theirs) for ours, theirs in self.ATTRIBUTES.items()},
            **self._read_user_data(aws, id, recorded),
            "arn": build_ec2_arn(aws, f"instance/{id}"),
            "availabilityZone": instance["Placement"]["AvailabilityZone"],
            "instanceState": instance["State"]["Name"],
            "monitoring": instance["Monitoring"]["State"] in ("enabled", "pending"),
        }

    def find_replacement_triggers(self, old: State, new: Args, changed: frozenset[str]) -> frozenset[str]:
        return changed & USER_DATA if new.get("userDataReplaceOnChange") else frozenset()

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        ec2 = aws.client("ec2")
        if changed & USER_DATA:
            with self._stop_temporarily(aws, id):
                ec2.modify_instance_attribute(InstanceId=id, UserData={"Value": _get_plain_user_data(new).encode()})
        if "monitoring" in changed:
            (ec2.monitor_instances if new.get("monitoring") else ec2.unmonitor_instances)(InstanceIds=[id])
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(ABSENT):
            aws.client("ec2").terminate_instances(InstanceIds=[id])
        gone = lambda: True if self._describe(aws, id) is None else None  # noqa: E731
        aws.wait(f"{self.title} ({id}) delete", gone, timeout=DELETED)

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        """Return the instance, or None if it is terminated. EC2 still lists terminated instances for an hour."""
        ec2 = aws.client("ec2")
        reservation = find_first(lambda: ec2.describe_instances(InstanceIds=[id])["Reservations"], ABSENT)
        instance = reservation["Instances"][0] if reservation else None
        return None if instance is None or instance["State"]["Name"] == "terminated" else instance

    @staticmethod
    def _read_launch_template(aws: Aws, id: str, recorded: State) -> State:
        """Return the launch template and version that EC2 recorded in the instance's tags."""
        ec2 = aws.client("ec2")
        of_instance = {"Name": "resource-id", "Values": [id]}

        def read_tag(part: str) -> str | None:
            key = {"Name": "key", "Values": [f"aws:ec2launchtemplate:{part}"]}
            tags = ec2.describe_tags(Filters=[of_instance, key])["Tags"]
            return tags[0]["Value"] if tags else None

        template, version = read_tag("id"), read_tag("version")
        describe = partial(ec2.describe_launch_templates, LaunchTemplateIds=[template])
        details = find_first(lambda: describe()["LaunchTemplates"], "InvalidLaunchTemplateId.NotFound") if template else None
        if not details:
            return {}
        before = str(recorded["launchTemplate"].get("version", "$Default")) if recorded.get("launchTemplate") else ""
        moving = {"$Default": details["DefaultVersionNumber"], "$Latest": details["LatestVersionNumber"]}
        shown = before if str(moving.get(before)) == version else version
        return {"launchTemplate": {"id": template, "name": details["LaunchTemplateName"], "version": shown}}

    @staticmethod
    def _read_user_data(aws: Aws, id: str, recorded: State) -> State:
        encoded = _read_attribute(aws.client("ec2"), id, "userData", "UserData")
        if not encoded:
            return {}
        if recorded.get("userDataBase64"):
            return {"userDataBase64": encoded}
        return {"userData": base64.b64decode(encoded).decode(errors="replace")}

    @staticmethod
    def _read_cpu_credits(aws: Aws, instance: dict[str, Any]) -> State:
        ec2 = aws.client("ec2")
        kind = ec2.describe_instance_types(InstanceTypes=[instance["InstanceType"]])["InstanceTypes"][0]
        if not kind["BurstablePerformanceSupported"]:
            return {}
        ids = [instance["InstanceId"]]
        credits = ec2.describe_instance_credit_specifications(InstanceIds=ids)["InstanceCreditSpecifications"]
        return {"creditSpecification": {"cpuCredits": credits[0]["CpuCredits"]}} if credits else {}

    @contextmanager
    def _stop_temporarily(self, aws: Aws, id: str) -> Iterator[None]:
        ec2 = aws.client("ec2")
        ec2.stop_instances(InstanceIds=[id])
        aws.wait(f"{self.title} ({id}) stop", lambda: self._describe_if_in_state(aws, id, "stopped"), timeout=STOPPED)
        yield
        ec2.start_instances(InstanceIds=[id])
        aws.wait(f"{self.title} ({id}) start", lambda: self._describe_if_in_state(aws, id, "running"), timeout=STARTED)

    def _describe_if_in_state(self, aws: Aws, id: str, state: str) -> dict[str, Any] | None:
        instance = self._describe(aws, id)
        if instance is None or instance["State"]["Name"] == "shutting-down":
            raise Failed(f"waiting for {self.title} ({id}): unexpected state 'terminated', wanted target '{state}'")
        return instance if instance["State"]["Name"] == state else None


def _read_attribute(ec2: Any, id: str, attribute: str, key: str) -> Any:
    """Return the value of an instance attribute, or None if it is not set."""
    return ec2.describe_instance_attribute(InstanceId=id, Attribute=attribute).get(key, {}).get("Value")


def _get_plain_user_data(args: Args) -> str:
    return str(args.get("userData") or base64.b64decode(args.get("userDataBase64") or "").decode())
