"""Parts of the Kubernetes provider emulator that need no API server."""

import json
from pathlib import Path
from typing import Any

import pytest

from localcloud.engine.codec import UNKNOWN
from localcloud.engine.kubernetes import checkpoint, immutable, managed_fields, naming, objects, settings
from localcloud.engine.kubernetes.difference import compare, select_effective_changes
from localcloud.engine.kubernetes.kubeconfig import BadKubeconfig, Kubeconfig
from localcloud.engine.kubernetes.shapes import prune
from localcloud.engine.kubernetes.tokens import Kind, NotServed, parse, parse_served_kind
from localcloud.engine.paths import format_path

POD = {"apiVersion": "v1", "kind": "Pod"}


@pytest.mark.parametrize(
    ("token", "api_version", "kind"),
    [
        ("kubernetes:core/v1:Namespace", "v1", "Namespace"),
        ("kubernetes:apps/v1:Deployment", "apps/v1", "Deployment"),
        ("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("kubernetes:kubeflow.org/v2beta1:MPIJob", "kubeflow.org/v2beta1", "MPIJob"),
    ],
)
def test_a_type_token_is_parsed_into_an_api_version_and_a_kind(token: str, api_version: str, kind: str) -> None:
    parsed = parse(token)
    assert (parsed.api_version, parsed.kind) == (api_version, kind)
    assert Kind.from_manifest({"apiVersion": api_version, "kind": kind}) == parsed


@pytest.mark.parametrize(
    ("token", "inputs"),
    [
        ("kubernetes:helm.sh/v3:Release", {}),
        ("kubernetes:yaml/v2:ConfigFile", {}),
        ("kubernetes:kustomize/v2:Directory", {}),
        ("kubernetes:core/v1:PodList", {"items": []}),
        ("kubernetes:apps/v1:DeploymentPatch", {"kind": "Deployment"}),
        ("aws:ec2/vpc:Vpc", {}),
    ],
)
def test_an_input_that_is_not_a_kubernetes_object_is_refused(token: str, inputs: dict[str, Any]) -> None:
    with pytest.raises(NotServed):
        parse_served_kind(token, inputs)


def test_a_custom_kind_can_have_a_name_that_ends_with_patch() -> None:
    token = "kubernetes:example.com/v1:RoadPatch"
    assert parse_served_kind(token, {"kind": "RoadPatch"}).kind == "RoadPatch"


def find_changes(old: Any, new: Any, *, kind: dict[str, Any] = POD, ignored: tuple[str, ...] = ()) -> dict[str, tuple[str, bool]]:
    patterns = immutable.list_immutable_paths({**kind, **new}, mutable_config_maps=False, mutable_secrets=False)
    differences = compare(old, new, patterns, [split_path(text) for text in ignored])
    return {format_path(change.path): (change.verb, change.replace) for change in differences}


def split_path(text: str) -> tuple[str, ...]:
    return tuple(text.split("."))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 1.0}}, {}),
        ({"spec": {"a": 1}}, {"spec": {"a": True}}, {"spec.a": ("update", False)}),
        ({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1}}, {"spec.b": ("delete", False)}),
        ({"spec": {}}, {"spec": {"a": [1]}}, {"spec.a": ("add", False)}),
        ({"spec": {"a": [1, 2]}}, {"spec": {"a": [1]}}, {"spec.a[1]": ("delete", False)}),
        ({"spec": {"a": 1}}, {"spec": {"a": UNKNOWN}}, {"spec.a": ("update", False)}),
        (
            {"spec": {"containers": [{"image": "a", "name": "n"}]}},
            {"spec": {"containers": [{"image": "b", "name": "n"}]}},
            {"spec.containers[0].image": ("update", True)},
        ),
        ({"spec": {}}, {"spec": {"containers": [{"image": "b"}]}}, {"spec.containers": ("add", True)}),
        ({"spec": {}}, {"spec": {"containers": [{"odd": "b"}]}}, {"spec.containers": ("add", False)}),
        ({"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}, {"metadata.name": ("update", True)}),
    ],
)
def test_a_diff_lists_changed_paths_and_required_replacements(
    old: dict[str, Any], new: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert find_changes(old, new) == expected


def test_a_change_at_an_ignored_path_is_not_reported() -> None:
    assert find_changes({"spec": {"a": {"b": 1}, "c": 1}}, {"spec": {"a": {"b": 2}, "c": 1}}, ignored=("spec.a",)) == {}


def test_a_value_that_the_server_considers_equal_is_no_change() -> None:
    live = {"spec": {"cpu": "500m", "port": 80}}
    differences = compare(live, {"spec": {"cpu": "0.5", "port": 81}}, [])
    confirmed_changes = select_effective_changes(differences, live, lambda: {"spec": {"cpu": "500m", "port": 81}})
    assert [format_path(change.path) for change in confirmed_changes] == ["spec.port"]
    assert select_effective_changes(differences, live, lambda: None) == differences, (
        "if the API server cannot answer, all differences count"
    )


def test_a_live_object_is_pruned_to_the_fields_of_the_inputs() -> None:
    live = {"spec": {"a": 1, "b": 2, "list": [{"x": 1, "y": 2}, {"x": 3}]}, "status": {}}
    assert prune(live, {"spec": {"a": 5, "list": [{"x": 0}]}, "gone": 1}) == {"spec": {"a": 1, "list": [{"x": 1}]}}


def make_manager_entry(manager: str, operation: str, fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}


def test_fields_of_the_creating_manager_are_adopted() -> None:
    status = make_manager_entry("kubelet", "Update", {"f:status": {}}, subresource="status")
    obj = {
        "metadata": {
            "managedFields": [
                make_manager_entry("mine", "Apply", {"f:data": {"f:a": {}}}),
                make_manager_entry(managed_fields.CREATOR, "Update", {"f:data": {".": {}, "f:b": {}}}),
                status,
            ]
        }
    }
    taken = managed_fields.take_over_fields(obj, "mine")
    assert taken == [status, make_manager_entry("mine", "Apply", {"f:data": {".": {}, "f:a": {}, "f:b": {}}})]
    assert managed_fields.take_over_fields({"metadata": {"managedFields": taken}}, "mine") is None


def test_a_field_owned_by_another_manager_is_recognized() -> None:
    obj = {"metadata": {"managedFields": [make_manager_entry("other", "Update", {"f:spec": {"f:replicas": {}}})]}}
    assert managed_fields.is_owned_by_others(obj, ["spec", "replicas"], "mine")
    assert not managed_fields.is_owned_by_others(obj, ["spec", "replicas"], "other")
    assert not managed_fields.is_owned_by_others(obj, ["spec", "image"], "mine")


def test_an_import_adopts_applied_fields() -> None:
    ports = {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}
    obj = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "door",
            "uid": "1",
            "managedFields": [make_manager_entry("kubectl", "Apply", {"f:spec": {"f:ports": ports, "f:selector": {}}})],
        },
        "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "selector": {"a": "b"}, "type": "ClusterIP"},
        "status": {"loadBalancer": {}},
    }
    assert managed_fields.select_user_fields(obj) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "door"},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    }


def test_an_import_adopts_kubectls_last_applied_configuration() -> None:
    last = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}})
    metadata = {"name": "m", "uid": "1", "annotations": {managed_fields.LAST_APPLIED: last}}
    fields = managed_fields.select_user_fields(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "2", "b": "3"}}
    )
    assert fields["data"] == {"a": "2"}


def test_a_generated_name_is_marked_and_kept_by_later_updates() -> None:
    first = naming.assign_name({"metadata": {}}, {}, "web", seed=b"seed", proposed="", disabled=False)
    assert naming.is_autonamed(first) and objects.get_name(first).startswith("web-")
    again = naming.assign_name({"metadata": {}}, first, "web", seed=b"another", proposed="", disabled=False)
    assert objects.get_name(again) == objects.get_name(first)
    explicit = naming.assign_name({"metadata": {"name": "mine"}}, first, "web", seed=b"", proposed="", disabled=False)
    assert objects.get_name(explicit) == "mine" and not naming.is_autonamed(explicit)
    wished = naming.assign_name({"metadata": {}}, {}, "web", seed=b"", proposed="web-dev", disabled=False)
    assert objects.get_name(wished) == "web-dev"
    with pytest.raises(naming.Unnamed, match="autonaming is disabled"):
        naming.assign_name({"metadata": {}}, {}, "web", seed=b"", proposed="", disabled=True)
    with pytest.raises(naming.Unnamed, match="generateName"):
        naming.assign_name({"metadata": {"generateName": "web-"}}, {}, "web", seed=b"", proposed="", disabled=False)


def test_secret_data_and_string_data_are_merged_into_data() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": {"a": "YQ=="}, "stringData": {"b": "b"}}
    assert objects.normalize(secret) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {},
        "data": {"a": "YQ==", "b": "Yg=="},
    }


def test_a_secret_input_is_secret_in_the_live_object() -> None:
    live = {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"env": []}]}}}, "status": {}}
    secret_inputs = {"spec": {"template": {"spec": {"containers": True}}}}
    assert checkpoint.find_secret_parts(live, secret_inputs) == secret_inputs
    assert checkpoint.find_secret_parts({"kind": "Secret", "data": {}}, {"stringData": {"a": True}})["data"] is True
    assert checkpoint.find_secret_parts({"spec": "text"}, {"spec": {"a": True}}) == {"spec": True}


KUBECONFIG = {
    "clusters": [{"name": "one", "cluster": {"server": "https://one/"}}, {"name": "two", "cluster": {"server": "https://two"}}],
    "users": [{"name": "me", "user": {"tokenFile": "token"}}],
    "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me", "namespace": "room"}}],
    "current-context": "here",
}


def test_a_kubeconfig_provides_server_namespace_and_token_file_of_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(json.dumps(KUBECONFIG))
    access = Kubeconfig.load(str(file)).read_access()
    assert (access.server, access.namespace, access.token_file) == ("https://one", "room", str(tmp_path / "token"))
    assert Kubeconfig.load(json.dumps(KUBECONFIG)).read_access(cluster="two").server == "https://two"


@pytest.mark.parametrize(
    ("change", "context", "reason"),
    [
        ({}, "elsewhere", 'context "elsewhere" does not exist'),
        ({"users": []}, None, 'user "me" does not exist'),
        ({"clusters": []}, None, 'cluster "one" does not exist'),
        ({"contexts": [], "current-context": ""}, None, "no configuration has been provided"),
        ({"users": [{"name": "me", "user": {"auth-provider": {}}}]}, None, 'does not support "auth-provider" of user "me"'),
        ({"clusters": [{"name": "one", "cluster": {}}]}, None, 'the cluster of context "here" has no server'),
    ],
)
def test_the_error_for_an_unusable_kubeconfig_contains_the_reason(
    change: dict[str, Any], context: str | None, reason: str
) -> None:
    with pytest.raises(BadKubeconfig, match=reason):
        Kubeconfig.load(json.dumps({**KUBECONFIG, **change})).read_access(context)


@pytest.mark.parametrize("text", ["no such file", "[1, 2]", "{", ": :\n :"])
def test_a_value_other_than_a_kubeconfig_is_refused(text: str) -> None:
    with pytest.raises(BadKubeconfig):
        Kubeconfig.load(text)


def test_another_cluster_replaces_the_provider_unless_the_cluster_identifier_is_the_same() -> None:
    old = {"kubeconfig": json.dumps(KUBECONFIG)}
    moved = json.dumps({**KUBECONFIG, "clusters": [{"name": "one", "cluster": {"server": "https://elsewhere"}}]})
    assert settings.find_changed_settings(old, {"kubeconfig": moved}) == (["kubeconfig"], ["kubeconfig"])
    other_user = json.dumps({**KUBECONFIG, "users": [{"name": "me", "user": {"token": "x"}}]})
    assert settings.find_changed_settings(old, {"kubeconfig": other_user}) == (["kubeconfig"], [])
    assert settings.find_changed_settings(old, {"kubeconfig": UNKNOWN}) == (["kubeconfig"], ["kubeconfig"])
    same, another = {"clusterIdentifier": "a"}, {"clusterIdentifier": "b"}
    assert settings.find_changed_settings({**old, **same}, {"kubeconfig": moved, **same}) == (["kubeconfig"], [])
    assert settings.find_changed_settings({**old, **same}, {**old, **another}) == (["clusterIdentifier"], ["clusterIdentifier"])


def test_program_settings_take_precedence_over_environment_variables() -> None:
    variables = {"PULUMI_K8S_DELETE_UNREACHABLE": "true"}
    assert settings.Settings.from_config({}, variables).delete_unreachable
    assert not settings.Settings.from_config({"deleteUnreachable": "false"}, variables).delete_unreachable


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"renderYamlToDirectory": "out"}, "does not support the provider setting renderYamlToDirectory"),
        ({"enableServerSideApply": "false"}, "supports only server-side apply"),
        ({"kubeClientSettings": '{"speed": 1}'}, "does not support kubeClientSettings.speed"),
    ],
)
def test_settings_without_effect_are_refused_by_name(config: dict[str, Any], message: str) -> None:
    [(_, reason)] = settings.find_unsupported_settings(config)
    assert message in reason


def test_default_settings_of_the_sdk_are_accepted() -> None:
    assert (
        settings.find_unsupported_settings({"kubeconfig": "x", "namespace": "y", "enableServerSideApply": "true", "version": "4"})
        == []
    )
