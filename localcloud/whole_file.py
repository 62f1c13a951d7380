"""Files that somebody may read at any time."""

from pathlib import Path


def write(file: Path, text: str) -> None:
    """It appears complete, or stays as it was."""
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)
