"""Connect to the Kubernetes cluster of a stack."""

from pathlib import Path

from cli.aws_queries import explain_query_error, require_region
from cli.clusters.kubernetes_access import Access, Cluster
from cli.clusters.status.in_aws import EksAccount, EksDescription
from cli.errors import CommandError, NotFound
from cli.exit_codes import REFUSED, UNREACHABLE, USAGE
from infra.config import stack_file
from infra.facts.clients import Denied
from infra.facts.model import FactsError
from infra.facts.regions import UnknownRegion
from infra.naming import Naming


def connect_to_stack(stack: str | None, folder: Path, access: Access, scratch: Path) -> Cluster:
    """Return a client for the stack's cluster or, if `stack` is None, for the kubeconfig's cluster. Raises CommandError
    if the given kubeconfig belongs to a cluster other than the stack's.

    For EKS, without --kubeconfig and --context, a kubeconfig is built from what AWS reports and written to `scratch`.
    If AWS cannot be queried, the default kubeconfig is used.
    """
    if stack is None:
        return access.connect()
    raw = stack_file.read_stack_file(stack_file.find_stack_file(stack, folder))
    if raw.target_kind == "ec2":
        raise CommandError(f"{stack} is an EC2 cluster, without Kubernetes; see its nodes with `scripts/cluster hosts`", USAGE)
    if raw.target_kind == "eks" and not (access.kubeconfig or access.context):
        account = EksAccount(raw.stack, require_region(raw))
        try:
            description = account.cluster()
        except UnknownRegion:
            raise
        except (FactsError, Denied) as error:
            before = f"AWS could not describe the cluster ({explain_query_error(error)}), and "
            return connect_with_kubeconfig(access, account.name, before)
        if description is None:
            raise NotFound(explain_missing_cluster(account))
        return connect_to_described(description, account.region, scratch)
    return connect_with_kubeconfig(access, Naming(raw.stack).cluster)


def connect_with_kubeconfig(access: Access, name: str, before: str = "") -> Cluster:
    try:
        cluster = access.connect()
        check_cluster_name(cluster.description().cluster, name)
    except CommandError as error:
        raise CommandError(f"{before}{error}", error.code) from None
    return cluster


def explain_missing_cluster(account: EksAccount) -> str:
    return f"there is no cluster {account.name} in {account.region}; `pulumi up -s {account.stack}` creates it"


def connect_to_described(description: EksDescription, region: str, scratch: Path) -> Cluster:
    """Return a client with a kubeconfig built from what AWS reports."""
    if not description.endpoint:
        raise CommandError(f"cluster {description.name} is {description.state} and has no endpoint yet", UNREACHABLE)
    file = scratch / "kubeconfig"
    file.write_text(build_kubeconfig(description, region))
    return Cluster(file, None)


def build_kubeconfig(cluster: EksDescription, region: str) -> str:
    from infra.kubernetes.eks_credentials import render_eks_kubeconfig

    authority = cluster.certificate_authority
    return render_eks_kubeconfig(name=cluster.name, endpoint=cluster.endpoint, certificate_authority=authority, region=region)


def check_cluster_name(cluster: str, name: str) -> None:
    """Raise CommandError if the kubeconfig belongs to a cluster other than the stack's."""
    if cluster != name:
        fix = "choose another with --kubeconfig and --context, or omit the stack"
        raise CommandError(f"the kubeconfig belongs to cluster {cluster}, not to {name}; {fix}", REFUSED)
