"""Launch template and instance profile that EKS creates for a node group, based on the user's launch template.

https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-basics
https://awslabs.github.io/amazon-eks-ami/nodeadm/ for the boot configuration
"""

import base64
from copy import deepcopy
from email import message_from_bytes
from email.message import Message
from typing import Any

import yaml

from localcloud.aws.ec2 import launch_templates
from localcloud.aws.eks.node_groups.image import find_image_id
from localcloud.aws.eks.node_groups.tags import CLUSTER_TAG, NODE_GROUP_TAG
from localcloud.aws.eks.state import Cluster, Record, UserTemplate

NODE_CONFIG = "application/node.eks.aws"
_BOUNDARY = "//"
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


def build_tags(cluster: Cluster, name: str) -> dict[str, str]:
    """Return the tags that EKS sets on the resources it creates for a node group."""
    return {CLUSTER_TAG: cluster.name, NODE_GROUP_TAG: name}


def create_profile(iam: Any, cluster: Cluster, record: Record, name: str) -> None:
    role = record["nodeRole"].rsplit("/", 1)[-1]
    tags = [{"Key": key, "Value": value} for key, value in build_tags(cluster, record["nodegroupName"]).items()]
    iam.create_instance_profile(name, "/", [role], tags)


def delete_profile(iam: Any, name: str) -> None:
    if name in iam.instance_profiles:
        iam.delete_instance_profile(name, ignore_attached_roles=True)


def create_template(ec2: Any, cluster: Cluster, record: Record, name: str, data: Record) -> str:
    """Create EKS's launch template and return its id."""
    tags = {"launch-template": build_tags(cluster, record["nodegroupName"])}
    template = ec2.create_launch_template(name, "", launch_templates.to_moto_format(data), tags)
    return str(template.id)


def add_version(template: Any, data: Record) -> None:
    """Create a version of EKS's launch template and make it the default."""
    template.default_version_number = template.create_version(launch_templates.to_moto_format(data), "").number


def delete_template(ec2: Any, template_id: str) -> None:
    if template_id in ec2.launch_templates:
        launch_templates.forget(ec2, ec2.launch_templates[template_id])


def build_template_data(cluster: Cluster, record: Record, user: UserTemplate, types: list[str], profile: str) -> Record:
    """Return the user's launch template data with EKS's additions.

    EKS sets the AMI, instance type, profile, cluster security group, user data and tags.
    """
    data = deepcopy(user.data)
    data["InstanceType"] = types[0]
    data["IamInstanceProfile"] = {"Name": profile}
    if not data.get("NetworkInterfaces") and not data.get("SecurityGroupIds") and not data.get("SecurityGroups"):
        data["SecurityGroupIds"] = [cluster.record["resourcesVpcConfig"]["clusterSecurityGroupId"]]
    for interface in data.get("NetworkInterfaces", []):
        # Nodes reach the control plane through the cluster security group. EKS adds this group only if the user's
        # launch template sets no security groups.
        if not interface.get("Groups"):
            interface["Groups"] = [cluster.record["resourcesVpcConfig"]["clusterSecurityGroupId"]]
    if not user.image_id:
        data["ImageId"] = find_image_id(cluster.region, record["amiType"], record["version"])
        data["UserData"] = merge_user_data(cluster, record, data["ImageId"], data.get("UserData"))
    if user.id is None:
        disk = {"VolumeSize": record["diskSize"], "VolumeType": "gp3", "DeleteOnTermination": True}
        data["BlockDeviceMappings"] = [{"DeviceName": "/dev/xvda", "Ebs": disk}]
        data["MetadataOptions"] = {"HttpTokens": "required", "HttpPutResponseHopLimit": 2}
    data["TagSpecifications"] = _merge_tag_specifications(
        data.get("TagSpecifications", []), build_tags(cluster, record["nodegroupName"])
    )
    return data


def _merge_tag_specifications(specifications: list[Record], own: dict[str, str]) -> list[Record]:
    kinds = {item["ResourceType"]: {tag["Key"]: tag.get("Value", "") for tag in item.get("Tags", [])} for item in specifications}
    for kind in ("instance", "volume"):
        kinds[kind] = {**kinds.get(kind, {}), **own}
    return [
        {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        for kind, tags in kinds.items()
    ]


def merge_user_data(cluster: Cluster, record: Record, image: str, user_document: str | None) -> str:
    """Return the user data as a base64-encoded MIME document: the user's parts, then EKS's NodeConfig."""
    parts = (
        [(part.get_content_type(), _read_part_text(part)) for part in _list_mime_parts(user_document)] if user_document else []
    )
    parts.append((NODE_CONFIG, yaml.safe_dump(build_node_config(cluster, record, image), sort_keys=False)))
    body = "".join(f"--{_BOUNDARY}\nContent-Type: {kind}\n\n{text}\n" for kind, text in parts)
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n'
    return base64.b64encode(f"{head}{body}--{_BOUNDARY}--\n".encode()).decode()


def build_node_config(cluster: Cluster, record: Record, image: str) -> Record:
    labels = {
        "eks.amazonaws.com/nodegroup-image": image,
        "eks.amazonaws.com/capacityType": record["capacityType"],
        "eks.amazonaws.com/nodegroup": record["nodegroupName"],
        **record["labels"],
    }
    if template := record.get("launchTemplate"):
        labels["eks.amazonaws.com/sourceLaunchTemplateId"] = template["id"]
        labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = template["version"]
    flags = ["--node-labels=" + ",".join(f"{key}={value}" for key, value in labels.items())]
    if record["taints"]:
        taints = (f"{taint['key']}={taint.get('value', '')}:{_EFFECTS[taint['effect']]}" for taint in record["taints"])
        flags.append("--register-with-taints=" + ",".join(taints))
    return {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": cluster.name,
                "apiServerEndpoint": cluster.endpoint.url,
                "certificateAuthority": cluster.endpoint.certificate_authority,
                "cidr": cluster.record["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
            },
            "kubelet": {"flags": flags},
        },
    }


def _list_mime_parts(user_data: str) -> list[Message]:
    message = message_from_bytes(base64.b64decode(user_data))
    return [part for part in message.walk() if not part.is_multipart()]


def _read_part_text(part: Message) -> str:
    payload = part.get_payload(decode=True)
    return payload.decode() if isinstance(payload, bytes) else str(payload)
