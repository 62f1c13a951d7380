"""Tags of EC2 resources: set on creation, changed with CreateTags and DeleteTags."""

from collections.abc import Iterable, Mapping
from typing import Any

from localcloud.engine.aws.resource import Args, Aws, State
from localcloud.engine.aws.resources.tags import TAGS as TAGS
from localcloud.engine.aws.resources.tags import apply_tag_changes, build_tag_state, from_pairs, get_program_tags, to_pairs


def build_tag_specification(kind: str, args: Args) -> list[dict[str, Any]]:
    """Return `TagSpecifications` for a create request, so that the resource is never untagged."""
    tags = get_program_tags(args)
    return [{"ResourceType": kind, "Tags": to_pairs(tags)}] if tags else []


def parse_tags(tags: Iterable[Mapping[str, str]] | None) -> State:
    return build_tag_state(from_pairs(tags))


def update_tags(aws: Aws, id: str, old: State, new: Args) -> None:
    ec2 = aws.client("ec2")
    apply_tag_changes(
        old,
        new,
        remove=lambda keys: ec2.delete_tags(Resources=[id], Tags=[{"Key": key} for key in keys]),
        write=lambda tags: ec2.create_tags(Resources=[id], Tags=to_pairs(tags)),
    )
