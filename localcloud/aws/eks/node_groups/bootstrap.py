"""Decide whether an instance joins its cluster: its user data must be suitable for its AMI and describe the cluster.

https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/#clusterdetails
https://docs.aws.amazon.com/eks/latest/userguide/al2023.html: AL2023 replaced /etc/eks/bootstrap.sh with nodeadm
"""

from typing import Any

from localcloud.kubernetes.nodes import user_data
from localcloud.kubernetes.nodes.user_data import UserData

_WITHOUT_NODEADM = ("al2023-ami-", "ubuntu/images/", "Deep Learning ")
"""Name prefixes of public AMIs without EKS's programs. Custom AMIs are assumed to contain these programs."""


def refusal_of(cluster: str, instance: Any) -> str:
    """Return the reason why an instance does not join the cluster; empty if it joins."""
    image = instance.ec2_backend.amis.get(instance.image_id)
    try:
        found = user_data.read(encoded(instance))
    except Exception as error:  # user data from users can be malformed; nodeadm would fail, too
        return f"its user data cannot be read: {' '.join(str(error).split())}"
    return refusal(cluster, found, image.name if image is not None else "")


def encoded(instance: Any) -> str | None:
    """Return an instance's base64-encoded user data, as passed at launch."""
    return instance.user_data.as_bytes().decode() if instance.user_data else None


def refusal(cluster: str, found: UserData, image_name: str) -> str:
    if image_name.startswith(_WITHOUT_NODEADM):
        return f"its AMI {image_name} has no nodeadm. Use an EKS AMI, or an AMI built from one"
    if found.cluster is None and found.runs_bootstrap_script:
        return "its user data runs /etc/eks/bootstrap.sh, which AL2023 AMIs do not have. Use a NodeConfig"
    if found.cluster is None:
        return f"its user data has no NodeConfig for cluster {cluster}"
    if found.cluster != cluster:
        return f"its user data is for cluster {found.cluster}, not {cluster}"
    if found.missing:
        return f"the NodeConfig in its user data lacks spec.cluster.{found.missing[0]}"
    return ""
