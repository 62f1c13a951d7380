"""Choose the files of a folder to send: all except .git, files that git ignores, and secrets."""

import hashlib
import os
import re
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from cli.errors import CommandError, NotFound
from cli.exit_codes import REFUSED
from cli.jobs.workdir import git_files
from infra.config.secrets import detect_secret_kind

LIMIT_MIB: Final = 200
MIB: Final = 1 << 20
READ_FOR_SECRETS: Final = MIB
"""Maximum size of files that are searched for secrets."""
LARGEST_SHOWN: Final = 3

SECRET_FILES: Final = (
    *(".env", ".env.*", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".dockercfg", ".htpasswd"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.ppk", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"),
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig", "service-account*.json"),
)
SECRET_FOLDERS: Final = (".aws", ".azure", ".docker", ".gnupg", ".kube", ".ssh", ".pulumi")
HARMLESS: Final = (".env.example", ".env.sample", ".env.template")
_SECRET_OBJECT: Final = re.compile(r"^kind:\s*[\"']?Secret\b", re.MULTILINE)
_UNUSABLE_NAME: Final = re.compile(r"[\n\r\\]")


@dataclass(frozen=True)
class SentFile:
    """A file to send. The path is relative to the folder."""

    path: str
    size: int
    digest: str
    """SHA-256 in hexadecimal."""
    executable: bool


@dataclass(frozen=True)
class Selection:
    """The files of a folder to send, and the files left out."""

    root: Path
    files: tuple[SentFile, ...]
    links: tuple[str, ...]
    left_out: tuple[str, ...]
    """Paths that are not sent, each with the reason. Files that git ignores are not listed."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def select_files(folder: Path, limit_mib: int = LIMIT_MIB) -> Selection:
    """Choose the files of a folder to send. Raises CommandError if the folder does not exist or is too large."""
    root = folder.resolve()
    if not root.is_dir():
        raise NotFound(f"workdir: {folder} is not a folder on this machine")
    names, left_out = [], []
    for name in sorted(set(git_files.list_files(root))):
        reason = explain_refusal(root, name)
        if reason:
            left_out.append(f"{name} ({reason})")
        elif os.path.lexists(root / name):  # git also lists deleted files whose deletion is not staged
            names.append(name)
    _check_size(root, names, limit_mib)
    files, links = [], []
    for name in names:
        if (root / name).is_symlink():
            links.append(name)
            continue
        content = (root / name).read_bytes()
        if secret := describe_secret(content, name):
            left_out.append(f"{name} ({secret})")
            continue
        executable = os.access(root / name, os.X_OK)
        files.append(SentFile(name, len(content), hashlib.sha256(content).hexdigest(), executable))
    return Selection(root, tuple(files), tuple(links), tuple(left_out))


def explain_refusal(root: Path, name: str) -> str:
    """Return why a file must not be sent, judged by its path and type; empty if it may be sent."""
    path, parts = root / name, name.split("/")
    if _UNUSABLE_NAME.search(name):
        return "a line break or backslash in its name"
    if any(part in SECRET_FOLDERS for part in parts[:-1]):
        return "credentials"
    if parts[-1] not in HARMLESS and any(fnmatch(parts[-1], pattern) for pattern in SECRET_FILES):
        return "may contain a secret"
    if path.is_symlink():
        target = path.readlink()
        inside = not target.is_absolute() and Path(os.path.normpath(path.parent / target)).is_relative_to(root)
        return "" if inside else "a link to a file outside the folder"
    if path.exists() and not path.is_file():
        return "not a regular file"
    return ""


def describe_secret(content: bytes, name: str) -> str:
    """Return a clause such as `contains a Kubernetes Secret`; empty if the file contains no secret."""
    if len(content) > READ_FOR_SECRETS or b"\0" in content:
        return ""
    text = content.decode(errors="replace")
    if name.endswith((".yaml", ".yml")) and _SECRET_OBJECT.search(text):
        return "contains a Kubernetes Secret"
    kind = detect_secret_kind(text)
    return f"contains {kind}" if kind else ""


def _check_size(root: Path, names: list[str], limit_mib: int) -> None:
    sizes = {name: (root / name).lstat().st_size for name in names}
    total = sum(sizes.values())
    if total <= limit_mib * MIB:
        return
    largest = sorted(sizes, key=lambda name: -sizes[name])[:LARGEST_SHOWN]
    listed = ", ".join(f"{name} ({sizes[name] / MIB:.1f} MiB)" for name in largest)
    fix = "List large files in .gitignore and put data on the shared volume, or raise --workdir-limit."
    message = f"workdir: {root} has {total / MIB:.1f} MiB to send; the limit is {limit_mib} MiB. Largest files: {listed}. {fix}"
    raise CommandError(message, REFUSED)
