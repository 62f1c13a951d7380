"""Requests that the API server or the provider rejects, and the error messages."""

from testkit.control_plane import Objects
from testkit.kubernetes_projects import KubernetesProject

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"color": "red"}}
CONFIGURED = """
    k8s.core.v1.ConfigMap(
        "shared", metadata={"name": "shared", "annotations": json.loads(config.get("annotations") or "{}")},
        data={"color": "blue"}, opts=opts)
"""


def test_an_existing_object_is_adopted_only_if_requested(kube: KubernetesProject, objects: Objects) -> None:
    objects.apply("configmaps", "shared", MAP, "another-manager")
    up = kube.up(CONFIGURED)
    assert not up.ok
    assert 'configmaps "shared" already exists' in up.output
    assert "pulumi import" in up.output
    assert objects.get("configmaps", "shared")["data"] == {"color": "red"}

    kube.settings = "upsert_existing_objects=True"
    conflict = kube.up(CONFIGURED)
    assert 'conflict with "another-manager": .data.color' in conflict.output
    kube.project.configure("annotations", '{"pulumi.com/patchForce": "true"}')
    forced = kube.up()
    assert forced.ok, forced.output
    assert objects.get("configmaps", "shared")["data"] == {"color": "blue"}


def test_preview_refuses_a_field_that_the_kind_does_not_have(kube: KubernetesProject) -> None:
    preview = kube.preview('k8s.core.v1.Service("door", spec={"ports": [{"port": 80, "portt": 1}]}, opts=opts)')
    assert not preview.ok
    assert 'unknown field "spec.ports[0].portt"' in preview.output


def test_a_value_rejected_by_the_server_fails_in_the_preview(kube: KubernetesProject) -> None:
    preview = kube.preview('k8s.core.v1.Service("door", spec={"ports": [{"port": 80000}]}, opts=opts)')
    assert not preview.ok
    assert "spec.ports[0].port: Invalid value: 80000" in preview.output


def test_an_unknown_kind_is_reported_after_a_wait(kube: KubernetesProject) -> None:
    program = """
        k8s.apiextensions.CustomResource(
            "odd", api_version="nobody.example.com/v1", kind="Odd", metadata={"name": "odd"}, opts=opts)
    """
    assert kube.preview(program).ok
    up = kube.up()
    assert not up.ok
    assert "the apiVersion for this resource does not exist. Verify that any required CRDs have been created" in up.output


def test_unsupported_patch_resources_are_refused_by_name(kube: KubernetesProject) -> None:
    preview = kube.preview('k8s.core.v1.ConfigMapPatch("part", metadata={"name": "shared"}, data={}, opts=opts)')
    assert "does not support Patch resources such as kubernetes:core/v1:ConfigMapPatch" in preview.output


def test_a_provider_setting_without_effect_is_refused_by_name(kube: KubernetesProject) -> None:
    kube.settings = 'render_yaml_to_directory="out"'
    preview = kube.preview("")
    assert "does not support the provider setting renderYamlToDirectory" in preview.output
