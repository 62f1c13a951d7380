"""Tags of EC2 resources: set on creation, changed with CreateTags and DeleteTags."""

from collections.abc import Iterable, Mapping
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, State
from localcloud.engine.aws.resources.tags import TAGS as TAGS
from localcloud.engine.aws.resources.tags import change_tags, from_pairs, pairs, program_tags, tag_state


def tag_specification(kind: str, args: Args) -> list[dict[str, Any]]:
    """Return `TagSpecifications` for a create request, so that the resource is never untagged."""
    tags = program_tags(args)
    return [{"ResourceType": kind, "Tags": pairs(tags)}] if tags else []


def read_tags(tags: Iterable[Mapping[str, str]] | None) -> State:
    return tag_state(from_pairs(tags))


def update_tags(aws: Aws, id: str, old: State, new: Args) -> None:
    ec2 = aws.client("ec2")
    change_tags(
        old,
        new,
        remove=lambda keys: ec2.delete_tags(Resources=[id], Tags=[{"Key": key} for key in keys]),
        write=lambda tags: ec2.create_tags(Resources=[id], Tags=pairs(tags)),
    )
