"""DescribeImages. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html"""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2 import tagging
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


def find_image(backend: Any, image_id: str) -> Any:
    """Return moto's object for an image. If the id is invalid, raise the same error as a launch."""
    if not image_id.startswith("ami-"):
        raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
    image = backend.amis.get(image_id)
    if image is None:
        raise AwsError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
    return image


def find_launchable_image(backend: Any, image_id: str) -> Any:
    image = find_image(backend, image_id)
    if image.state != "available":
        raise AwsError("InvalidAMIID.Unavailable", f"The image id '[{image_id}]' is no longer available")
    return image


def format_creation_date(image: Any) -> str:
    text: str = image.creation_date.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return text


@operation("ec2", "DescribeImages")
def describe_images(call: Call) -> dict[str, Any]:
    backend, ids, owners = call.backend, call.params.get("ImageIds"), call.params.get("Owners")
    images = [find_image(backend, image_id) for image_id in ids] if ids else list(backend.amis.values())
    if owners:
        owner_ids = {call.account if owner == "self" else owner for owner in owners}
        images = [image for image in images if {image.owner_id, image.owner_alias} & owner_ids]
    users = call.params.get("ExecutableUsers")
    if users:
        images = [image for image in images if _can_launch(image, {call.account if user == "self" else user for user in users})]
    images = filter_items(
        images,
        call.params.get("Filters"),
        {
            "architecture": lambda image: image.architecture,
            "creation-date": format_creation_date,
            "description": lambda image: image.description,
            "ena-support": lambda image: True,
            "hypervisor": lambda image: image.hypervisor,
            "image-id": lambda image: image.id,
            "image-type": lambda image: image.image_type,
            "is-public": lambda image: image.is_public,
            "name": lambda image: image.name,
            "owner-alias": lambda image: image.owner_alias,
            "owner-id": lambda image: image.owner_id,
            "platform": lambda image: image.platform,
            "root-device-name": lambda image: image.root_device_name,
            "root-device-type": lambda image: image.root_device_type,
            "source-instance-id": lambda image: image.source_instance_id,
            "state": lambda image: image.state,
            "virtualization-type": lambda image: image.virtualization_type,
        },
        lambda image: tagging.read_tags(backend, image.id),
    )
    stop_dry_run(call)
    images, token = select_page(images, call.params)
    return {"Images": [describe_image(backend, image) for image in images], **token}


def _can_launch(image: Any, users: set[str]) -> bool:
    if image.is_public:
        return True
    return any(permission.get("UserId") in users for permission in image.launch_permissions)


def describe_image(backend: Any, image: Any) -> dict[str, Any]:
    """Return the image in the format of DescribeImages."""
    return {
        "ImageId": image.id,
        "Name": image.name,
        "Description": image.description,
        "Architecture": image.architecture,
        "CreationDate": format_creation_date(image),
        "ImageLocation": image.image_location,
        "ImageType": image.image_type,
        "ImageOwnerAlias": image.owner_alias,
        "OwnerId": image.owner_id,
        "Public": image.is_public,
        "State": image.state,
        "Hypervisor": image.hypervisor,
        "VirtualizationType": image.virtualization_type,
        "RootDeviceName": image.root_device_name,
        "RootDeviceType": image.root_device_type,
        "EnaSupport": True,
        "ImdsSupport": getattr(image, "imds_support", None),
        "SriovNetSupport": image.sriov,
        "BootMode": image.boot_mode,
        "Platform": image.platform,
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "SourceInstanceId": image.source_instance_id,
        "BlockDeviceMappings": image.block_device_mappings,
        "Tags": tagging.describe_tags(backend, image.id),
    }
