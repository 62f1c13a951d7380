"""Changes that the Pod Identity webhook makes to a pod."""

import copy
from typing import Any

from localcloud.kubernetes.pod_identity import mutation

REGION, AWS = "us-west-2", "http://169.254.100.1:4566"


def applied(pod: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """Apply a JSON patch of additions as the API server does."""
    pod = copy.deepcopy(pod)
    for operation in operations:
        assert operation["op"] == "add"
        *path, last = operation["path"].removeprefix("/").split("/")
        target: Any = pod
        for step in path:
            target = target[int(step)] if isinstance(target, list) else target[step]
        if isinstance(target, list):
            assert last == "-"
            target.append(operation["value"])
        else:
            assert last not in target or not target[last], "an addition must not replace an existing value"
            target[last] = operation["value"]
    return pod


def mutated(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    pod = {"metadata": metadata, "spec": spec}
    spec_after: dict[str, Any] = applied(pod, mutation.patch(pod, REGION, AWS))["spec"]
    return spec_after


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def test_containers_get_the_agents_address_the_token_and_the_region() -> None:
    container = mutated({"containers": [{"name": "main"}]})["containers"][0]
    assert variables(container) == {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": (
            "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount/eks-pod-identity-token"
        ),
        "AWS_STS_REGIONAL_ENDPOINTS": "regional",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": AWS,
    }


def test_the_token_is_for_eks_and_lies_where_the_variable_says() -> None:
    spec = mutated({"containers": [{"name": "main"}]})
    (volume,) = spec["volumes"]
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "pods.eks.amazonaws.com"
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert mount["name"] == volume["name"] and mount["readOnly"]
    path = f"{mount['mountPath']}/{source['serviceAccountToken']['path']}"
    assert variables(spec["containers"][0])["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] == path


def test_what_the_pod_says_itself_stays() -> None:
    own = {
        "name": "main",
        "env": [{"name": "AWS_REGION", "value": "eu-west-1"}, {"name": "X", "value": "1"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = mutated({"containers": [own], "volumes": [{"name": "data"}]})
    container = spec["containers"][0]
    assert variables(container)["AWS_REGION"] == "eu-west-1" and variables(container)["X"] == "1"
    assert [mount["name"] for mount in container["volumeMounts"]] == ["data", mutation.VOLUME]
    assert [volume["name"] for volume in spec["volumes"]] == ["data", mutation.VOLUME]


def test_init_containers_too_and_all_of_several() -> None:
    spec = mutated({"initContainers": [{"name": "first"}], "containers": [{"name": "a"}, {"name": "b"}]})
    for container in (*spec["initContainers"], *spec["containers"]):
        assert "AWS_CONTAINER_CREDENTIALS_FULL_URI" in variables(container)


def test_a_container_can_be_left_out() -> None:
    spec = mutated({"containers": [{"name": "a"}, {"name": "b"}]}, annotations={"eks.amazonaws.com/skip-containers": "other, b"})
    assert "env" in spec["containers"][0] and "env" not in spec["containers"][1]


def test_a_second_pass_finds_nothing_to_do() -> None:
    once = mutated({"containers": [{"name": "main"}]})
    assert mutation.patch({"metadata": {}, "spec": once}, REGION, AWS) == []
