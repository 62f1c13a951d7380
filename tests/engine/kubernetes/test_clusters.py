"""Clusters that do not exist yet, that no longer exist, or that deny access."""

import json
import stat
import sys
from pathlib import Path

import pytest
import yaml

from testkit.control_plane import ControlPlane, Objects
from testkit.kubernetes_projects import KubernetesProject
from testkit.waiting import wait_until

MAP = 'k8s.core.v1.ConfigMap("settings", data={"color": "red"}, opts=opts)'


def unreachable_kubeconfig(control_plane: ControlPlane) -> str:
    """Return a kubeconfig for the same cluster at an address where nothing listens."""
    return control_plane.kubeconfig().replace(control_plane.url, "https://127.0.0.1:1")


def test_a_preview_does_not_need_a_cluster_that_does_not_exist_yet(kube: KubernetesProject) -> None:
    preview = kube.preview(
        """
        import pulumi_aws as aws

        vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16")
        later = k8s.Provider("later", kubeconfig=vpc.id.apply(lambda id: pathlib.Path("kubeconfig").read_text()))
        settings = k8s.core.v1.ConfigMap("settings", data={"net": vpc.id}, opts=pulumi.ResourceOptions(provider=later))
        k8s.core.v1.ConfigMap("known", data={"net": vpc.id}, opts=opts)
        pulumi.export("name", settings.metadata["name"])
        """
    )
    assert preview.ok, preview.output
    up = kube.up()
    assert up.ok, up.output
    assert kube.up().changes == {}
    assert kube.destroy().ok


def test_a_deleted_cluster_is_reported_and_its_objects_can_be_dropped_from_the_state(
    kube: KubernetesProject, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = MAP + "\n"
    kube.settings = 'cluster_identifier="mine"'
    kube.up(program)
    kube.use_kubeconfig(unreachable_kubeconfig(control_plane))
    up = kube.up(program + 'k8s.core.v1.ConfigMap("more", data={}, opts=opts)')
    assert not up.ok
    assert "configured Kubernetes cluster is unreachable: unable to load schema information from the API server" in up.output
    assert "Connection refused" in up.output
    refresh = kube.refresh()
    assert not refresh.ok
    assert "failed to read resource state due to unreachable cluster" in refresh.output
    destroy = kube.destroy()
    assert not destroy.ok
    assert "PULUMI_K8S_DELETE_UNREACHABLE" in destroy.output

    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    forgotten = kube.destroy()
    assert (forgotten.ok, forgotten.changes) == (True, {"delete": 3}), forgotten.output


def test_a_preview_works_with_a_deleted_cluster(kube: KubernetesProject, control_plane: ControlPlane) -> None:
    kube.use_kubeconfig(unreachable_kubeconfig(control_plane))
    preview = kube.preview(MAP)
    assert (preview.ok, preview.changes) == (True, {"create": 3}), preview.output


def test_switching_to_another_cluster_replaces_the_provider_and_its_objects(
    kube: KubernetesProject, control_plane: ControlPlane
) -> None:
    kube.up(MAP)
    kube.use_kubeconfig(control_plane.kubeconfig().replace("127.0.0.1", "localhost"))
    preview = kube.preview()
    assert preview.changes["replace"] == 2, preview.output


def test_the_kubeconfig_can_be_a_path_with_a_context(
    kube: KubernetesProject, control_plane: ControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(control_plane.kubeconfig().replace("current-context: here", "current-context: nowhere"))
    program = f"""
        other = k8s.Provider("other", kubeconfig={str(tmp_path / "config.yaml")!r}, context="here",
                             namespace={kube.objects.namespace!r})
        k8s.core.v1.ConfigMap("settings", data={{}}, opts=pulumi.ResourceOptions(provider=other))
    """
    up = kube.up(program)
    assert up.ok, up.output
    assert len(kube.objects.list_names("configmaps")) == 1


def test_the_exec_program_of_a_kubeconfig_gets_the_environment_of_the_engine(
    kube: KubernetesProject, control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, calls = tmp_path / "get-token", tmp_path / "calls"
    program.write_text(
        f"""#!{sys.executable}
import json, os, pathlib
with pathlib.Path({str(calls)!r}).open("a") as file:
    print(os.environ["AWS_TEST_VALUE"], os.environ["GIVEN"], file=file)
credential = {{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential"}}
status = {{"token": "root", "expirationTimestamp": "2099-01-01T00:00:00Z"}}
print(json.dumps({{**credential, "status": status}}))
"""
    )
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("AWS_TEST_VALUE", str(tmp_path))
    entry = {"command": str(program), "apiVersion": "client.authentication.k8s.io/v1beta1", "args": ["--cluster", "here"]}
    kube.use_kubeconfig(control_plane.kubeconfig(exec={**entry, "env": [{"name": "GIVEN", "value": "yes"}]}))
    up = kube.up(MAP)
    assert up.ok, up.output
    assert kube.up().ok
    assert calls.read_text().splitlines() == [f"{tmp_path} yes"], "it runs once, and its token is reused while it is valid"


def test_the_error_of_a_failing_exec_program_is_shown(
    kube: KubernetesProject, control_plane: ControlPlane, tmp_path: Path
) -> None:
    (tmp_path / "get-token").write_text("#!/bin/sh\necho no such profile >&2\nexit 3\n")
    (tmp_path / "get-token").chmod(0o755)
    kube.use_kubeconfig(control_plane.kubeconfig(exec={"command": str(tmp_path / "get-token")}))
    up = kube.up(MAP)
    assert not up.ok
    assert "failed with exit code 3: no such profile" in up.output


def test_a_forbidden_request_names_the_missing_permission(kube: KubernetesProject, control_plane: ControlPlane) -> None:
    kube.use_kubeconfig(control_plane.kubeconfig("stranger"))
    up = kube.up(MAP)
    assert not up.ok
    assert 'User "stranger" cannot create resource "configmaps"' in up.output


def test_a_restart_of_the_api_server_does_not_end_a_wait(
    kube: KubernetesProject, control_plane: ControlPlane, objects: Objects
) -> None:
    kube.write(
        """ k8s.core.v1.Pod("slow", metadata={"name": "slow"}, spec={"containers": [{"name": "a", "image": "a"}]},
        opts=opts)
        """
    )
    with kube.project.run_in_background("up") as (process, _):
        wait_until(lambda: objects.get("pods", "slow"))
        control_plane.restart_api_server()
        ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")]
        objects.set_status("pods", "slow", phase="Running", conditions=ready)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert kube.state()["slow"]["outputs"]["status"]["phase"] == "Running"


def test_a_kubeconfig_can_be_json(kube: KubernetesProject, control_plane: ControlPlane) -> None:
    kube.use_kubeconfig(json.dumps(yaml.safe_load(control_plane.kubeconfig())))
    assert kube.up(MAP).ok
