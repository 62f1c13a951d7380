"""Changes that the Pod Identity webhook makes to a pod."""

import copy
from typing import Any

from localcloud.kubernetes.pod_identity import mutation

REGION, AWS = "us-west-2", "http://169.254.100.1:4566"


def apply_patch(pod: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
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


def mutate_pod(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    pod = {"metadata": metadata, "spec": spec}
    spec_after: dict[str, Any] = apply_patch(pod, mutation.build_patch(pod, REGION, AWS))["spec"]
    return spec_after


def read_variables(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def test_containers_get_agent_address_token_and_region() -> None:
    container = mutate_pod({"containers": [{"name": "main"}]})["containers"][0]
    assert read_variables(container) == {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": (
            "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount/eks-pod-identity-token"
        ),
        "AWS_STS_REGIONAL_ENDPOINTS": "regional",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": AWS,
    }


def test_token_has_the_eks_audience_and_the_path_in_the_variable() -> None:
    spec = mutate_pod({"containers": [{"name": "main"}]})
    (volume,) = spec["volumes"]
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "pods.eks.amazonaws.com"
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert mount["name"] == volume["name"] and mount["readOnly"]
    path = f"{mount['mountPath']}/{source['serviceAccountToken']['path']}"
    assert read_variables(spec["containers"][0])["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] == path


def test_settings_of_the_pod_are_not_overridden() -> None:
    own = {
        "name": "main",
        "env": [{"name": "AWS_REGION", "value": "eu-west-1"}, {"name": "X", "value": "1"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = mutate_pod({"containers": [own], "volumes": [{"name": "data"}]})
    container = spec["containers"][0]
    assert read_variables(container)["AWS_REGION"] == "eu-west-1" and read_variables(container)["X"] == "1"
    assert [mount["name"] for mount in container["volumeMounts"]] == ["data", mutation.VOLUME]
    assert [volume["name"] for volume in spec["volumes"]] == ["data", mutation.VOLUME]


def test_init_containers_and_all_containers_are_mutated() -> None:
    spec = mutate_pod({"initContainers": [{"name": "first"}], "containers": [{"name": "a"}, {"name": "b"}]})
    for container in (*spec["initContainers"], *spec["containers"]):
        assert "AWS_CONTAINER_CREDENTIALS_FULL_URI" in read_variables(container)


def test_annotation_excludes_a_container() -> None:
    spec = mutate_pod(
        {"containers": [{"name": "a"}, {"name": "b"}]}, annotations={"eks.amazonaws.com/skip-containers": "other, b"}
    )
    assert "env" in spec["containers"][0] and "env" not in spec["containers"][1]


def test_second_mutation_makes_no_changes() -> None:
    once = mutate_pod({"containers": [{"name": "main"}]})
    assert mutation.build_patch({"metadata": {}, "spec": once}, REGION, AWS) == []
