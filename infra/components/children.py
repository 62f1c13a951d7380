"""Name, tags and options of the resources in a component."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

import pulumi

from infra.naming import Naming


class Child(TypedDict):
    """Arguments that every resource with tags has."""

    resource_name: str
    tags: Mapping[str, str]
    opts: pulumi.ResourceOptions


def build_child_args(
    parent: pulumi.Resource,
    naming: Naming,
    name: str,
    kind: str = "",
    *,
    tags: Mapping[str, str] | None = None,
    after: Sequence[pulumi.Resource] = (),
) -> Child:
    """Return the arguments of a child resource that AWS shows as `name`. `kind` is the last part of the child's name
    in Pulumi."""
    options = pulumi.ResourceOptions(parent=parent, depends_on=list(after) or None)
    return {"resource_name": f"{name}-{kind}" if kind else name, "tags": naming.tags(tags, Name=name), "opts": options}
