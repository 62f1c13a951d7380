"""`scripts/cluster kubeconfig`: the way into a stack's cluster, from AWS's own answer; no Pulumi state is needed."""

import json
import sys
from pathlib import Path

import yaml

from cli.exit_codes import FINE, NO_CLUSTER, NOT_FOUND
from infra.config import stack_file
from infra.facts import FactsError
from infra.facts.clients import Clients, asked, is_error
from infra.naming import Naming


def run(stack: str, folder: Path, output: Path | None) -> int:
    try:
        path = stack_file.find(stack, folder)
    except stack_file.NoSuchStack as error:
        return _end(str(error), NOT_FOUND)
    raw = stack_file.read(path)
    if not raw.region:
        return _end("; ".join(str(problem) for problem in raw.problems) or f"{path.name} names no region", NOT_FOUND)
    name = Naming(raw.stack).cluster
    try:
        config = _config(name, raw.region)
    except FactsError as error:
        return _end(str(error), NO_CLUSTER)
    if config is None:
        return _end(f"there is no cluster {name} in {raw.region}; `pulumi up -s {stack}` makes it", NOT_FOUND)
    if output is None:
        print(config, end="")
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch(mode=0o600)
        output.write_text(config, encoding="utf-8")
    return FINE


def _config(name: str, region: str) -> str | None:
    """The kubeconfig; None where there is no such cluster. Raises FactsError where AWS cannot be asked."""
    from infra.kubernetes.eks_kubeconfig import kubeconfig  # loads Pulumi's SDK

    clients = Clients(region)

    def described() -> dict[str, str] | None:
        try:
            cluster = clients.eks.describe_cluster(name=name)["cluster"]
        except Exception as error:
            if is_error(error, "ResourceNotFoundException"):
                return None
            raise
        return {"endpoint": cluster.get("endpoint", ""), "ca": cluster.get("certificateAuthority", {}).get("data", "")}

    found = asked(region, described)
    if found is None or not found["endpoint"]:
        return None
    config = kubeconfig(name=name, endpoint=found["endpoint"], certificate_authority=found["ca"], region=region)
    return yaml.safe_dump(json.loads(config), sort_keys=False)


def _end(message: str, code: int) -> int:
    print(f"cluster kubeconfig: {message}", file=sys.stderr)
    return code
