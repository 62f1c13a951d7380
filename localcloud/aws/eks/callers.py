"""AWS calls from pods, which fail if the pod's node cannot reach the service.

https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html
"""

from typing import Any

from localcloud.aws import identity
from localcloud.aws.call import Call, backend_of
from localcloud.aws.ec2 import instance_calls, reachability
from localcloud.aws.eks import joining
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import guard

SERVICES = ("autoscaling", "ec2", "ecr", "efs", "eks", "fsx", "elbv2", "kms", "logs", "s3", "service-quotas", "ssm", "sts")
_ENDPOINTS = {"ecr": "ecr.api", "efs": "elasticfilesystem", "elbv2": "elasticloadbalancing", "service-quotas": "servicequotas"}
"""Maps a service name in boto3 to the service name of the VPC endpoint, for services where the two names differ."""


def set_calling_instance(session: Any, instance_id: str) -> None:
    """Record the instance from which the session's calls come."""
    session.local_cloud_instance = instance_id


def check_service_is_reachable(call: Call) -> None:
    """Reject the call if it comes from an instance that cannot reach the service. On AWS, such a call times out."""
    session = identity.find_session(call) if call.access_key else None
    instance_id = getattr(session, "local_cloud_instance", None)
    ec2 = backend_of("ec2", call.account, call.region)
    instance = (
        next((node for node in instance_calls.list_instances(ec2) if node.id == instance_id), None) if instance_id else None
    )
    if instance is None or not instance.nics:
        return
    service = _ENDPOINTS.get(call.service, call.service)
    host = joining.build_service_host(call.region, service)
    if problem := reachability.find_service_problem(reachability.build_origin(ec2, instance), service, host):
        # SDKs do not retry calls that fail with status 400, so the user sees the error at once.
        raise AwsError("UnreachableInLocalCloud", f'Connect timeout on endpoint URL: "https://{host}/". {problem}', 400)


for _service in SERVICES:
    guard(_service)(check_service_is_reachable)
