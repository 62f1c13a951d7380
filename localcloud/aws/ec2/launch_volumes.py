"""Volumes of a launch: the image's volumes, overridden and extended by the launch's block device mappings.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_EbsBlockDevice.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.aws.ec2 import ebs_defaults
from localcloud.aws.ec2.refusals import build_invalid_value_error, build_missing_parameter_error
from localcloud.aws.errors import AwsError

# Maps a volume type to its minimum and maximum size in GiB:
# https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
SIZES = {
    "gp2": (1, 16384),
    "gp3": (1, 65536),
    "io1": (4, 16384),
    "io2": (4, 65536),
    "st1": (125, 16384),
    "sc1": (125, 16384),
    "standard": (1, 1024),
}
PROVISIONED_IOPS = ("io1", "io2")


@dataclass(frozen=True)
class VolumePlan:
    """Volume planned for each instance of a launch."""

    device: str
    size: int
    type: str
    encrypted: bool
    kms_key: str | None
    iops: int | None
    throughput: int | None
    delete_on_termination: bool


def plan(backend: Any, data: Mapping[str, Any], image: Any) -> list[VolumePlan]:
    """Return the planned volumes of each instance, root volume first. Raise AWS's errors for invalid data."""
    mappings = {item["DeviceName"]: dict(item.get("Ebs", {})) for item in image.block_device_mappings}
    for item in data.get("BlockDeviceMappings", ()):
        name = item.get("DeviceName")
        if not name:
            raise build_missing_parameter_error("deviceName")
        if "NoDevice" in item:
            mappings.pop(name, None)
        elif str(item.get("VirtualName", "")).startswith("ephemeral"):
            continue  # NVMe instance store volumes need no mapping
        elif "Ebs" in item:
            mappings[name] = _merge_settings(mappings.get(name), item["Ebs"])
        else:
            raise build_missing_parameter_error("ebs")
    return [_plan_volume(backend, name, ebs, is_root=name == image.root_device_name) for name, ebs in mappings.items()]


def _merge_settings(of_image: Mapping[str, Any] | None, ebs: Mapping[str, Any]) -> dict[str, Any]:
    if of_image is None:
        return dict(ebs)
    least, size = of_image.get("VolumeSize"), ebs.get("VolumeSize")
    if least and size and size < least:
        snapshot = of_image.get("SnapshotId")
        raise AwsError(
            "InvalidBlockDeviceMapping",
            f"Volume of size {size}GB is smaller than snapshot '{snapshot}', expect size >= {least}GB",
        )
    return {**of_image, **ebs}


def _plan_volume(backend: Any, name: str, ebs: Mapping[str, Any], is_root: bool) -> VolumePlan:
    kind, size = ebs.get("VolumeType") or "gp2", ebs.get("VolumeSize")
    if kind not in SIZES:
        raise build_invalid_value_error(kind, "volumeType", "Unknown volume type")
    if size is None and ebs.get("SnapshotId"):
        size = backend.get_snapshot(ebs["SnapshotId"]).volume.size
    if size is None:
        raise build_missing_parameter_error("size or snapshotId")
    least, most = SIZES[kind]
    if not least <= size <= most:
        raise build_invalid_value_error(
            size, "volumeSize", f"The size of a {kind} volume must be between {least} and {most} GiB."
        )
    encrypted = ebs.get("Encrypted", False) or backend.ebs_encryption_by_default
    if ebs.get("KmsKeyId") and not encrypted:
        raise AwsError("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
    _check_performance(kind, ebs)
    return VolumePlan(
        device=name,
        size=size,
        type=kind,
        encrypted=encrypted,
        kms_key=ebs.get("KmsKeyId"),
        iops=ebs.get("Iops"),
        throughput=ebs.get("Throughput", 125 if kind == "gp3" else None),
        delete_on_termination=ebs.get("DeleteOnTermination", is_root),
    )


def _check_performance(kind: str, ebs: Mapping[str, Any]) -> None:
    iops, throughput = ebs.get("Iops"), ebs.get("Throughput")
    if kind in PROVISIONED_IOPS and iops is None:
        raise build_missing_parameter_error("iops")
    if iops is not None and kind not in (*PROVISIONED_IOPS, "gp3"):
        raise AwsError("InvalidParameterCombination", f"The parameter iops is not supported for {kind} volumes.")
    if throughput is not None and kind != "gp3":
        raise AwsError("InvalidParameterCombination", f"The parameter throughput is not supported for {kind} volumes.")
    if throughput is not None and not 125 <= throughput <= 2000:
        raise build_invalid_value_error(throughput, "throughput", "It must be between 125 and 2000 MiB/s.")
    if kind == "gp3" and iops is not None and not 3000 <= iops <= 80000:
        raise build_invalid_value_error(iops, "iops", "It must be between 3000 and 80000.")


def create(backend: Any, instance: Any, item: VolumePlan, tags: dict[str, str]) -> None:
    """Create a planned volume and attach it to the instance."""
    volume = backend.create_volume(
        size=item.size,
        zone_name=instance.placement.zone,
        encrypted=item.encrypted,
        kms_key_id=(item.kms_key or ebs_defaults.get_default_key(backend)) if item.encrypted else None,
        volume_type=item.type,
        iops=item.iops,
        throughput=item.throughput,
    )
    volume.add_tags(tags)
    backend.attach_volume(volume.id, instance.id, item.device, item.delete_on_termination)
