"""`kubeconfig`: build a kubeconfig from the endpoint and CA that EKS reports. Needs no Pulumi state."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from cli import options, whole_files
from cli.console import print_json
from cli.errors import CommandError, NotFound
from cli.exit_codes import OK, REFUSED, UNREACHABLE, USAGE
from infra.config import stack_file, yaml_text
from infra.config.messages import shown
from infra.config.problems import path_text
from infra.facts.clients import Clients, Denied, is_error, query
from infra.kubernetes import kubeconfig_files
from infra.naming import Naming

KEYS: Final = {"apiVersion", "clusters", "contexts", "current-context", "extensions", "kind", "preferences", "users"}
"""Keys of a kubeconfig: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/#Config"""


def command(
    stack: options.Stack,
    config_dir: options.ConfigDir = options.STACK_FILES,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Add to this file, readable only by you.", show_default="stdout")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """The kubeconfig holds no secret: kubectl authenticates with your AWS credentials, through `aws eks get-token`.

    With --output, other clusters, users and contexts in the file stay, and the cluster's context becomes the current one.
    """
    raw = stack_file.read(stack_file.find(stack, config_dir))
    if stack_file.is_existing(raw.values):
        raise CommandError(f"{stack} uses an existing cluster: get the kubeconfig from its administrator", USAGE)
    if not raw.region:
        reason = "; ".join(str(problem) for problem in raw.problems) or "aws:region: is missing"
        raise CommandError(reason, REFUSED)
    name = Naming(raw.stack).cluster
    config = build_kubeconfig(name, raw.region)
    if config is None:
        raise NotFound(f"there is no cluster {name} in {raw.region}; `pulumi up -s {stack}` creates it")
    if output is not None:
        config = merge_kubeconfigs(output, config)
    text = f"{json.dumps(config, indent=1)}\n" if as_json else yaml.safe_dump(config, sort_keys=False)
    if output is not None:
        whole_files.write(output, text, private=True)
    elif as_json:
        print_json(config)
    else:
        print(text, end="")
    return OK


def merge_kubeconfigs(file: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Return the content of an existing kubeconfig with the cluster, user and context of `config`, which becomes the current
    context. Raises CommandError if the file is not a kubeconfig."""
    if not file.is_file():
        return config
    try:
        before, (_, duplicates) = kubeconfig_files.content_of(file), yaml_text.read(file)
    except kubeconfig_files.Unusable as error:
        raise CommandError(f"--output: {error}. Choose another file.", REFUSED) from None
    if duplicates:  # only the last value would stay
        where, what = path_text(duplicates[0].path), duplicates[0].message
        raise CommandError(f"--output: {file}: {where} {what}, or choose another file.", REFUSED)
    merged = {**config, **before, "current-context": config["current-context"]}
    for key in merged:
        if key not in KEYS:
            raise CommandError(f"--output: {file} is not a kubeconfig: it has a key {shown(key)}. Choose another file.", REFUSED)
    for kind in ("clusters", "contexts", "users"):
        (own,) = config[kind]
        entries = list(before.get(kind) or ())
        place = next((index for index, entry in enumerate(entries) if entry["name"] == own["name"]), len(entries))
        if kind == "contexts" and place < len(entries):  # the user's default namespace stays
            own = {**own, "context": {**(entries[place].get("context") or {}), **own["context"]}}
        merged[kind] = [*entries[:place], own, *entries[place + 1 :]]
    return merged


def build_kubeconfig(name: str, region: str) -> Any:
    """Return the kubeconfig, or None if the cluster does not exist or has no endpoint yet.

    Raises FactsError if AWS cannot be queried.
    """
    from infra.kubernetes.eks_credentials import kubeconfig

    clients = Clients(region)

    def describe() -> dict[str, str] | None:
        try:
            cluster = clients.eks.describe_cluster(name=name)["cluster"]
        except Exception as error:
            if is_error(error, "ResourceNotFoundException"):
                return None
            raise
        return {"endpoint": cluster.get("endpoint", ""), "ca": cluster.get("certificateAuthority", {}).get("data", "")}

    try:
        description = query(region, describe)
    except Denied as denied:
        raise CommandError(f"you are not allowed to call {denied}; ask for that permission", UNREACHABLE) from None
    if description is None or not description["endpoint"]:
        return None
    return json.loads(
        kubeconfig(name=name, endpoint=description["endpoint"], certificate_authority=description["ca"], region=region)
    )
