"""State files of a Pulumi backend in a folder, which a killed engine can leave truncated."""

import json
import shutil
from pathlib import Path


def mend(url: str, project: str, stack: str) -> None:
    """Restore a truncated state file from its backup, and delete truncated attributes files. Do nothing for backends
    that are not a folder."""
    scheme, _, place = url.partition("://")
    if scheme != "file":
        return
    folder = Path(place.partition("?")[0]).expanduser() / ".pulumi"
    state = folder / "stacks" / project / f"{stack.rpartition('/')[2]}.json"
    backup = state.with_name(f"{state.name}.bak")
    # `pulumi stack rm` renames the state file to the backup: a missing file is not a truncated one.
    if state.exists() and not _is_whole(state) and _is_whole(backup):
        shutil.copy2(backup, state)
    # The backend writes an attributes file next to each file, but does not need it to read the file:
    # https://github.com/google/go-cloud/blob/master/blob/fileblob/attrs.go
    for attributes in folder.rglob("*.attrs"):
        if not _is_whole(attributes):
            attributes.unlink(missing_ok=True)


def _is_whole(file: Path) -> bool:
    try:
        return bool(json.loads(file.read_text()))
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
        return False
