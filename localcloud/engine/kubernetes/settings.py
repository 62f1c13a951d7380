"""Provider settings. https://www.pulumi.com/registry/packages/kubernetes/installation-configuration/"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.engine.codec import UNKNOWN
from localcloud.engine.kubernetes.kubeconfig import BadKubeconfig, Kubeconfig

FLAGS = {
    "deleteUnreachable": "PULUMI_K8S_DELETE_UNREACHABLE",
    "skipUpdateUnreachable": "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE",
    "enablePatchForce": "PULUMI_K8S_ENABLE_PATCH_FORCE",
    "upsertExistingObjects": "PULUMI_K8S_UPSERT_EXISTING_OBJECTS",
    "enableConfigMapMutable": "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE",
    "enableSecretMutable": "PULUMI_K8S_ENABLE_SECRET_MUTABLE",
    "enableServerSideApply": "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY",
}
"""Maps a boolean setting to the environment variable of the engine that provides the value if the setting is missing."""
TEXTS = ("kubeconfig", "context", "cluster", "namespace", "clusterIdentifier")
WITHOUT_EFFECT = frozenset({"version", "pluginDownloadURL", "suppressDeprecationWarnings", "suppressHelmHookWarnings"})
"""Ignored settings. Two of them suppress warnings that this provider never shows."""
PLACE = ("kubeconfig", "context", "cluster")
CLIENT_LIMITS = frozenset({"burst", "qps", "timeout"})


@dataclass(frozen=True)
class Settings:
    """Provider settings from a provider resource or the stack's configuration."""

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    namespace: str = ""
    timeout_seconds: float | None = None
    delete_unreachable: bool = False
    skip_update_unreachable: bool = False
    patch_force: bool = False
    upsert: bool = False
    mutable_config_maps: bool = False
    mutable_secrets: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any], environment: Mapping[str, str]) -> "Settings":
        def is_flag_set(name: str) -> bool:
            value = config.get(name)
            return _is_true(environment.get(FLAGS[name]) if value is None else value)

        client = _parse_object(config.get("kubeClientSettings"))
        timeout = client.get("timeout") or environment.get("PULUMI_K8S_CLIENT_TIMEOUT")
        texts = {name: str(config.get(name) or "") for name in ("context", "cluster", "namespace")}
        return cls(
            **texts,
            kubeconfig=format_kubeconfig(config.get("kubeconfig")),
            timeout_seconds=float(timeout) if timeout else None,
            delete_unreachable=is_flag_set("deleteUnreachable"),
            skip_update_unreachable=is_flag_set("skipUpdateUnreachable"),
            patch_force=is_flag_set("enablePatchForce"),
            upsert=is_flag_set("upsertExistingObjects"),
            mutable_config_maps=is_flag_set("enableConfigMapMutable"),
            mutable_secrets=is_flag_set("enableSecretMutable"),
        )


def find_unsupported_settings(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the unsupported settings of a provider as (property, reason) pairs."""
    supported = {*FLAGS, *TEXTS, *WITHOUT_EFFECT, "kubeClientSettings"}
    refusals = [
        (name, f"the local Kubernetes provider does not support the provider setting {name}")
        for name in sorted(config)
        if name not in supported and not name.startswith("__")
    ]
    if config.get("enableServerSideApply") not in (None, UNKNOWN) and not _is_true(config["enableServerSideApply"]):
        refusals.append(("enableServerSideApply", "the local Kubernetes provider supports only server-side apply"))
    if config.get("kubeClientSettings") is not UNKNOWN:
        for name in sorted(_parse_object(config.get("kubeClientSettings")).keys() - CLIENT_LIMITS):
            refusals.append(("kubeClientSettings", f"the local Kubernetes provider does not support kubeClientSettings.{name}"))
    return refusals


def find_changed_settings(olds: Mapping[str, Any], news: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the changed settings, and the subset that requires replacing the provider and all its resources.

    As in the official provider, a changed cluster entry in the kubeconfig is treated as another cluster, unless
    `clusterIdentifier` is set.
    """
    changed = sorted(name for name in {*olds, *news} if not name.startswith("__") and olds.get(name) != news.get(name))
    identified = olds.get("clusterIdentifier") and news.get("clusterIdentifier")
    if identified and olds["clusterIdentifier"] != news["clusterIdentifier"]:
        return changed, ["clusterIdentifier"]
    if identified:
        return changed, []
    if unknown := [name for name in PLACE if news.get(name) is UNKNOWN]:
        return unknown[:1], unknown[:1]
    before, after = _find_active_cluster(olds), _find_active_cluster(news)
    moved = before is not None and after is not None and before != after
    return changed, [name for name in PLACE if name in changed] if moved else []


def format_kubeconfig(value: Any) -> str:
    """Return the kubeconfig as text. The setting may be text or an object."""
    return json.dumps(value) if isinstance(value, Mapping) else str(value or "")


def _find_active_cluster(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    text = format_kubeconfig(config.get("kubeconfig"))
    if not text:
        return None
    try:
        return Kubeconfig.load(text).active_cluster(config.get("context"), config.get("cluster"))
    except BadKubeconfig:
        return None


def _is_true(value: Any) -> bool:
    """Return whether a flag is set. The SDK passes settings as JSON text."""
    return value is True or value == "true"


def _parse_object(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str) and value:
        value = json.loads(value)
    return value if isinstance(value, Mapping) else {}
