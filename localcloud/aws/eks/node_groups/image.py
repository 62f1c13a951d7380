"""AMI and instance types of a node group's nodes.

https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
(amiType, version, releaseVersion, instanceTypes)
"""

from localcloud.aws import images
from localcloud.aws.ec2 import instance_types as ec2_types
from localcloud.aws.eks import versions
from localcloud.aws.eks.errors import build_invalid_parameter_error, build_invalid_request_error, build_not_emulated_error
from localcloud.aws.eks.state import Cluster, Record, UserTemplate

DEFAULT_INSTANCE_TYPE = "t3.medium"
INSTANCE_TYPES_LIMIT = 20

AMI_TYPES = {
    "AL2023_x86_64_STANDARD": ("x86_64", "standard"),
    "AL2023_ARM_64_STANDARD": ("arm64", "standard"),
    "AL2023_x86_64_NVIDIA": ("x86_64", "nvidia"),
    "AL2023_ARM_64_NVIDIA": ("arm64", "nvidia"),
    "AL2023_x86_64_NEURON": ("x86_64", "neuron"),
}
"""Maps an AMI type to the architecture and variant of the AMI."""

_LAST_OF_AL2 = 32
_ELSEWHERE = ("BOTTLEROCKET_", "WINDOWS_")


def choose_instance_types(requested: list[str], template: UserTemplate, region: str) -> list[str]:
    """Return the instance types of the nodes, from the node group or its launch template."""
    if requested and template.instance_type:
        raise build_invalid_request_error("Cannot specify instance types in launch template and API request")
    if len(requested) > INSTANCE_TYPES_LIMIT:
        raise build_invalid_parameter_error(f"At most {INSTANCE_TYPES_LIMIT} instance types can be specified")
    types = requested or [template.instance_type or DEFAULT_INSTANCE_TYPE]
    unknown = [name for name in types if not ec2_types.is_offered_in(region, name)]
    if unknown:
        raise build_invalid_parameter_error(f"The following supplied instance types do not exist: [{', '.join(unknown)}]")
    return types


def choose_ami_type(requested: str | None, template: UserTemplate, types: list[str], version: str) -> str:
    """Return the AMI type, which is CUSTOM if and only if the launch template specifies an AMI."""
    if template.image_id:
        if requested not in (None, "CUSTOM"):
            raise build_invalid_parameter_error(
                "You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template."
            )
        return "CUSTOM"
    if requested == "CUSTOM":
        raise build_invalid_parameter_error(
            "You must specify an image id in your launch template, when specifying AMI Type CUSTOM."
        )
    ami_type = requested or _choose_default_ami_type(types[0])
    if ami_type.startswith("AL2_"):
        if versions.parse_minor_version(version) > _LAST_OF_AL2:
            raise build_invalid_parameter_error(
                f"AMI Type {ami_type} is only supported for kubernetes versions 1.{_LAST_OF_AL2} or earlier"
            )
        raise build_not_emulated_error(f"AMI type {ami_type}")
    if ami_type.startswith(_ELSEWHERE):
        raise build_not_emulated_error(f"AMI type {ami_type}")
    if ami_type not in AMI_TYPES:
        raise build_invalid_parameter_error(f"Invalid AMI type: {ami_type}")
    unfit = [name for name in types if not _is_ami_compatible(name, ami_type)]
    if unfit:
        raise build_invalid_parameter_error(f"[{', '.join(unfit)}] is not a valid instance type for requested amiType {ami_type}")
    return ami_type


def _choose_default_ami_type(instance_type: str) -> str:
    facts = ec2_types.find_type_facts(instance_type)
    return "AL2023_ARM_64_STANDARD" if facts is not None and "arm64" in facts.architectures else "AL2023_x86_64_STANDARD"


def _is_ami_compatible(instance_type: str, ami_type: str) -> bool:
    facts = ec2_types.find_type_facts(instance_type)
    architecture, variant = AMI_TYPES[ami_type]
    return facts is not None and architecture in facts.architectures and (variant != "nvidia" or facts.gpus > 0)


def find_image_id(region: str, ami_type: str, version: str) -> str:
    """Return the id of EKS's AMI for these nodes, from the SSM parameter that EKS publishes."""
    architecture, variant = AMI_TYPES[ami_type]
    path = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/recommended/image_id"
    return images.list_ssm_parameters(region)[path]


def find_release_version(version: str) -> str:
    return f"{versions.VERSIONS[version].patch}-{images.EKS_RELEASE}"


def check_release_version(requested: str | None, version: str) -> None:
    if requested is not None and requested != find_release_version(version):
        raise build_invalid_parameter_error(
            f"Requested release version {requested} is not valid for kubernetes version {version}."
        )


def reject_versions_with_custom_ami(params: Record) -> None:
    for field in ("version", "releaseVersion"):
        if params.get(field):
            raise build_invalid_parameter_error(f"You cannot specify the field {field} when using custom AMIs.")


def choose_versions(params: Record, cluster: Cluster, ami_type: str, template: UserTemplate) -> Record:
    """Return `version` and `releaseVersion` of a new node group. EKS accepts only the cluster's Kubernetes version."""
    if ami_type == "CUSTOM":
        reject_versions_with_custom_ami(params)
        return {"version": cluster.version, "releaseVersion": template.image_id}
    version = params.get("version", cluster.version)
    if version != cluster.version:
        raise build_invalid_parameter_error(
            f"Requested Nodegroup version {version} is not the cluster's version {cluster.version}"
        )
    check_release_version(params.get("releaseVersion"), version)
    return {"version": version, "releaseVersion": find_release_version(version)}
