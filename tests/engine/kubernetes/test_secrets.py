"""Secrets stay secret in the state and in the engine's output."""

import base64

from testkit.control_plane import Objects
from testkit.kubernetes_projects import KubernetesProject

PASSWORD = "correct horse battery"
PROGRAM = """
    k8s.core.v1.Secret("plain", metadata={"name": "plain"}, string_data={"password": "correct horse battery"}, opts=opts)
    untyped = {"metadata": {"name": "untyped"}, "stringData": {"password": "correct horse battery"}}
    pulumi.CustomResource("kubernetes:core/v1:Secret", "untyped", untyped, opts)  # nothing marks these as secret
    k8s.core.v1.ConfigMap(
        "told", metadata={"annotations": {"hint": config.require_secret("hint")}}, data={"open": "yes"}, opts=opts)
"""


def test_data_of_secrets_and_secret_inputs_are_encrypted(kube: KubernetesProject, objects: Objects) -> None:
    kube.project.configure("hint", "behind the clock", "--secret")
    up = kube.up(PROGRAM)
    assert up.ok, up.output
    encoded = base64.b64encode(PASSWORD.encode()).decode()
    assert objects.get("secrets", "plain")["data"] == {"password": encoded}
    kube.refresh()
    for source in (str(kube.state()), up.output, kube.preview(None, "--diff").output):
        assert PASSWORD not in source
        assert encoded not in source
        assert "behind the clock" not in source
    assert kube.state()["told"]["outputs"]["data"] == {"open": "yes"}, "only secret values are encrypted"


def test_a_second_run_keeps_a_secret_and_a_new_password_replaces_it(kube: KubernetesProject, objects: Objects) -> None:
    kube.project.configure("hint", "behind the clock", "--secret")
    kube.up(PROGRAM)
    assert kube.up().changes == {}
    up = kube.up(PROGRAM.replace(PASSWORD, "another"))
    assert (up.ok, up.changes) == (True, {"replace": 2}), up.output
    assert objects.get("secrets", "plain")["data"]["password"] == base64.b64encode(b"another").decode()
