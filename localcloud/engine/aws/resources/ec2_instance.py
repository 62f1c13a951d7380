"""EC2 instances that are defined entirely by a launch template, except for their tags."""

from functools import partial
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.ec2_tags import TAGS, read_tags, tag_specification, update_tags
from localcloud.engine.aws.resources.requests import MINUTE, arn, client_token, completing, only, retry, to_state, unless_gone

CREATED = 10 * MINUTE
DELETED = 20 * MINUTE
PROFILE_KNOWN = 2 * MINUTE
ABSENT = "InvalidInstanceID.NotFound"


@register
class Instance(Resource):
    """EC2 instance. A new launch template version causes a replacement only if the program sets `replace_on_changes`.

    Without `replace_on_changes`, the official provider's behavior depends on the fields that the new version changes.
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
    props = {
        "launchTemplate": Prop(fields={"id": Prop(replace=True), "name": Prop(replace=True), "version": Prop()}),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        ec2, template = aws.client("ec2"), args["launchTemplate"]
        named = {"LaunchTemplateId": template["id"]} if template.get("id") else {"LaunchTemplateName": template["name"]}
        launch = partial(
            ec2.run_instances,
            MinCount=1,
            MaxCount=1,
            ClientToken=client_token(),
            LaunchTemplate={**named, "Version": str(template.get("version") or "$Default")},
            TagSpecifications=tag_specification("instance", args),
        )
        # A new instance profile takes some time to propagate to EC2:
        # https://github.com/hashicorp/terraform-provider-aws (resourceInstanceCreate)
        transient, words = "InvalidParameterValue", "nvalid IAM Instance Profile"
        made = retry(aws, f"{self.title} create", launch, transient, containing=words, timeout=PROFILE_KNOWN)
        id = str(made["Instances"][0]["InstanceId"])
        with completing(id):
            aws.wait(f"{self.title} ({id}) create", lambda: self._running(aws, id), timeout=CREATED)
        return id

    def read(self, aws: Aws, id: str, known: State) -> State | None:
        instance = self._describe(aws, id)
        if instance is None:
            return None
        primary = next((one for one in instance["NetworkInterfaces"] if one["Attachment"]["DeviceIndex"] == 0), None)
        return {
            **to_state(instance, self.OUTPUTS),
            **read_tags(instance.get("Tags")),
            **({"launchTemplate": known["launchTemplate"]} if known.get("launchTemplate") else {}),
            **({"primaryNetworkInterfaceId": primary["NetworkInterfaceId"]} if primary else {}),
            "arn": arn(aws, f"instance/{id}"),
            "availabilityZone": instance["Placement"]["AvailabilityZone"],
            "instanceState": instance["State"]["Name"],
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "launchTemplate" in changed:
            raise Failed("changing an instance's launch template in place is not emulated; use replace_on_changes")
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with unless_gone(ABSENT):
            aws.client("ec2").terminate_instances(InstanceIds=[id])
        gone = lambda: True if self._describe(aws, id) is None else None  # noqa: E731
        aws.wait(f"{self.title} ({id}) delete", gone, timeout=DELETED)

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        """Return the instance, or None if it is terminated. EC2 still lists terminated instances for an hour."""
        ec2 = aws.client("ec2")
        found = only(lambda: ec2.describe_instances(InstanceIds=[id])["Reservations"], ABSENT)
        instance = found["Instances"][0] if found else None
        return None if instance is None or instance["State"]["Name"] == "terminated" else instance

    def _running(self, aws: Aws, id: str) -> dict[str, Any] | None:
        instance = self._describe(aws, id)
        if instance is None or instance["State"]["Name"] == "shutting-down":
            raise Failed(f"waiting for {self.title} ({id}) create: unexpected state 'terminated', wanted target 'running'")
        return instance if instance["State"]["Name"] == "running" else None
