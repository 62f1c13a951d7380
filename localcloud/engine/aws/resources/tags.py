"""Resource tags in all services except EC2. Pulumi uses a dict; AWS uses a dict or a list of key-value pairs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from localcloud.engine.aws.resource import Args, Prop, State

TAGS: Mapping[str, Prop] = {"tags": Prop(default={})}


class TagChanges(NamedTuple):
    """Tags to write and tag keys to remove, so that a resource's tags match the program."""

    written: dict[str, str]
    removed: list[str]


def get_program_tags(args: Args) -> dict[str, str]:
    return dict(args.get("tags") or {})


def compute_tag_changes(old: State, new: Args) -> TagChanges:
    """Return the tag changes between the state and the inputs. Tags in AWS that are not in the state stay unchanged."""
    before: Mapping[str, str] = old.get("tagsAll") or old.get("tags") or {}
    after = get_program_tags(new)
    written = {key: value for key, value in after.items() if before.get(key) != value}
    return TagChanges(written, [key for key in before if key not in after])


def apply_tag_changes(
    old: State, new: Args, *, remove: Callable[[list[str]], object], write: Callable[[dict[str, str]], object]
) -> None:
    """Apply the tag changes with the functions `remove` and `write`. Skip empty changes, since some services reject
    them.
    """
    tags = compute_tag_changes(old, new)
    if tags.removed:
        remove(tags.removed)
    if tags.written:
        write(tags.written)


def build_tag_state(tags: Mapping[str, str] | None) -> State:
    """Return `tags` and `tagsAll` for the state, without AWS-managed tags (`aws:...`)."""
    ours = {key: value for key, value in (tags or {}).items() if not key.startswith("aws:")}
    return {**({"tags": ours} if ours else {}), "tagsAll": ours}


def to_pairs(tags: Mapping[str, str], key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    """Return tags as a list of key-value pairs. Most services use Key and Value; KMS uses TagKey and TagValue."""
    return [{key: name, value: text} for name, text in tags.items()]


def from_pairs(tags: Iterable[Mapping[str, Any]] | None, key: str = "Key", value: str = "Value") -> dict[str, str]:
    return {tag[key]: tag[value] for tag in tags or ()}
