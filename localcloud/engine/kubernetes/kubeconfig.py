"""Parser for kubeconfig files: cluster address and credentials.

https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

CLUSTER_FIELDS = (
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "proxy-url",
    "disable-compression",
    "extensions",
)
USER_FIELDS = (
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "token",
    "tokenFile",
    "username",
    "password",
    "exec",
    "extensions",
)


class BadKubeconfig(Exception):
    """The kubeconfig cannot be read, is incomplete, or has unsupported fields."""


@dataclass(frozen=True)
class Exec:
    """Credential plugin (`exec`) of a kubeconfig user.
    https://kubernetes.io/docs/reference/config-api/client-authentication.v1/"""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Access:
    """Address and credentials of a cluster."""

    server: str
    authority: bytes | None = None
    """CA certificates in PEM format."""
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    token: str | None = None
    token_file: str | None = None
    basic: tuple[str, str] | None = None
    exec: Exec | None = None
    namespace: str = "default"


@dataclass(frozen=True)
class Kubeconfig:
    """A parsed kubeconfig."""

    clusters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    users: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    contexts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    current: str = ""
    folder: Path = Path()
    """Base folder for relative paths in the kubeconfig."""

    @classmethod
    def load(cls, path_or_content: str) -> "Kubeconfig":
        """Load a kubeconfig, given its path or content. Raises BadKubeconfig."""
        path = _find_file(path_or_content)
        try:
            parsed = yaml.safe_load(path.read_text() if path else path_or_content)
        except (OSError, yaml.YAMLError) as error:
            raise BadKubeconfig(str(error)) from error
        if not isinstance(parsed, Mapping):
            raise BadKubeconfig("neither a kubeconfig nor the path of an existing file")
        named = {
            kind: {entry.get("name"): entry.get(kind.removesuffix("s")) or {} for entry in parsed.get(kind) or []}
            for kind in ("clusters", "users", "contexts")
        }
        return cls(**named, current=parsed.get("current-context") or "", folder=path.parent if path else Path())

    def active_cluster(self, context: str | None, cluster: str | None) -> Mapping[str, Any] | None:
        """Return the entry of `cluster` or, by default, of the context's cluster; None if the context or the cluster is
        missing.
        """
        chosen = self.contexts.get(context or self.current)
        return None if chosen is None else self.clusters.get(cluster or str(chosen.get("cluster")))

    def read_access(self, context: str | None = None, cluster: str | None = None) -> Access:
        """Return the cluster address and credentials of a context. Raises BadKubeconfig."""
        called = context or self.current
        if not called and not self.contexts:
            raise BadKubeconfig("invalid configuration: no configuration has been provided")
        chosen = self.contexts.get(called)
        if chosen is None:
            raise BadKubeconfig(f'context "{called}" does not exist')
        place = self._get_entry("cluster", self.clusters, cluster or str(chosen.get("cluster", "")), CLUSTER_FIELDS)
        user = self._get_entry("user", self.users, str(chosen.get("user", "")), USER_FIELDS) if chosen.get("user") else {}
        if not place.get("server"):
            raise BadKubeconfig(f'the cluster of context "{called}" has no server')
        return Access(
            server=str(place["server"]).rstrip("/"),
            authority=self._read_data_or_file(place, "certificate-authority"),
            insecure=bool(place.get("insecure-skip-tls-verify")),
            server_name=place.get("tls-server-name"),
            proxy=place.get("proxy-url"),
            certificate=self._read_data_or_file(user, "client-certificate"),
            key=self._read_data_or_file(user, "client-key"),
            token=user.get("token"),
            token_file=str(self.folder / user["tokenFile"]) if user.get("tokenFile") else None,
            basic=(str(user["username"]), str(user.get("password", ""))) if user.get("username") else None,
            exec=_parse_exec(user.get("exec")),
            namespace=chosen.get("namespace") or "default",
        )

    def _get_entry(
        self, what: str, entries: Mapping[str, Mapping[str, Any]], called: str, supported: tuple[str, ...]
    ) -> Mapping[str, Any]:
        if called not in entries:
            raise BadKubeconfig(f'{what} "{called}" does not exist')
        for name in entries[called]:
            if name not in supported:
                raise BadKubeconfig(f'the local Kubernetes provider does not support "{name}" of {what} "{called}"')
        return entries[called]

    def _read_data_or_file(self, entry: Mapping[str, Any], name: str) -> bytes | None:
        try:
            if entry.get(f"{name}-data"):
                return base64.b64decode(entry[f"{name}-data"], validate=True)
            return (self.folder / entry[name]).read_bytes() if entry.get(name) else None
        except (OSError, binascii.Error) as error:
            raise BadKubeconfig(f"{name}: {error}") from error


def _find_file(path_or_content: str) -> Path | None:
    """Return the path if the text is the path of an existing file, else None. Text with line breaks is never a path."""
    if "\n" in path_or_content.strip() or path_or_content.lstrip().startswith("{"):
        return None
    path = Path(path_or_content).expanduser()
    return path if path.is_file() else None


def _parse_exec(entry: Mapping[str, Any] | None) -> Exec | None:
    if not entry:
        return None
    if not entry.get("command"):
        raise BadKubeconfig("exec has no command")
    return Exec(
        api_version=str(entry.get("apiVersion", "client.authentication.k8s.io/v1")),
        command=str(entry["command"]),
        args=tuple(str(argument) for argument in entry.get("args") or ()),
        env=tuple((str(variable["name"]), str(variable["value"])) for variable in entry.get("env") or ()),
    )
