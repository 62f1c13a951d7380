"""`migrate-queue`: store Kueue's objects in the API version of the installed Kueue.

Kubernetes converts an object to the storage version of its kind only when a client writes the object, and refuses to
remove an API version in which objects may still be stored. Kueue 0.16 stores v1beta2, and later releases drop v1beta1.
Like Kueue's own script (kubernetes-sigs/kueue@v0.16.1:hack/migrate-to-v1beta2.sh), this verb rewrites all objects. It
then records in each CustomResourceDefinition that no object is stored in an earlier version.
"""

from typing import Any, Final

from cli import options
from cli.clusters.kubernetes_access import Access, Cluster, Object
from cli.console import print_json
from cli.errors import CommandError, Conflict, NotFound
from cli.exit_codes import NOT_FOUND, OK
from infra.naming import QUEUE_GROUP

DEFINITION: Final = "CustomResourceDefinition"
ATTEMPTS: Final = 5


def command(kubeconfig: options.Kubeconfig = None, context: options.Context = None, as_json: options.Json = False) -> int:
    """Run it once after `pulumi up` has installed a newer Kueue. Jobs keep running. It needs cluster-admin."""
    cluster = Access(kubeconfig, context).connect()
    found = [one for one in cluster.list(DEFINITION) if one["spec"]["group"] == QUEUE_GROUP]
    if not found:
        raise CommandError(f"Kueue is not installed on {cluster.server}; `platform.queue: true` installs it", NOT_FOUND)
    written = {one["spec"]["names"]["plural"]: migrate(cluster, one) for one in found if _outdated(one)}
    versions = sorted({storage_version(one) for one in found})
    if as_json:
        print_json({"storedAs": versions, "rewritten": written})
        return OK
    for kind, count in written.items():
        print(f"{kind}: {count} objects rewritten")
    print(f"Kueue's objects are stored as {', '.join(versions)}")
    return OK


def storage_version(definition: Object) -> str:
    return next(str(one["name"]) for one in definition["spec"]["versions"] if one["storage"])


def _outdated(definition: Object) -> bool:
    """Return whether objects may still be stored in a version other than the current storage version."""
    return bool(definition["status"]["storedVersions"] != [storage_version(definition)])


def migrate(cluster: Cluster, definition: Object) -> int:
    """Rewrite all objects of a kind unchanged, record the storage version, and return the number of objects."""
    version, names = storage_version(definition), definition["spec"]["names"]
    path = f"apis/{QUEUE_GROUP}/{version}/{{namespace}}{names['plural']}"
    objects = cluster.list_at(path, names["kind"])
    for one in objects:
        try:
            # The items of a list do not contain their kind.
            cluster.replace({**one, "apiVersion": f"{QUEUE_GROUP}/{version}", "kind": names["kind"]}, path)
        except (Conflict, NotFound):
            continue  # another client has since written or deleted the object, so it is no longer stored in the earlier version
    _record(cluster, definition["metadata"]["name"], version)
    return len(objects)


def _record(cluster: Cluster, name: str, version: str) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        now: dict[str, Any] = cluster.get(DEFINITION, name)
        now["status"]["storedVersions"] = [version]
        try:
            cluster.replace(now, subresource="status")
        except Conflict:  # the API server also updates the status
            if attempt == ATTEMPTS:
                raise
        else:
            return
