"""Decide whether an instance joins its cluster: its user data must be suitable for its AMI and describe the cluster.

https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/#clusterdetails
https://docs.aws.amazon.com/eks/latest/userguide/al2023.html: AL2023 replaced /etc/eks/bootstrap.sh with nodeadm
"""

from typing import Any

from localcloud.kubernetes.nodes import user_data
from localcloud.kubernetes.nodes.user_data import UserData

_WITHOUT_NODEADM = ("al2023-ami-", "ubuntu/images/", "Deep Learning ")
"""Name prefixes of public AMIs without EKS's programs. Custom AMIs are assumed to contain these programs."""


def explain_join_failure(cluster: str, instance: Any) -> str:
    """Return the reason why an instance does not join the cluster; empty if it joins."""
    image = instance.ec2_backend.amis.get(instance.image_id)
    try:
        bootstrap_settings = user_data.parse_user_data(read_user_data(instance))
    except Exception as error:  # user data from users can be malformed; nodeadm would also fail
        return f"its user data cannot be read: {' '.join(str(error).split())}"
    return find_bootstrap_problem(cluster, bootstrap_settings, image.name if image is not None else "")


def read_user_data(instance: Any) -> str | None:
    """Return an instance's base64-encoded user data, as passed at launch."""
    return instance.user_data.as_bytes().decode() if instance.user_data else None


def find_bootstrap_problem(cluster: str, bootstrap_settings: UserData, image_name: str) -> str:
    if image_name.startswith(_WITHOUT_NODEADM):
        return f"its AMI {image_name} has no nodeadm. Use an EKS AMI, or an AMI built from one"
    if bootstrap_settings.cluster is None and bootstrap_settings.runs_bootstrap_script:
        return "its user data runs /etc/eks/bootstrap.sh, which AL2023 AMIs do not have. Use a NodeConfig"
    if bootstrap_settings.cluster is None:
        return f"its user data has no NodeConfig for cluster {cluster}"
    if bootstrap_settings.cluster != cluster:
        return f"its user data is for cluster {bootstrap_settings.cluster}, not {cluster}"
    if bootstrap_settings.missing:
        return f"the NodeConfig in its user data lacks spec.cluster.{bootstrap_settings.missing[0]}"
    return ""
