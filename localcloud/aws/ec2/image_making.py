"""AMIs that an account creates from its instances: CreateImage, CopyImage, DeregisterImage.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateImage.html
"""

import re
from functools import partial
from typing import Any

from localcloud.aws import durations, events
from localcloud.aws.call import Call
from localcloud.aws.ec2 import image_calls, instance_calls, tagging
from localcloud.aws.ec2.refusals import build_missing_parameter_error, stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

_NAME = re.compile(r"[\w().\-/'@ \[\]]{3,128}", re.ASCII)


@operation("ec2", "CreateImage")
def create_image(call: Call) -> dict[str, Any]:
    backend, params = call.backend, call.params
    if not params.get("Name"):
        raise build_missing_parameter_error("name")
    instance = instance_calls.find_instances(backend, [params["InstanceId"]])[0]
    if instance.state not in ("running", "stopped", "stopping"):
        raise AwsError(
            "IncorrectState", f"Instance '{instance.id}' is not 'running' or 'stopped'; no image can be created from it."
        )
    _check_name(backend, params["Name"])
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "image", "snapshot")
    stop_dry_run(call)
    image = backend.create_image(instance.id, params["Name"], params.get("Description", ""), [])
    image.root_device_name, image.root_device_type = instance.root_device_name, "ebs"
    image.hypervisor, image.imds_support = "xen", params.get("ImdsSupport")
    image.image_location = f"{call.account}/{image.name}"
    return _start_creation(backend, image, tags, {"SourceInstanceId": instance.id, "NoReboot": bool(params.get("NoReboot"))})


@operation("ec2", "CopyImage")
def copy_image(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CopyImage.html"""
    backend, params = call.backend, call.params
    source = image_calls.find_launchable_image(call.backend_of("ec2", params["SourceRegion"]), params["SourceImageId"])
    _check_name(backend, params["Name"])
    tags = tagging.read_requested_tags(params.get("TagSpecifications"), "image", "snapshot")
    stop_dry_run(call)
    image = backend.copy_image(source.id, params["SourceRegion"], params["Name"], params.get("Description", ""))
    for attribute in ("root_device_name", "root_device_type", "hypervisor", "image_type", "boot_mode"):
        setattr(image, attribute, getattr(source, attribute))
    image.imds_support = getattr(source, "imds_support", None)
    image.image_location = f"{call.account}/{image.name}"
    if params.get("CopyImageTags"):
        tags["image"] = {**tagging.read_tags(source.ec2_backend, source.id), **tags.get("image", {})}
    return _start_creation(backend, image, tags, {"SourceImageId": source.id})


@operation("ec2", "ModifyImageAttribute")
def modify_image_attribute(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyImageAttribute.html"""
    image = _find_own_image(call)
    support = (call.params.get("ImdsSupport") or {}).get("Value")
    if support not in (None, "v2.0"):
        raise AwsError("InvalidParameterValue", f"Invalid value '{support}' for imdsSupport. Valid value is v2.0.")
    stop_dry_run(call)
    image.imds_support = support or getattr(image, "imds_support", None)
    image.description = (call.params.get("Description") or {}).get("Value", image.description)
    return call.moto()


@operation("ec2", "DeregisterImage")
def deregister_image(call: Call) -> dict[str, Any]:
    backend = call.backend
    image = _find_own_image(call)
    stop_dry_run(call)
    durations.cancel_transitions(image)
    answer = call.moto()
    tagging.delete_resource_tags(backend, image.id)
    events.publish_event(events.Event("image", "gone", image.id, call.region, call.account))
    return answer


def _find_own_image(call: Call) -> Any:
    image = image_calls.find_image(call.backend, call.params["ImageId"])
    if image.owner_id != call.account:
        raise AwsError("AuthFailure", f"Not authorized for image: '{image.id}'", 403)
    return image


def _start_creation(backend: Any, image: Any, tags: dict[str, dict[str, str]], extra: dict[str, Any]) -> dict[str, Any]:
    """Set the AMI to pending now, and to available or failed once the realizer is done."""
    image.add_tags(tags.get("image", {}))
    image.ebs_snapshot.add_tags(tags.get("snapshot", {}))
    event = events.Event(
        "image",
        "created",
        image.id,
        backend.region_name,
        backend.account_id,
        {**image_calls.describe_image(backend, image), **extra},
    )
    durations.schedule(
        image,
        "state",
        "pending",
        partial(_get_final_state, image),
        "ec2-image",
        gate=partial(_is_created, image),
        fail=partial(_mark_failed, image),
    )
    events.publish_event(event)
    return {"ImageId": image.id}


def _is_created(image: Any) -> bool:
    return _read_progress(image).done


def _get_final_state(image: Any) -> str:
    if problem := _read_progress(image).problem:
        _mark_failed(image, problem)
    return "failed" if problem else "available"


def _mark_failed(image: Any, reason: str) -> None:
    image.state, image.state_reason = "failed", reason


def _read_progress(image: Any) -> events.Progress:
    backend = image.ec2_backend
    return events.query_progress("image", image.id, backend.region_name, backend.account_id)


def _check_name(backend: Any, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise AwsError(
            "InvalidAMIName.Malformed",
            "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, '(', ')', '.', '-', '/' "
            "and '_'",
        )
    duplicate = next(
        (image for image in backend.amis.values() if image.name == name and image.owner_id == backend.account_id), None
    )
    if duplicate is not None:
        raise AwsError("InvalidAMIName.Duplicate", f"AMI name {name} is already in use by AMI {duplicate.id}")
