"""Running cluster without a route to the internet, with methods that break one connection to AWS, test this connection,
and restore it.
"""

import http.client
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.instance import LocalCloud
from localcloud.kubernetes.addresses import POD_IDENTITY_ADDRESS
from localcloud.kubernetes.client import Api, ApiError
from localcloud.kubernetes.nodes.labels import SIMULATED_TAINT
from localcloud.kubernetes.pki import Certificate
from localcloud.machine import network
from testkit.eks_world import make_allow_policy
from testkit.waiting import wait_until, wait_while

REGION = "us-east-1"
IMAGE = f"602401143452.dkr.ecr.{REGION}.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.21-eksbuild.13"
PODS = "/api/v1/namespaces/kube-system/pods"
ACCOUNT = "aws-node"
"""Service account of the VPC CNI, which gets its role through Pod Identity."""
AUDIENCE = "pods.eks.amazonaws.com"
READS = {
    "autoscaling": "describe_auto_scaling_groups",
    "efs": "describe_file_systems",
    "eks": "list_clusters",
    "sts": "get_caller_identity",
}
"""Maps a service to the boto3 method of a read-only operation."""
READ_ACTIONS = ("autoscaling:DescribeAutoScalingGroups", "elasticfilesystem:DescribeFileSystems", "eks:ListClusters")
_numbers = itertools.count(1)


class PrivateCluster:
    def __init__(self, cloud: LocalCloud) -> None:
        self._cloud, client = cloud, cloud.clients(REGION)
        self.ec2, self.eks, self.iam = client("ec2"), client("eks"), client("iam")
        [self.name] = self.eks.list_clusters()["clusters"]
        names = self.eks.list_nodegroups(clusterName=self.name)["nodegroups"]
        groups = [self.eks.describe_nodegroup(clusterName=self.name, nodegroupName=name)["nodegroup"] for name in names]
        self.system = next(group for group in groups if "system" in group["nodegroupName"])
        self.vpc = self.eks.describe_cluster(name=self.name)["cluster"]["resourcesVpcConfig"]["vpcId"]

    # Requests that a node or a pod makes.

    def try_join(self) -> str:
        """Create and delete a copy of the system pool's node group. Return the copy's health issues, or "" if the copy
        became ACTIVE.
        """
        record, name = self.system, f"probe-{next(_numbers)}"
        template = {key: record["launchTemplate"][key] for key in ("id", "version")}
        copied = {key: record[key] for key in ("subnets", "nodeRole", "amiType", "instanceTypes") if key in record}
        sizes = {"minSize": 0, "maxSize": 1, "desiredSize": 1}
        which = {"clusterName": self.name, "nodegroupName": name}
        self.eks.create_nodegroup(**which, **copied, launchTemplate=template, scalingConfig=sizes)
        made = wait_while(lambda: self.eks.describe_nodegroup(**which)["nodegroup"], lambda group: group["status"] == "CREATING")
        self.eks.delete_nodegroup(**which)
        return "; ".join(issue["message"] for issue in made["health"]["issues"])

    def try_pull(self) -> str:
        """Make the real node pull an image from EKS's account. Return the pull error, or "" if the pull succeeds."""
        with self._run_pod() as pod:
            status = wait_until(
                lambda: self._read_container_status(pod), lambda state: state.get("imageID") or _has_pull_failed(state)
            )
        return "" if status.get("imageID") else str(status["state"]["waiting"]["message"])

    def request_credentials(self) -> dict[str, Any] | str:
        """Request credentials for a pod from the Pod Identity agent. Return the credentials, or the agent's error
        message.
        """
        with self._run_pod() as pod:
            bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            request = {"spec": {"audiences": [AUDIENCE], "boundObjectRef": bound}}
            created = self.api.create(f"/api/v1/namespaces/kube-system/serviceaccounts/{ACCOUNT}/token", request)
            connection = http.client.HTTPConnection(str(POD_IDENTITY_ADDRESS))
            connection.sock = network.connect(self._cluster_state.namespace, str(POD_IDENTITY_ADDRESS), 80, 30.0)
            connection.request("GET", "/v1/credentials", headers={"Authorization": created["status"]["token"]})
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
        return json.loads(text) if answer.status == 200 else text

    def call_service(self, service: str) -> str:
        """Call a service as a pod would. Return the error message, or "" if there is none."""
        keys = self.request_credentials()
        assert isinstance(keys, dict), keys
        client = boto3.client(
            service,
            REGION,
            endpoint_url=self._cloud.server("aws").url,
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["Token"],
            config=Config(proxies={}),
        )
        try:
            getattr(client, READS[service])()
        except ClientError as error:
            return str(error.response["Error"]["Message"])
        return ""

    # Faults

    @contextmanager
    def remove_endpoint(self, service: str) -> Iterator[None]:
        endpoint = self._find_endpoint(service)
        if service == "s3":
            tables = endpoint["RouteTableIds"]
            change = lambda **what: self.ec2.modify_vpc_endpoint(VpcEndpointId=endpoint["VpcEndpointId"], **what)  # noqa: E731
            with _apply_temporarily(lambda: change(RemoveRouteTableIds=tables), lambda: change(AddRouteTableIds=tables)):
                yield
            return
        again = {
            "VpcId": self.vpc,
            "ServiceName": endpoint["ServiceName"],
            "VpcEndpointType": "Interface",
            "SubnetIds": endpoint["SubnetIds"],
            "SecurityGroupIds": [group["GroupId"] for group in endpoint["Groups"]],
            "PrivateDnsEnabled": True,
        }
        delete = lambda: self.ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint["VpcEndpointId"]])  # noqa: E731
        with _apply_temporarily(delete, lambda: self.ec2.create_vpc_endpoint(**again)):
            yield

    @contextmanager
    def remove_ingress(self) -> Iterator[None]:
        """Remove the security group rules that allow nodes to reach the endpoints, and restore them afterwards."""
        group = self._find_endpoint("ec2")["Groups"][0]["GroupId"]
        rules_before = self.ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
        rules = [
            {key: rule[key] for key in ("IpProtocol", "FromPort", "ToPort")} | _select_sources(rule) for rule in rules_before
        ]
        with _apply_temporarily(
            lambda: self.ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=rules),
            lambda: self.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=rules),
        ):
            yield

    @contextmanager
    def disable_dns_hostnames(self) -> Iterator[None]:
        change = lambda value: self.ec2.modify_vpc_attribute(VpcId=self.vpc, EnableDnsHostnames={"Value": value})  # noqa: E731
        with _apply_temporarily(lambda: change(False), lambda: change(True)):
            yield

    @contextmanager
    def replace_access_entry(self) -> Iterator[None]:
        """Give the node role an access entry that does not allow nodes to join. When EKS creates a node group, it
        keeps an existing access entry.
        """
        which = {"clusterName": self.name, "principalArn": self.system["nodeRole"]}

        def recreate_entry(kind: str) -> None:
            self.eks.delete_access_entry(**which)
            self.eks.create_access_entry(**which, type=kind)

        with _apply_temporarily(lambda: recreate_entry("STANDARD"), lambda: recreate_entry("EC2_LINUX")):
            yield

    @contextmanager
    def detach_policy(self, policy: str) -> Iterator[None]:
        which = {"RoleName": _get_name(self.system["nodeRole"]), "PolicyArn": f"arn:aws:iam::aws:policy/{policy}"}
        with _apply_temporarily(lambda: self.iam.detach_role_policy(**which), lambda: self.iam.attach_role_policy(**which)):
            yield

    @contextmanager
    def allow_pods_to_read(self) -> Iterator[None]:
        associations = self.eks.list_pod_identity_associations(clusterName=self.name, serviceAccount=ACCOUNT)["associations"]
        which = {"clusterName": self.name, "associationId": associations[0]["associationId"]}
        role = _get_name(self.eks.describe_pod_identity_association(**which)["association"]["roleArn"])
        policy = {"RoleName": role, "PolicyName": "probe"}
        with _apply_temporarily(
            lambda: self.iam.put_role_policy(**policy, PolicyDocument=make_allow_policy(*READ_ACTIONS)),
            lambda: self.iam.delete_role_policy(**policy),
        ):
            yield

    # The cluster

    @cached_property
    def api(self) -> Api:
        pki = next((self._cloud.folder / "kubernetes").glob(f"*-{self.name}")) / "pki"
        admin, authority = (Certificate(pki / f"{name}.crt", pki / f"{name}.key") for name in ("admin", "ca"))
        return Api(self._cluster_state.endpoint, self._cluster_state.namespace, authority, admin)

    @property
    def _cluster_state(self) -> Any:
        return next(state for state in self._cloud.clusters() if state.name == self.name)

    def _find_endpoint(self, service: str) -> dict[str, Any]:
        filters = [{"Name": "service-name", "Values": [f"com.amazonaws.{REGION}.{service}"]}]
        [endpoint] = self.ec2.describe_vpc_endpoints(Filters=filters)["VpcEndpoints"]
        return dict(endpoint)

    @contextmanager
    def _run_pod(self) -> Iterator[dict[str, Any]]:
        """A pod on the real node that always pulls its image."""
        try:
            self.api.create("/api/v1/namespaces/kube-system/serviceaccounts", {"metadata": {"name": ACCOUNT}})
        except ApiError as error:
            if error.status != 409:
                raise
        nodes = self.api.find("/api/v1/nodes") or {"items": []}
        real = next(item for item in nodes["items"] if SIMULATED_TAINT not in item["metadata"]["labels"])
        pod = self.api.create(
            PODS,
            {
                "metadata": {"name": f"probe-{next(_numbers)}"},
                "spec": {
                    "nodeName": real["metadata"]["name"],
                    "serviceAccountName": ACCOUNT,
                    "automountServiceAccountToken": False,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "Always"}],
                },
            },
        )
        try:
            yield pod
        finally:
            self.api.delete(f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")

    def _read_container_status(self, pod: dict[str, Any]) -> dict[str, Any]:
        current = self.api.find(f"{PODS}/{pod['metadata']['name']}") or {}
        statuses = current.get("status", {}).get("containerStatuses", [])
        return statuses[0] if statuses else {}


@contextmanager
def _apply_temporarily(do: Callable[[], object], undo: Callable[[], object]) -> Iterator[None]:
    do()
    try:
        yield
    finally:
        undo()


def _get_name(arn: str) -> str:
    return arn.rsplit("/", 1)[-1]


def _select_sources(permission: dict[str, Any]) -> dict[str, Any]:
    return {key: permission[key] for key in ("IpRanges", "UserIdGroupPairs") if permission.get(key)}


def _has_pull_failed(status: dict[str, Any]) -> bool:
    waiting = status.get("state", {}).get("waiting", {})
    return waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff") and "failed" in waiting.get("message", "")
