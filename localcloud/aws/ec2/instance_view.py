"""Instances in the format of DescribeInstances."""

from typing import Any

from localcloud.aws.ec2 import interface_calls, tagging
from localcloud.aws.ec2.instances import STATES, LaunchedInstance


def describe_instance(instance: Any) -> dict[str, Any]:
    backend = instance.ec2_backend
    primary = instance.nics.get(0)
    is_live = instance.state not in ("shutting-down", "terminated")
    view: dict[str, Any] = {
        "InstanceId": instance.id,
        "ImageId": instance.image_id,
        "InstanceType": instance.instance_type,
        "KeyName": instance.key_name,
        "AmiLaunchIndex": instance.ami_launch_index,
        "LaunchTime": instance.launch_time,
        "ClientToken": instance.client_token or "",
        "State": {"Name": instance.state, "Code": STATES[instance.state]},
        "StateTransitionReason": instance._reason,
        "StateReason": _describe_state_reason(instance),
        "Placement": _describe_placement(instance),
        "Monitoring": {"State": "enabled" if instance.monitored else "disabled"},
        "SubnetId": instance.subnet_id if instance.nics else None,
        "VpcId": primary.subnet.vpc_id if primary else None,
        "PrivateIpAddress": instance.private_ip_address if instance.nics else None,
        "PrivateDnsName": instance.private_dns_name if instance.nics else "",
        "PublicIpAddress": primary.public_ip if primary else None,
        "PublicDnsName": interface_calls.build_public_dns_name(backend.region_name, primary.public_ip)
        if primary and primary.public_ip
        else "",
        "SourceDestCheck": instance.source_dest_check if is_live else None,
        "SecurityGroups": interface_calls.describe_groups(primary) if primary else [],
        "NetworkInterfaces": [_describe_interface(nic) for nic in instance.nics.values()],
        "Architecture": instance.architecture,
        "Hypervisor": instance.hypervisor,
        "VirtualizationType": "hvm",
        "RootDeviceName": instance.root_device_name,
        "RootDeviceType": "ebs",
        "BlockDeviceMappings": [_describe_volume(device, block) for device, block in instance.get_block_device_mapping],
        "EbsOptimized": bool(instance.ebs_optimized),
        "EnaSupport": True,
        "IamInstanceProfile": _describe_profile(instance),
        "InstanceLifecycle": instance.lifecycle,
        "MetadataOptions": _describe_metadata_options(instance.metadata_options),
        "HibernationOptions": {"Configured": bool((instance.hibernation_options or {}).get("Configured"))},
        "EnclaveOptions": {"Enabled": False},
        "MaintenanceOptions": {"AutoRecovery": "default"},
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "UsageOperationUpdateTime": instance.launch_time,
        "Tags": tagging.describe_tags(backend, instance.id),
    }
    return view | _describe_launch(instance) if isinstance(instance, LaunchedInstance) else view


def _describe_launch(instance: LaunchedInstance) -> dict[str, Any]:
    """Return the response members that moto's own instances lack."""
    specification = instance.capacity_reservation_specification
    if instance.market == "spot":
        specification = None
    elif not specification:
        specification = {"CapacityReservationPreference": "open"}
    is_block = instance.market == "capacity-block"
    return {
        "CapacityReservationId": instance.capacity_reservation_id,
        "CapacityBlockId": f"cb-{str(instance.capacity_reservation_id).removeprefix('cr-')}" if is_block else None,
        "CapacityReservationSpecification": specification,
        "SpotInstanceRequestId": instance.spot_instance_request_id,
        "CpuOptions": instance.cpu_options,
        "PrivateDnsNameOptions": instance.private_dns_name_options
        or {"HostnameType": "ip-name", "EnableResourceNameDnsARecord": False, "EnableResourceNameDnsAAAARecord": False},
    }


def _describe_placement(instance: Any) -> dict[str, Any]:
    return {
        "AvailabilityZone": instance.placement.zone,
        "GroupName": instance.placement.group_name,
        "GroupId": getattr(instance, "placement_group_id", None),
        "PartitionNumber": getattr(instance, "partition_number", None),
        "Tenancy": instance.placement.tenancy,
        "HostId": instance.placement.host_id,
    }


def _describe_state_reason(instance: Any) -> dict[str, str] | None:
    reason = instance.state_reason
    return {"Code": reason.code, "Message": reason.message} if reason.code else None


def _describe_interface(nic: Any) -> dict[str, Any]:
    return {
        "NetworkInterfaceId": nic.id,
        "InterfaceType": nic.interface_type,
        "Status": "in-use",
        "Description": nic.description,
        "OwnerId": nic.owner_id,
        "SubnetId": nic.subnet.id,
        "VpcId": nic.subnet.vpc_id,
        "MacAddress": nic.mac_address,
        "PrivateIpAddress": nic.private_ip_address,
        "PrivateDnsName": getattr(nic, "private_dns_name", None),
        "PrivateIpAddresses": interface_calls.describe_addresses(nic),
        "Ipv6Addresses": [{"Ipv6Address": address} for address in nic.ipv6_addresses],
        "SourceDestCheck": nic.source_dest_check,
        "Groups": interface_calls.describe_groups(nic),
        "Association": interface_calls.describe_association(nic),
        "Attachment": interface_calls.describe_attachment(nic),
    }


def _describe_volume(device: str, block: Any) -> dict[str, Any]:
    ebs = {
        "VolumeId": block.volume_id,
        "Status": "attached",
        "AttachTime": block.attach_time,
        "DeleteOnTermination": bool(block.delete_on_termination),
    }
    return {"DeviceName": device, "Ebs": ebs}


def _describe_profile(instance: Any) -> dict[str, str] | None:
    association = instance.ec2_backend.iam_instance_profile_associations.get(instance.id)
    if association is None:
        return None
    return {"Arn": association.iam_instance_profile.arn, "Id": association.iam_instance_profile.id}


def _describe_metadata_options(options: Any) -> dict[str, Any]:
    return {
        "State": options.state,
        "HttpTokens": options.http_tokens,
        "HttpPutResponseHopLimit": options.http_put_response_hop_limit,
        "HttpEndpoint": options.http_endpoint,
        "HttpProtocolIpv6": options.http_protocol_ipv6,
        "InstanceMetadataTags": options.instance_metadata_tags,
    }
