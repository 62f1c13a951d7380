"""Kubernetes objects created through Pulumi's mocks."""

from collections.abc import Callable, Iterator
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
import pytest

from localcloud.engine.mocks import MotoMocks

DEPLOYMENT = "kubernetes:apps/v1:Deployment"


@pytest.fixture
def mocks() -> Iterator[MotoMocks]:
    with MotoMocks("us-west-2") as entered:
        yield entered


def run_program(mocks: MotoMocks, program: Callable[[], Any]) -> Any:
    pulumi.runtime.set_mocks(mocks, project="tiny", stack="test", preview=mocks.preview)
    results: list[Any] = []

    @pulumi.runtime.test
    def resolve_outputs() -> pulumi.Output[None]:
        return pulumi.Output.from_input(program()).apply(results.append)

    resolve_outputs()
    return results[0] if results else None


def make_deployment(**container: Any) -> k8s.apps.v1.Deployment:
    labels = {"app": "web"}
    return k8s.apps.v1.Deployment(
        "web",
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web", **container}]}},
        },
    )


def test_an_object_is_recorded_with_its_name_namespace_and_id(mocks: MotoMocks) -> None:
    name = run_program(mocks, lambda: make_deployment(resources={"limits": {"cpu": 1}}).metadata["name"])
    [created] = mocks.list_created(DEPLOYMENT)
    assert name.startswith("web-") and len(name) == len("web-12345678")
    assert created.id == f"default/{name}"
    assert created.inputs["spec"]["selector"] == {"matchLabels": {"app": "web"}}


def test_a_custom_object_is_recorded_with_the_scope_of_its_crd(mocks: MotoMocks) -> None:
    def program() -> list[Any]:
        definition = k8s.apiextensions.v1.CustomResourceDefinition(
            "flavors",
            metadata={"name": "flavors.example.com"},
            spec={
                "group": "example.com",
                "scope": "Cluster",
                "names": {"plural": "flavors", "kind": "Flavor"},
                "versions": [{"name": "v1", "served": True, "storage": True}],
            },
        )
        flavor = k8s.apiextensions.CustomResource(
            "sweet",
            api_version="example.com/v1",
            kind="Flavor",
            metadata={"name": "sweet"},
            spec={"anything": 1},
            opts=pulumi.ResourceOptions(depends_on=[definition]),
        )
        return [definition.id, flavor.id]

    assert run_program(mocks, program) == ["flavors.example.com", "sweet"]


@pytest.mark.parametrize(
    ("container", "mistake"),
    [
        ({"imagePullPolice": "Always"}, "spec.template.spec.containers[0].imagePullPolice: unknown field"),
        ({"env": [{"name": "A", "value": 1}]}, "spec.template.spec.containers[0].env[0].value: must be of type str, not int"),
        ({"args": "sleep"}, "spec.template.spec.containers[0].args: must be a list"),
        ({"resources": 2}, "spec.template.spec.containers[0].resources: must be an object"),
    ],
)
def test_the_error_for_a_field_rejected_by_the_api_server_contains_its_path(
    mocks: MotoMocks, container: dict[str, Any], mistake: str
) -> None:
    with pytest.raises(Exception, match=f"{DEPLOYMENT} web: ") as refusal:
        run_program(mocks, lambda: make_deployment(**container).id)
    assert mistake in str(refusal.value)


def test_a_second_object_with_the_same_name_is_refused(mocks: MotoMocks) -> None:
    def program() -> list[Any]:
        return [k8s.core.v1.ConfigMap(logical, metadata={"name": "same"}).id for logical in ("one", "two")]

    with pytest.raises(Exception, match="ConfigMap default/same already exists"):
        run_program(mocks, program)


def test_unsupported_helm_releases_are_refused_by_name(mocks: MotoMocks) -> None:
    with pytest.raises(Exception, match=r"does not support kubernetes:helm\.sh/v3:Release"):
        run_program(mocks, lambda: k8s.helm.v3.Release("chart", chart="nginx").id)


def test_unknown_values_stay_unknown_in_a_preview(mocks: MotoMocks) -> None:
    mocks.preview = True
    run_program(mocks, lambda: make_deployment(image=pulumi.Output.from_input("web:1")).id)
    assert [created.id for created in mocks.list_created(DEPLOYMENT)] == [None]
