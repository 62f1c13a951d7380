"""Connect to the Kubernetes cluster of a stack."""

from pathlib import Path

from cli.clusters.kubernetes_access import Access, Cluster
from cli.clusters.status.in_aws import EksAccount, EksDescription
from cli.errors import CommandError, NotFound
from cli.exit_codes import REFUSED, UNREACHABLE, USAGE
from infra.config import stack_file
from infra.facts import FactsError
from infra.facts.clients import Denied
from infra.facts.regions import UnknownRegion
from infra.naming import Naming


def connect(stack: str | None, folder: Path, access: Access, scratch: Path) -> Cluster:
    """Return a client for the stack's cluster or, if `stack` is None, for the kubeconfig's cluster. Raises CommandError
    if the given kubeconfig belongs to a cluster other than the stack's.

    For EKS, without --kubeconfig and --context, a kubeconfig is built from what AWS reports and written to `scratch`.
    If AWS cannot be queried, the default kubeconfig is used.
    """
    if stack is None:
        return access.connect()
    raw = stack_file.read(stack_file.find(stack, folder))
    target = raw.values.get("target")
    kind = target.get("kind") if isinstance(target, dict) else None
    if kind == "ec2":
        raise CommandError(f"{stack} is an EC2 cluster, without Kubernetes; see its nodes with `scripts/cluster hosts`", USAGE)
    if kind == "eks" and not (access.kubeconfig or access.context):
        if not raw.region:
            raise CommandError("; ".join(map(str, raw.problems)) or "aws:region: is missing", REFUSED)
        try:
            return connect_to_eks(EksAccount(raw.stack, raw.region), scratch)
        except UnknownRegion:
            raise
        except (FactsError, Denied) as error:
            reason = f"you are not allowed to call {error}" if isinstance(error, Denied) else str(error)
            return connect_with_kubeconfig(
                access, Naming(raw.stack).cluster, f"AWS could not describe the cluster ({reason}), and "
            )
    return connect_with_kubeconfig(access, Naming(raw.stack).cluster)


def connect_with_kubeconfig(access: Access, name: str, before: str = "") -> Cluster:
    try:
        cluster = access.connect()
        check_cluster_name(cluster.description().cluster, name)
    except CommandError as error:
        raise CommandError(f"{before}{error}", error.code) from None
    return cluster


def connect_to_eks(account: EksAccount, scratch: Path) -> Cluster:
    description = account.cluster()
    if description is None:
        raise NotFound(explain_missing_cluster(account))
    return connect_to_described(description, account.region, scratch)


def explain_missing_cluster(account: EksAccount) -> str:
    return f"there is no cluster {account.name} in {account.region}; `pulumi up -s {account.stack}` creates it"


def connect_to_described(description: EksDescription, region: str, scratch: Path) -> Cluster:
    """Return a client with a kubeconfig built from what AWS reports."""
    from infra.kubernetes.eks_credentials import kubeconfig

    if not description.endpoint:
        raise CommandError(f"cluster {description.name} is {description.state} and has no endpoint yet", UNREACHABLE)
    file = scratch / "kubeconfig"
    file.write_text(
        kubeconfig(
            name=description.name,
            endpoint=description.endpoint,
            certificate_authority=description.certificate_authority,
            region=region,
        )
    )
    return Cluster(file, None)


def check_cluster_name(cluster: str, name: str) -> None:
    """Raise CommandError if the kubeconfig belongs to a cluster other than the stack's."""
    if cluster != name:
        fix = "choose another with --kubeconfig and --context, or omit the stack"
        raise CommandError(f"the kubeconfig belongs to cluster {cluster}, not to {name}; {fix}", REFUSED)
