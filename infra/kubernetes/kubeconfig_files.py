"""Kubeconfig files: which ones apply, and their merged content, by the rules of kubectl.

https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files. The
`kubernetes` package merges differently: with it, the last file decides the current context.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from infra.config import yaml_text
from infra.config.messages import format_value, join_with_and, join_with_or, suggest_correction

_KINDS: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
"""Maps a list in a kubeconfig to the key of the body of its entries."""
PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
"""Values of clusters and users that are paths, relative to the file that contains them."""

Body = Mapping[str, Any]


class Unusable(Exception):
    """The kubeconfig cannot be used. The message tells the user why. It contains no value of the kubeconfig except names and
    the server's address, because the other values may be secrets."""


@dataclass(frozen=True)
class Entry:
    """A cluster, a user or a context, with the file that defines it."""

    body: Body
    file: Path


@dataclass(frozen=True)
class Merged:
    """Content of all kubeconfig files. If several entries have the same name, the first one counts."""

    files: str
    current: str = ""
    """Name of the current context; empty if no file sets one."""
    entries: Mapping[str, dict[str, Entry]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})

    def resolve_context(self, name: str | None) -> str:
        """Return the name of a context, by default of the current one. Raises Unusable if the context does not exist."""
        names = list(self.entries["contexts"])
        if name is not None and name not in names:
            has = f"It has {join_with_or(names)}" if names else "It has no contexts"
            raise Unusable(f"{self.files} has no context {format_value(name)}{suggest_correction(name, names) or '.'} {has}")
        if name is None and self.current not in names:
            what = (
                f"has no context {format_value(self.current)}, its current context" if self.current else "has no current context"
            )
            fix = f"Choose {join_with_or(names)} with --context or `kubectl config use-context`" if names else "Add a context"
            raise Unusable(f"{self.files} {what}. {fix}")
        return self.current if name is None else name

    def find_parts(self, context: str) -> dict[str, tuple[str, Entry]]:
        """Return the name and definition of an existing context, of its cluster and, if it has one, of its user. Raises
        Unusable."""
        chosen = self.entries["contexts"][context]
        parts = {"contexts": (context, chosen)}
        for kind in ("clusters", "users"):
            name = chosen.body.get(_KINDS[kind])
            if kind == "users" and name is None:
                continue
            if not isinstance(name, str) or name not in self.entries[kind]:
                what = f"its {_KINDS[kind]} {format_value(name)} is not defined" if name else f"it has no {_KINDS[kind]}"
                raise Unusable(f"context {format_value(context)} of {self.files} cannot be used: {what}")
            parts[kind] = name, self.entries[kind][name]
        return parts

    def extract_context(self, context: str) -> dict[str, Any]:
        """Return a kubeconfig with only this context and its parts, and with absolute paths. Raises Unusable."""
        parts = self.find_parts(context)
        lists: dict[str, Any] = {kind: [] for kind in _KINDS}
        for kind, (name, entry) in parts.items():
            lists[kind] = [{"name": name, _KINDS[kind]: _make_paths_absolute(entry)}]
        return {"apiVersion": "v1", "kind": "Config", "current-context": context, **lists}


def _make_paths_absolute(entry: Entry) -> dict[str, Any]:
    """Return a cluster, user or context. Relative paths are relative to the folder of the file."""
    body, folder = dict(entry.body), entry.file.absolute().parent
    for key in PATHS:
        if body.get(key):
            body[key] = os.path.normpath(folder / str(body[key]))
    plugin = body.get("exec")
    if isinstance(plugin, Mapping) and "/" in str(plugin.get("command")):
        body["exec"] = {**plugin, "command": os.path.normpath(folder / str(plugin["command"]))}
    return body


def list_kubeconfig_paths(kubeconfig: Path | None) -> list[Path]:
    """Return the kubeconfig files that kubectl would use, including missing ones: the given file, or else those in
    KUBECONFIG, or else ~/.kube/config."""
    if kubeconfig:
        return [kubeconfig]
    listed = [_expand_home(file) for file in os.environ.get("KUBECONFIG", "").split(os.pathsep) if file]
    return list(dict.fromkeys(listed)) or [Path.home() / ".kube" / "config"]


def _expand_home(file: str) -> Path:
    return Path.home() / file.removeprefix("~/") if file.startswith("~/") else Path(file)


def read_kubeconfigs(kubeconfig: Path | None) -> Merged:
    """Read and merge the kubeconfig files; skip missing ones. Raises Unusable."""
    candidates = list_kubeconfig_paths(kubeconfig)
    present = [path for path in candidates if not _is_missing(path)]
    if kubeconfig and not present:
        raise Unusable(f"the kubeconfig {kubeconfig} does not exist")
    if not present:
        names = join_with_and(map(str, candidates))
        what = f"kubeconfig {names} does not exist" if len(candidates) == 1 else f"kubeconfigs {names} do not exist"
        raise Unusable(f"the {what}. Set --kubeconfig or KUBECONFIG, or create it: scripts/cluster kubeconfig -s STACK")
    current = ""
    entries: dict[str, dict[str, Entry]] = {kind: {} for kind in _KINDS}
    for path in present:
        content = read_kubeconfig(path)
        current = current or content.get("current-context") or ""
        for kind, body in _KINDS.items():
            for entry in content.get(kind) or ():
                entries[kind].setdefault(entry["name"], Entry(entry.get(body) or {}, path))
    return Merged(os.pathsep.join(map(str, present)), current, entries)


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # `read_kubeconfig` reports it
        return False
    return False


def read_kubeconfig(path: Path) -> dict[str, Any]:
    """Return the content of one kubeconfig; an empty file has no content. Raises Unusable."""
    try:
        content, _ = yaml_text.read_document(path)
    except OSError as error:
        raise Unusable(f"{path} cannot be read: {error.strerror}") from None
    except (yaml_text.NotYaml, ValueError) as error:  # the messages of parsers may quote secrets
        line = re.search(r", line \d+", str(error))
        raise Unusable(f"{path} is not a usable kubeconfig: it is not YAML{line[0] if line else ''}") from None
    if content is None:
        return {}
    if reason := _find_format_problem(content):
        raise Unusable(f"{path} is not a usable kubeconfig: {reason}")
    kubeconfig: dict[str, Any] = content
    return kubeconfig


def _find_format_problem(content: object) -> str | None:
    """Return what is wrong with the structure of a kubeconfig."""
    if not isinstance(content, dict):
        return "it is not a mapping with clusters, contexts and users"
    if content.get("kind", "Config") != "Config":
        return "its kind is not Config"
    if not isinstance(content.get("current-context") or "", str):
        return "current-context is not text"
    for kind, body in _KINDS.items():
        entries, names = content.get(kind) or [], set()
        if not isinstance(entries, list):
            return f"{kind} is not a list"
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                return f"{kind}[{index}] has no name"
            if not isinstance(entry.get(body) or {}, dict):
                return f"{body} of {kind}[{index}] is not a mapping"
            if kind == "contexts" and not isinstance((entry.get(body) or {}).get("namespace") or "", str):
                return f"the namespace of {kind}[{index}] is not text"
            if entry["name"] in names:
                return f"{kind} lists {format_value(entry['name'])} twice"
            names.add(entry["name"])
    return None
