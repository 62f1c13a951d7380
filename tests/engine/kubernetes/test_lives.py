"""The lives of objects under the real engine."""

from tests.engine.kubernetes.control_plane import Objects
from tests.engine.kubernetes.programs import KubernetesProject

SETTINGS = """
    k8s.core.v1.ConfigMap("settings", data={"colour": config.get("colour") or "red"}, opts=opts)
"""


def test_a_config_map_lives_from_preview_to_destroy(kube: KubernetesProject, objects: Objects) -> None:
    preview = kube.preview(SETTINGS)
    assert (preview.ok, preview.changes) == (True, {"create": 2}), preview.output
    assert objects.names("configmaps") == [], "a preview creates nothing"

    up = kube.up()
    assert (up.ok, up.changes) == (True, {"create": 2}), up.output
    [name] = objects.names("configmaps")
    assert name.startswith("settings-") and len(name) == len("settings-") + 8
    assert kube.state()["settings"]["id"] == f"{objects.namespace}/{name}"

    again = kube.up()
    assert (again.ok, again.changes) == (True, {}), again.output

    destroy = kube.destroy()
    assert (destroy.ok, destroy.changes) == (True, {"delete": 2}), destroy.output
    assert objects.names("configmaps") == []
