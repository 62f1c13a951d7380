"""Failures of operations, worded as in the official provider."""

from collections.abc import Iterable

from localcloud.engine.kubernetes.api import ApiError
from localcloud.engine.kubernetes.checkpoint import Masks
from localcloud.engine.kubernetes.objects import Object

CONFLICT_HELP = (
    "https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/"
    "managing-resources-with-server-side-apply/#handle-field-conflicts-on-existing-resources"
)
EXISTS_HELP = """

The resource already exists in the cluster. This can happen when:

  - Renaming a Pulumi resource: use an alias to preserve the identity,
    or use deleteBeforeReplace if the resource needs replacement.
  - Managing an existing resource: use a Patch resource (e.g. NamespacePatch)
    to manage specific fields without owning the resource lifecycle.
  - Adopting a resource into Pulumi: use `pulumi import`. Note that
    protected resources (e.g. kube-system) cannot be deleted on destroy.
  - Intentional upsert: set upsertExistingObjects on the provider to allow
    server-side apply to update existing objects on create."""
"""pulumi/pulumi-kubernetes@94977969d:provider/pkg/await/await.go (Creation)"""
REMOVAL_HELP = (
    "you can remove this resource from Pulumi state by rerunning the operation with the "
    'PULUMI_K8S_DELETE_UNREACHABLE environment variable set to "true"'
)


class OperationFailed(Exception):
    """The operation failed without changing anything that the engine must record."""


class InitializationFailed(Exception):
    """The object exists but was not fully initialized. The engine records `id` and `state` and retries at the next
    update."""

    def __init__(self, id: str, state: Object, secrets: Masks, reasons: Iterable[str], inputs: Object | None = None) -> None:
        self.reasons = list(reasons)
        super().__init__(self.reasons[0])
        self.id = id
        self.state = state
        self.secrets = secrets
        self.inputs = inputs
        """Inputs that a refresh found in the cluster."""


def format_server_error(error: Exception, manager: str) -> str:
    """Return the server's error with the official provider's help text. For a conflict, the error lists the fields and
    their managers."""
    if isinstance(error, ApiError) and error.is_already_exists:
        return f"{error}{EXISTS_HELP}"
    if isinstance(error, ApiError) and error.is_conflict:
        return (
            f"server-side apply field conflict detected, see {CONFLICT_HELP} for troubleshooting help\n"
            f'The resource managed by field manager "{manager}" had an apply conflict: {error}'
        )
    return str(error)
