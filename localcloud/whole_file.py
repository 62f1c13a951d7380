"""Atomic file writes."""

from pathlib import Path


def write_atomically(file: Path, text: str) -> None:
    """Write a file atomically: readers see either the old content or the new content."""
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)
