"""API actions of AWS's official provider per resource type, from actions.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

FILE: Final = Path(__file__).with_name("actions.yaml")


@dataclass(frozen=True)
class Actions:
    """Actions with which the provider creates, reads, updates and deletes resources of one type."""

    create: tuple[str, ...]
    read: tuple[str, ...]
    update: tuple[str, ...]
    delete: tuple[str, ...]


def _actions(recorded: Mapping[str, str]) -> Actions:
    def names(key: str) -> tuple[str, ...]:
        words = recorded.get(key, "").split()
        return tuple(word if ":" in word else f"{recorded['service']}:{word}" for word in words)

    return Actions(names("create"), names("read"), names("update"), names("delete"))


def read_actions() -> dict[str, Actions]:
    """Return the actions of each resource type."""
    loaded: Mapping[str, Mapping[str, str]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {token: _actions(recorded) for token, recorded in loaded.items()}
