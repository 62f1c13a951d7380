"""A platform with Kueue 0.15, which earlier releases of this program installed, and Kueue's objects in etcd."""

import base64
import hashlib
import json
import shutil
import ssl
import urllib.request
from pathlib import Path
from typing import Any, Final

from infra.naming import QUEUE_GROUP
from infra.versions import KUEUE, KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS
from localcloud import mirror
from localcloud.images.build import ensure_image
from localcloud.images.catalogue import KUEUE_0_15
from localcloud.machine import network
from localcloud.tools.catalogue import KUEUE_BEFORE
from testkit.eks_clusters import Running
from testkit.former_program import copy_program

FORMER: Final = f"v{KUEUE_BEFORE.version}"
FILES: Final = (*KUEUE_CRDS, KUEUE_ROLE, KUEUE_WEBHOOKS)


def fill_mirror(folder: Path) -> Path:
    """Create a mirror with the manifests of this program and of Kueue 0.15."""
    shutil.copytree(mirror.ensure(print), folder)
    go = shutil.which("go")
    assert go, "building Kueue needed it"
    source = mirror.downloaded(go, f"{mirror.MODULES[KUEUE_ROLE.repository]}@{FORMER}")
    for file in FILES:
        target = folder / file.repository / FORMER / file.file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file.file, target)
    return folder


def former_program(folder: Path, manifests: Path) -> Path:
    """Copy the Pulumi program, set the version and hashes of Kueue 0.15 in the copy, and build Kueue 0.15's image."""
    ensure_image(KUEUE_0_15, print)
    pins = {f'KUEUE: Final = "{KUEUE}"': f'KUEUE: Final = "{FORMER}"'}
    for file in FILES:
        former = hashlib.sha256((manifests / file.repository / FORMER / file.file).read_bytes()).hexdigest()
        pins |= {file.sha256: former} if former != file.sha256 else {}
    return copy_program(folder, pins)


def stored_versions(running: Running) -> dict[str, str]:
    """Return the API version in which the cluster's etcd stores each of Kueue's objects."""
    start, end = f"/registry/{QUEUE_GROUP}/", f"/registry/{QUEUE_GROUP}0"  # "0" follows "/"
    body = {name: base64.b64encode(key.encode()).decode() for name, key in (("key", start), ("range_end", end))}
    keys = running.folder / "pki"
    context = ssl.create_default_context(cafile=keys / "ca.crt")
    context.load_cert_chain(keys / "etcd-client.crt", keys / "etcd-client.key")
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)

    def ask() -> Any:
        with urllib.request.build_opener(*handlers).open(
            "https://127.0.0.1:2379/v3/kv/range", json.dumps(body).encode(), timeout=10
        ) as answer:
            return json.load(answer)

    found = network.inside(running.state.namespace, ask)
    decoded = {base64.b64decode(one["key"]).decode(): json.loads(base64.b64decode(one["value"])) for one in found["kvs"]}
    return {key.removeprefix(start): one["apiVersion"].removeprefix(f"{QUEUE_GROUP}/") for key, one in decoded.items()}
