"""Create file systems that users would have created on AWS before they create stacks."""

import secrets
from typing import Any

from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.fsx import capacity, network
from localcloud.aws.fsx.states import FileSystem, now

_GIB = 1200


def seed_file_system(region: str, file_system_id: str, subnet_id: str, cidr: str) -> None:
    """Create a SCRATCH_2 file system that clients in the CIDR can mount."""
    ec2, fsx = backend_of("ec2", ACCOUNT, region), backend_of("fsx", ACCOUNT, region)
    subnet = next(zone[subnet_id] for zone in ec2.subnets.values() if subnet_id in zone)
    group = ec2.create_security_group(f"lustre-{file_system_id}", "Lustre file system", vpc_id=subnet.vpc_id)
    for first, last in network.PORTS:
        ec2.authorize_security_group_ingress(group.id, "tcp", str(first), str(last), [{"CidrIp": cidr}])
    interfaces = network.create_interfaces(ec2, subnet, [group.id], capacity.count_network_interfaces(_GIB), file_system_id)
    arn = f"arn:aws:fsx:{region}:{ACCOUNT}:file-system/{file_system_id}"
    record: dict[str, Any] = {
        "OwnerId": ACCOUNT,
        "CreationTime": now(),
        "FileSystemId": file_system_id,
        "FileSystemType": "LUSTRE",
        "FileSystemTypeVersion": "2.15",
        "StorageCapacity": _GIB,
        "StorageType": "SSD",
        "VpcId": subnet.vpc_id,
        "SubnetIds": [subnet_id],
        "NetworkInterfaceIds": interfaces,
        "DNSName": f"{file_system_id}.fsx.{region}.amazonaws.com",
        "ResourceARN": arn,
        "LustreConfiguration": {
            "DeploymentType": "SCRATCH_2",
            "MountName": secrets.token_hex(4),
            "DataCompressionType": "NONE",
            "WeeklyMaintenanceStartTime": "7:05:00",
        },
    }
    fsx.file_systems[file_system_id] = FileSystem(file_system_id, arn, record, "", "AVAILABLE")
