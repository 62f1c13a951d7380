"""Pulumi property paths such as `pools[0].tags["a.b"]`."""

import re
from typing import Any

Path = tuple[str | int, ...]
"""Property path: member names and list indexes. In a pattern, `"*"` matches any member name or list index."""

_PART = re.compile(
    r"""\.? (?: \["(?P<quoted>(?:[^"\\]|\\.)*)"\] | \[(?P<index>\d+)\] | \[(?P<any>\*)\] | (?P<name>[^.\[\]]+) )""", re.VERBOSE
)
_PLAIN = re.compile(r"[^.\[\]\"]+")


def parse(text: str) -> Path:
    """Parse a property path."""
    steps: list[str | int] = []
    for part in _PART.finditer(text):
        if part["index"] is not None:
            steps.append(int(part["index"]))
        elif part["quoted"] is not None:
            steps.append(re.sub(r"\\(.)", r"\1", part["quoted"]))
        else:
            steps.append(part["any"] or part["name"])
    return tuple(steps)


def format_path(path: Path) -> str:
    """Format a property path so that `parse` can read it."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            escaped = part.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{escaped}"]'
    return text


def covers(pattern: Path, path: Path) -> bool:
    """Return whether `path` matches `pattern` or is nested below a match."""
    return len(pattern) <= len(path) and all(step in ("*", other) for step, other in zip(pattern, path, strict=False))


def restore_values(values: Any, original: Any, pattern: Path) -> Any:
    """Return `values` with all values that match `pattern` replaced by the values in `original`. Values that are
    missing in `original` are kept."""
    if not pattern:
        return values if original is None else original
    head, rest = pattern[0], pattern[1:]
    if isinstance(values, dict) and isinstance(original, dict):
        names = sorted({*values, *original}) if head == "*" else [head]
        restored = {name: restore_values(values.get(name), original.get(name), rest) for name in names}
        return {**values, **{name: value for name, value in restored.items() if value is not None}}
    if isinstance(values, list) and isinstance(original, list):
        places = range(len(values)) if head == "*" else [head] if isinstance(head, int) else []
        return [
            restore_values(value, original[place], rest) if place in places and place < len(original) else value
            for place, value in enumerate(values)
        ]
    return values
