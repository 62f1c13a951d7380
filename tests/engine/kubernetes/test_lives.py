"""Lifecycles of Kubernetes objects with the real Pulumi engine."""

import pytest

from testkit.control_plane import Objects
from testkit.kubernetes_projects import KubernetesProject

SETTINGS = """
    k8s.core.v1.ConfigMap("settings", data={"color": config.get("color") or "red"}, opts=opts)
"""
MANY = """
    labels = {"app": "web"}
    container = {"name": "web", "image": "web", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}},
                 "ports": [{"containerPort": 80}], "env": [{"name": "EMPTY", "value": ""}]}
    pod = {"metadata": {"labels": labels},
           "spec": {"containers": [container], "nodeSelector": {}, "volumes": [{"name": "tmp", "emptyDir": {}}]}}
    quick = {"annotations": {"pulumi.com/skipAwait": "true"}}
    args = {"opts": opts}
    k8s.core.v1.Secret("secret", string_data={"key": "value"}, **args)
    account = k8s.core.v1.ServiceAccount("account", automount_service_account_token=False, **args)
    role = k8s.rbac.v1.Role("role", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}], **args)
    k8s.rbac.v1.RoleBinding(
        "binding",
        subjects=[{"kind": "ServiceAccount", "name": account.metadata["name"], "namespace": account.metadata["namespace"]}],
        role_ref={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role.metadata["name"]}, **args)
    k8s.core.v1.Service("service", metadata=quick, spec={"selector": labels, "ports": [{"port": 80}]}, **args)
    k8s.apps.v1.Deployment("deployment", metadata=quick, spec={"selector": {"matchLabels": labels}, "template": pod}, **args)
    k8s.apps.v1.DaemonSet("daemons", metadata=quick, spec={"selector": {"matchLabels": labels}, "template": pod}, **args)
    k8s.apps.v1.StatefulSet(
        "states", metadata=quick, spec={"serviceName": "web", "selector": {"matchLabels": labels}, "template": pod}, **args)
    k8s.batch.v1.Job(
        "job", metadata=quick, spec={"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}, **args)
    k8s.core.v1.PersistentVolumeClaim(
        "claim", metadata=quick,
        spec={"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1024Mi"}}}, **args)
    k8s.networking.v1.NetworkPolicy("closed", spec={"podSelector": {}, "policyTypes": ["Ingress"]}, **args)
    k8s.core.v1.LimitRange("limits", spec={"limits": [{"type": "Container", "default": {"cpu": "1000m"}}]}, **args)
    k8s.core.v1.Namespace("room", metadata={"labels": {"a": "b"}}, **args)
    k8s.rbac.v1.ClusterRole("reader", rules=[{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}], **args)
    k8s.scheduling.v1.PriorityClass("low", value=-1, **args)
    k8s.storage.v1.StorageClass("shared", provisioner="efs.csi.aws.com", parameters={"mode": "ap"}, **args)
    group = pulumi.get_stack() + config.require("suffix") + ".example.com"
    definition = k8s.apiextensions.v1.CustomResourceDefinition(
        "definition",
        metadata={"name": "flavors." + group},
        spec={"group": group, "scope": "Namespaced",
              "names": {"plural": "flavors", "singular": "flavor", "kind": "Flavor"},
              "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                  "type": "object", "properties": {"spec": {
                      "type": "object", "x-kubernetes-preserve-unknown-fields": True,
                      "properties": {"sweet": {"type": "boolean", "default": True}}}}}}}]}, **args)
    k8s.apiextensions.CustomResource(
        "vanilla", api_version=group + "/v1", kind="Flavor", spec={"size": 1.5, "parts": []},
        metadata={"annotations": {"pulumi.com/deletionPropagationPolicy": "background"}},
        opts=pulumi.ResourceOptions(provider=provider, depends_on=[definition]))
"""
KINDS_OF_MANY = 18


def test_a_config_map_passes_through_preview_update_refresh_and_destroy(kube: KubernetesProject, objects: Objects) -> None:
    preview = kube.preview(SETTINGS)
    assert (preview.ok, preview.changes) == (True, {"create": 3}), preview.output
    assert objects.list_names("configmaps") == [], "a preview creates nothing"

    up = kube.up()
    assert (up.ok, up.changes) == (True, {"create": 3}), up.output
    [name] = objects.list_names("configmaps")
    assert name.startswith("settings-") and len(name) == len("settings-") + 8
    assert kube.state()["settings"]["id"] == f"{objects.namespace}/{name}"

    again = kube.up()
    assert (again.ok, again.changes) == (True, {}), again.output

    destroy = kube.destroy()
    assert (destroy.ok, destroy.changes) == (True, {"delete": 3}), destroy.output
    assert objects.list_names("configmaps") == []


def test_objects_of_many_kinds_can_be_created_refreshed_and_deleted(kube: KubernetesProject, objects: Objects) -> None:
    kube.project.configure("suffix", objects.namespace)
    preview = kube.preview(MANY)
    assert (preview.ok, preview.changes) == (True, {"create": KINDS_OF_MANY + 2}), preview.output
    up = kube.up()
    assert up.ok, up.output
    again = kube.up()
    assert (again.ok, again.changes) == (True, {}), kube.preview(None, "--diff").output
    kube.refresh()
    after_refresh = kube.up()
    assert (after_refresh.ok, after_refresh.changes) == (True, {}), kube.preview(None, "--diff").output
    destroy = kube.destroy()
    assert (destroy.ok, destroy.changes) == (True, {"delete": KINDS_OF_MANY + 2}), destroy.output
    for resource in ("services", "apps/v1/deployments", "persistentvolumeclaims", "batch/v1/jobs"):
        assert objects.list_names(resource) == []


def test_changed_data_replaces_a_config_map_so_that_pods_see_the_change(kube: KubernetesProject, objects: Objects) -> None:
    kube.up(SETTINGS)
    [old] = objects.list_names("configmaps")
    kube.project.configure("color", "blue")
    preview = kube.preview(None, "--diff")
    assert '"red" => "blue"' in preview.output
    up = kube.up()
    assert up.changes == {"replace": 1}, up.output
    [new] = objects.list_names("configmaps")
    assert new != old


def test_an_object_with_an_explicit_name_is_deleted_before_its_replacement_is_created(
    kube: KubernetesProject, objects: Objects
) -> None:
    program = """
        k8s.core.v1.ConfigMap(
            "settings", metadata={"name": "settings"}, data={"color": config.get("color") or "red"}, opts=opts)
    """
    kube.up(program)
    kube.project.configure("color", "blue")
    up = kube.up()
    assert (up.ok, up.changes) == (True, {"replace": 1}), up.output
    assert objects.get("configmaps", "settings")["data"] == {"color": "blue"}


def test_config_maps_change_in_place_if_the_provider_enables_it(kube: KubernetesProject, objects: Objects) -> None:
    kube.settings = "enable_config_map_mutable=True"
    kube.up(SETTINGS)
    [name] = objects.list_names("configmaps")
    kube.project.configure("color", "blue")
    up = kube.up()
    assert up.changes == {"update": 1}, up.output
    assert objects.get("configmaps", name)["data"] == {"color": "blue"}


DEPLOYMENT = """
    labels = {"app": config.get("app") or "web"}
    k8s.apps.v1.Deployment(
        "web",
        metadata={"name": "web", "annotations": {"pulumi.com/skipAwait": "true"},
                  "labels": json.loads(config.get("labels") or '{}')},
        spec={"replicas": config.get_int("replicas") or 1, "selector": {"matchLabels": labels},
              "template": {"metadata": {"labels": labels},
                           "spec": {"containers": [{"name": "web", "image": config.get("image") or "web:1"}]}}},
        opts=opts.merge(pulumi.ResourceOptions(ignore_changes=json.loads(config.get("ignored") or "[]"))))
"""


def test_a_deployment_changes_in_place_but_its_selector_does_not(kube: KubernetesProject, objects: Objects) -> None:
    kube.up(DEPLOYMENT.replace('"name": "web", "annotations"', '"annotations"'))
    [name] = objects.list_names("apps/v1/deployments")
    kube.project.configure("image", "web:2")
    update = kube.up()
    assert update.changes == {"update": 1}, update.output
    live = objects.get("apps/v1/deployments", name)
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"

    kube.project.configure("app", "shop")
    replace = kube.up()
    assert (replace.ok, replace.changes) == (True, {"replace": 1}), replace.output
    [new] = [candidate for candidate in objects.list_names("apps/v1/deployments") if candidate != name]
    assert objects.get("apps/v1/deployments", new)["spec"]["selector"] == {"matchLabels": {"app": "shop"}}


def test_a_field_removed_from_the_program_is_removed_from_the_object(kube: KubernetesProject, objects: Objects) -> None:
    kube.project.configure("labels", '{"a": "1", "b": "2"}')
    kube.up(DEPLOYMENT)
    kube.project.configure("labels", '{"b": "2"}')
    up = kube.up()
    assert up.changes == {"update": 1}, up.output
    assert objects.get("apps/v1/deployments", "web")["metadata"]["labels"] == {"b": "2"}
    kube.project.configure("labels", "{}")
    kube.up()
    assert "labels" not in objects.get("apps/v1/deployments", "web")["metadata"]


def test_fields_of_other_managers_are_kept(kube: KubernetesProject, objects: Objects) -> None:
    kube.up(DEPLOYMENT)
    objects.patch("apps/v1/deployments", "web", {"metadata": {"labels": {"mine": "yes"}}})
    kube.project.configure("image", "web:2")
    up = kube.up()
    assert (up.ok, up.changes) == (True, {"update": 1}), up.output
    assert objects.get("apps/v1/deployments", "web")["metadata"]["labels"] == {"mine": "yes"}


def test_a_refresh_shows_drift_and_the_next_update_reverts_it(kube: KubernetesProject, objects: Objects) -> None:
    kube.up(DEPLOYMENT)
    objects.patch("apps/v1/deployments", "web", {"spec": {"replicas": 3}})
    assert kube.up().changes == {}, "without a refresh, Pulumi compares with the state"
    refresh = kube.refresh()
    assert refresh.changes == {"update": 1}, refresh.output
    conflict = kube.up()
    assert not conflict.ok
    assert 'conflict with "python-urllib3" using apps/v1: .spec.replicas' in conflict.output
    kube.settings = "enable_patch_force=True"
    up = kube.up(DEPLOYMENT)
    assert up.ok, up.output
    assert objects.get("apps/v1/deployments", "web")["spec"]["replicas"] == 1


def test_an_ignored_field_keeps_the_value_of_another_manager(kube: KubernetesProject, objects: Objects) -> None:
    kube.project.configure("ignored", '["spec.replicas"]')
    kube.up(DEPLOYMENT)
    objects.apply(
        "apps/v1/deployments",
        "web",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 5}},
        "autoscaler",
    )
    kube.refresh()
    kube.project.configure("image", "web:2")
    up = kube.up()
    assert (up.ok, up.changes) == (True, {"update": 1}), up.output
    live = objects.get("apps/v1/deployments", "web")
    assert live["spec"]["replicas"] == 5
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"


def test_a_deleted_object_is_recreated_after_a_refresh(kube: KubernetesProject, objects: Objects) -> None:
    kube.up(SETTINGS)
    [name] = objects.list_names("configmaps")
    objects.delete("configmaps", name)
    refresh = kube.refresh()
    assert refresh.changes == {"delete": 1}, refresh.output
    up = kube.up()
    assert up.changes == {"create": 1}, up.output
    assert len(objects.list_names("configmaps")) == 1


def test_an_imported_object_is_unchanged_by_the_next_update(kube: KubernetesProject, objects: Objects) -> None:
    objects.apply(
        "configmaps",
        "legacy",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "legacy", "labels": {"a": "b"}}, "data": {"k": "v"}},
        "another-manager",
    )
    up = kube.up(
        f"""
        k8s.core.v1.ConfigMap(
            "legacy", metadata={{"name": "legacy", "labels": {{"a": "b"}}}}, data={{"k": "v"}},
            opts=opts.merge(pulumi.ResourceOptions(import_="{objects.namespace}/legacy")))
        """
    )
    assert up.ok, up.output
    assert up.changes["import"] == 1
    assert kube.up().changes == {}


@pytest.mark.parametrize(("namespace", "missing"), [("nowhere", 'namespaces "nowhere" not found')])
def test_a_missing_namespace_is_reported(kube: KubernetesProject, namespace: str, missing: str) -> None:
    program = f"""
        k8s.core.v1.ConfigMap("lost", metadata={{"namespace": "{namespace}"}}, data={{}}, opts=opts)
    """
    preview = kube.preview(program)
    assert preview.ok, "the same update might create the namespace"
    up = kube.up(program)
    assert not up.ok
    assert missing in up.output


def test_objects_wait_for_a_namespace_created_in_the_same_update(kube: KubernetesProject, objects: Objects) -> None:
    up = kube.up(
        f"""
        k8s.core.v1.ConfigMap("early", metadata={{"namespace": "{objects.namespace}-b"}}, data={{}}, opts=opts)
        k8s.core.v1.Namespace("room", metadata={{"name": "{objects.namespace}-b"}}, opts=opts)
        """
    )
    assert up.ok, up.output
    assert kube.destroy().ok
