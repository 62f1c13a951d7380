"""Physical names where the program gives a prefix or nothing."""

import secrets

from localcloud.engine.aws.resource import Args


def physical_name(args: Args, name: str = "name", prefix: str = "namePrefix") -> str:
    """The name that the program or Pulumi's auto-naming gave, else the prefix with a suffix that nobody else has."""
    given = args.get(name)
    return str(given) if given else f"{args.get(prefix) or ''}{secrets.token_hex(13)}"
