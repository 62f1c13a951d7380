"""User's launch template: the settings that a managed node group uses or rejects.

https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
"""

import base64
from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ec2 import launch_templates
from localcloud.aws.eks.errors import build_invalid_parameter_error, build_invalid_request_error
from localcloud.aws.eks.state import Record, UserTemplate
from localcloud.aws.errors import AwsError


def read_user_template(call: Call, reference: Record | None) -> UserTemplate:
    """Return the user's launch template. Raise EKS's error for settings that node groups do not allow."""
    if reference is None:
        return UserTemplate()
    if bool(reference.get("id")) == bool(reference.get("name")):
        raise build_invalid_parameter_error("Exactly one of launch template id and name must be specified")
    specification = {
        "LaunchTemplateId": reference.get("id"),
        "LaunchTemplateName": reference.get("name"),
        "Version": reference.get("version"),
    }
    ec2 = call.backend_of("ec2")
    try:
        version = launch_templates.find_specified_version(ec2, specification)
    except AwsError as error:
        raise build_invalid_parameter_error(error.message) from error
    template = UserTemplate(
        version.template.id, version.template.name, str(version.number), launch_templates.to_boto_format(version.data)
    )
    _check_prohibited_settings(template.data)
    _check_launch_data(ec2, template.data)
    return template


def _check_prohibited_settings(data: Record) -> None:
    if any(interface.get("SubnetId") for interface in data.get("NetworkInterfaces", [])):
        raise build_invalid_parameter_error(
            "Launch template should not specify a subnet; specify subnets in the node group configuration instead"
        )
    if any(interface.get("NetworkInterfaceId") for interface in data.get("NetworkInterfaces", [])):
        raise build_invalid_parameter_error("Launch template should not specify an existing network interface")
    if data.get("IamInstanceProfile"):
        raise build_invalid_parameter_error(
            "Launch template should not specify an instance profile. "
            "The noderole in your request will be used to construct an instance profile."
        )
    if data.get("InstanceInitiatedShutdownBehavior"):
        raise build_invalid_parameter_error("Launch template should not specify a shutdown behavior")
    if data.get("HibernationOptions", {}).get("Configured"):
        raise build_invalid_parameter_error("Launch template should not specify hibernation options")


def _check_launch_data(ec2: Any, data: Record) -> None:
    """Reject template data that EC2 would reject at launch: EKS attempts a launch before it creates a node group."""
    problem = None
    interfaces = data.get("NetworkInterfaces", [])
    if interfaces and (data.get("SecurityGroupIds") or data.get("SecurityGroups")):
        problem = "Network interfaces and an instance-level security groups may not be specified on the same request"
    image = data.get("ImageId")
    if image and not image.startswith("resolve:ssm:") and image not in ec2.amis:
        problem = f"The image id '[{image}]' does not exist"
    for group_id in (*data.get("SecurityGroupIds", []), *(group for item in interfaces for group in item.get("Groups", []))):
        if ec2.get_security_group_from_id(group_id) is None:
            problem = f"The security group '{group_id}' does not exist"
    if problem is not None:
        raise build_invalid_request_error(f"You must use a valid fully-formed launch template. {problem}")
    if not image and data.get("UserData") and not _is_mime(data["UserData"]):
        raise build_invalid_request_error("User data was not in the MIME multipart format.")


def _is_mime(user_data: str) -> bool:
    head = base64.b64decode(user_data)[:1000].decode(errors="replace").lower()
    return "content-type: multipart/" in head


def check_market_options(capacity_type: str, template: UserTemplate, instance_types: list[str]) -> None:
    """Check the market options. Users request Spot in the node group; the template can request only Capacity Blocks."""
    market = template.data.get("InstanceMarketOptions", {}).get("MarketType")
    if capacity_type != "CAPACITY_BLOCK":
        if market:
            raise build_invalid_parameter_error("Instance market options are not supported with the launch template.")
        return
    if template.id is None:
        raise build_invalid_parameter_error("A launch template is required for capacity type CAPACITY_BLOCK")
    if market != "capacity-block":
        raise build_invalid_parameter_error(
            "Launch template must specify market type capacity-block for capacity type CAPACITY_BLOCK"
        )
    target = template.data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if not target.get("CapacityReservationId"):
        raise build_invalid_parameter_error(
            "Launch template must specify a capacity reservation target for capacity type CAPACITY_BLOCK"
        )
    if instance_types or not template.instance_type:
        raise build_invalid_parameter_error(
            "The instance type must be specified in the launch template for capacity type CAPACITY_BLOCK"
        )
