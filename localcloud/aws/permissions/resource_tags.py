"""Tags of existing resources, by the service in their ARN: the values of `aws:ResourceTag` in conditions."""

from collections.abc import Mapping
from typing import Any

from localcloud.aws import identity, ssm_sessions
from localcloud.aws.call import Call
from localcloud.aws.ec2 import placement_groups
from localcloud.aws.eks import tags as eks_tags
from localcloud.aws.eks.state import Eks
from localcloud.aws.patching import get_state


def read_tags(call: Call, arn: str) -> Mapping[str, str]:
    """Return the tags of the resource with this ARN; none if it does not exist, or if its service has no tags here."""
    service = arn.split(":")[2] if arn.count(":") >= 5 else ""
    return _READERS[service](call, arn) if service in _READERS else {}


def _read_ec2_tags(call: Call, arn: str) -> Mapping[str, str]:
    backend, name = call.backend_of("ec2"), arn.rsplit("/", 1)[-1]
    if ":placement-group/" in arn:  # these ARNs contain the group's name
        name = next((group.id for group in placement_groups.list_groups(backend) if group.name == name), name)
    return dict(backend.tags.get(name, {}))


def _read_group_tags(call: Call, arn: str) -> Mapping[str, str]:
    group = call.backend_of("autoscaling").autoscaling_groups.get(arn.rsplit("autoScalingGroupName/", 1)[-1])
    return {tag["Key"]: tag.get("Value") or "" for tag in group.tags} if group is not None else {}


def _read_file_system_tags(call: Call, arn: str) -> Mapping[str, str]:
    return _read_tagger(call.backend_of("efs").tagging_service, arn.rsplit("/", 1)[-1])


def _read_fsx_tags(call: Call, arn: str) -> Mapping[str, str]:
    return _read_tagger(call.backend_of("fsx").tagger, arn)


def _read_repository_tags(call: Call, arn: str) -> Mapping[str, str]:
    return _read_tagger(call.backend_of("ecr").tagger, arn)


def _read_key_tags(call: Call, arn: str) -> Mapping[str, str]:
    return _read_tagger(call.backend_of("kms").tagger, arn.rsplit("/", 1)[-1])


def _read_log_group_tags(call: Call, arn: str) -> Mapping[str, str]:
    name = arn.split(":log-group:", 1)[-1].split(":", 1)[0]
    group = call.backend_of("logs").groups.get(name)
    return _read_tagger(call.backend_of("logs").tagger, group.arn) if group is not None else {}


def _read_eks_tags(call: Call, arn: str) -> Mapping[str, str]:
    cluster = get_state(call.backend_of("eks"), Eks).clusters.get(arn.split("/")[1])
    records = eks_tags.list_resources(cluster) if cluster is not None else ()
    return next((record.get("tags") or {} for name, record in records if name == arn), {})


def _read_iam_tags(call: Call, arn: str) -> Mapping[str, str]:
    backend = call.backend_of("iam")
    entities = (*backend.roles.values(), *backend.instance_profiles.values())
    return identity.read_role_tags(next((entity for entity in entities if entity.arn == arn), None))


def _read_session_tags(call: Call, arn: str) -> Mapping[str, str]:
    return ssm_sessions.read_session_tags(call, arn.rsplit("/", 1)[-1])


def _read_tagger(tagger: Any, name: str) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in tagger.get_tag_dict_for_resource(name).items()}


_READERS = {
    "autoscaling": _read_group_tags,
    "ec2": _read_ec2_tags,
    "ecr": _read_repository_tags,
    "eks": _read_eks_tags,
    "elasticfilesystem": _read_file_system_tags,
    "fsx": _read_fsx_tags,
    "iam": _read_iam_tags,
    "kms": _read_key_tags,
    "logs": _read_log_group_tags,
    "ssm": _read_session_tags,
}
