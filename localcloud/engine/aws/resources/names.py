"""Physical names of resources, including resources for which the program sets only a name prefix."""

import secrets

from localcloud.engine.aws.resource import Args


def choose_physical_name(args: Args, name: str = "name", prefix: str = "namePrefix") -> str:
    """Return the name set by the program or by auto-naming. If there is no such name, return the prefix with a unique
    suffix."""
    full_name = args.get(name)
    return str(full_name) if full_name else f"{args.get(prefix) or ''}{secrets.token_hex(13)}"
