"""Physical names for resources with a name prefix or no name."""

import secrets

from localcloud.engine.aws.resource import Args


def physical_name(args: Args, name: str = "name", prefix: str = "namePrefix") -> str:
    """Return the name from the program or Pulumi's auto-naming, else the prefix with a unique suffix."""
    given = args.get(name)
    return str(given) if given else f"{args.get(prefix) or ''}{secrets.token_hex(13)}"
