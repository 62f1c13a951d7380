"""`kubeconfig`: build a kubeconfig from the endpoint and CA that EKS reports. Needs no Pulumi state."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from cli import options, whole_files
from cli.aws_queries import query_aws, require_region
from cli.clusters import stack_cluster
from cli.clusters.status.in_aws import EksAccount
from cli.console import print_json
from cli.errors import CommandError, NotFound
from cli.exit_codes import OK, REFUSED, USAGE
from infra.config import stack_file, yaml_text
from infra.config.messages import format_value
from infra.config.problems import format_path
from infra.kubernetes import kubeconfig_files

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

    With --output, other clusters, users and contexts in the file are kept, and the cluster's context becomes the current one.
    """
    raw = stack_file.read_stack_file(stack_file.find_stack_file(stack, config_dir))
    if stack_file.uses_existing_cluster(raw.values):
        raise CommandError(f"{stack} uses an existing cluster: get the kubeconfig from its administrator", USAGE)
    config = build_kubeconfig(EksAccount(raw.stack, require_region(raw)))
    if output is not None:
        config = merge_kubeconfigs(output, config)
    text = f"{json.dumps(config, indent=1)}\n" if as_json else yaml.safe_dump(config, sort_keys=False)
    if output is not None:
        whole_files.write_file(output, text, private=True)
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
        before, (_, duplicates) = kubeconfig_files.read_kubeconfig(file), yaml_text.read_document(file)
    except kubeconfig_files.Unusable as error:
        raise CommandError(f"--output: {error}. Choose another file.", REFUSED) from None
    if duplicates:  # merging would keep only the last of the duplicate values
        where, what = format_path(duplicates[0].path), duplicates[0].message
        raise CommandError(f"--output: {file}: {where} {what}, or choose another file.", REFUSED)
    merged = {**config, **before, "current-context": config["current-context"]}
    for key in merged:
        if key not in KEYS:
            raise CommandError(
                f"--output: {file} is not a kubeconfig: it has a key {format_value(key)}. Choose another file.", REFUSED
            )
    for kind in ("clusters", "contexts", "users"):
        (own,) = config[kind]
        entries = list(before.get(kind) or ())
        place = next((index for index, entry in enumerate(entries) if entry["name"] == own["name"]), len(entries))
        if kind == "contexts" and place < len(entries):  # keep the user's default namespace
            own = {**own, "context": {**(entries[place].get("context") or {}), **own["context"]}}
        merged[kind] = [*entries[:place], own, *entries[place + 1 :]]
    return merged


def build_kubeconfig(account: EksAccount) -> dict[str, Any]:
    """Return the kubeconfig of a stack's cluster. Raises CommandError if there is none, and FactsError if AWS cannot be
    queried."""
    description = query_aws(account.region, account.cluster)
    if description is None or not description.endpoint:
        raise NotFound(stack_cluster.explain_missing_cluster(account))
    config: dict[str, Any] = json.loads(stack_cluster.build_kubeconfig(description, account.region))
    return config
