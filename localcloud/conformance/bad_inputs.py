"""Ten inputs that AWS or Kubernetes rejects, and the error messages that users see."""

from pathlib import Path
from typing import Final

from localcloud.conformance.compare import mask_variable_text
from localcloud.instance import LocalCloud
from testkit.control_plane import ControlPlane, Objects
from testkit.kubernetes_projects import KubernetesProject
from testkit.projects import Project

_POD = '{"containers": [{"name": "a", "image": "a"}]}'
_AWS = 'import pulumi_aws as aws\naws_opts = pulumi.ResourceOptions(provider=aws.Provider("a", region="us-west-2"))\n'
CASES: Final = {
    "unknown field": 'k8s.core.v1.Service("a", metadata={"name": "a"}, spec={"port": 80}, opts=opts)',
    "missing field": f'k8s.apps.v1.Deployment("a", metadata={{"name": "a"}}, spec={{"template": {{"spec": {_POD}}}}}, opts=opts)',
    "invalid name": 'k8s.core.v1.ConfigMap("a", metadata={"name": "Not_Valid"}, opts=opts)',
    "missing namespace": 'k8s.core.v1.ConfigMap("a", metadata={"name": "a", "namespace": "no-such"}, opts=opts)',
    "unknown kind": (
        'k8s.apiextensions.CustomResource("a", api_version="example.com/v1", kind="Queue", metadata={"name": "a"}, opts=opts)'
    ),
    "value out of range": 'k8s.core.v1.Service("a", metadata={"name": "a"}, spec={"ports": [{"port": 70000}]}, opts=opts)',
    "wrong type": 'k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, data={"a": ["b"]}, opts=opts)',
    "existing object": 'k8s.core.v1.ConfigMap("a", metadata={"name": "existing"}, opts=opts)',
    "invalid CIDR": f'{_AWS}aws.ec2.Vpc("a", cidr_block="10.0.0.0/8", opts=aws_opts)',
    "malformed policy": f'{_AWS}aws.iam.Role("a", name="a", assume_role_policy="{{}}", opts=aws_opts)',
}


def collect_errors(cloud: LocalCloud, plane: ControlPlane, side: str, folder: Path) -> dict[str, list[str]]:
    """Return the errors that `up` shows for each bad input."""
    namespace = f"conformance-{side}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    objects = Objects(plane, namespace)
    objects.create("configmaps", {"metadata": {"name": "existing"}})
    kube = KubernetesProject(Project(cloud, folder / side / "bad-inputs", "bad"), objects)
    kube.prepare(plane.kubeconfig())
    texts_by_case = {}
    for name, program in CASES.items():
        errors = kube.up(program).errors
        texts_by_case[name] = sorted(mask_variable_text(text.replace(namespace, "NAMESPACE")) for text in errors)
    kube.destroy()
    return texts_by_case
