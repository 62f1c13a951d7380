"""Find crashed processes of local clouds, so that verbs that need them fail at once instead of waiting."""

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cli.errors import CommandError
from cli.exit_codes import REFUSED, UNREACHABLE
from cli.installation import CLONE
from cli.installation import program_name as program

if TYPE_CHECKING:
    from localcloud.instance import LocalCloud  # the wheel does not contain this package, which is also slow to import

DEFAULT_HOME: Final = (CLONE or Path()) / ".local" / "cloud"
BACKEND: Final = "PULUMI_BACKEND_URL"
LOOPBACK: Final = "127.0.0.1"
OFFICIAL: Final[Mapping[str, frozenset[str]]] = {
    "official": frozenset({"aws", "kubernetes"}),
    "official-kubernetes": frozenset({"kubernetes"}),
    "emulated": frozenset(),
}
"""Maps each value of `local start --providers` to the resource providers for which it uses official plugins.

The largest set comes first, because `check_providers` uses the first match.
"""


def make_home_option(cloud: "LocalCloud") -> str:
    """Return the command-line option that selects this local cloud; empty for the default one."""
    return "" if cloud.folder == DEFAULT_HOME else f" --home {shlex.quote(str(cloud.folder))}"


def check_no_crashed_process(cloud: "LocalCloud") -> None:
    """Raise CommandError if a process of any cluster in this local cloud has crashed."""
    from localcloud import mending

    _raise_crash_error(cloud, mending.list_crashed_processes(cloud))


def _raise_crash_error(cloud: "LocalCloud", dead: list[str]) -> None:
    if dead:
        fix = f"{program()} local start{make_home_option(cloud)}"
        raise CommandError(f"not running: {', '.join(dead)}. Restart with: {fix}", UNREACHABLE)


def check_account_kind(cloud: "LocalCloud", requested: str | None) -> None:
    """Raise CommandError if the local cloud is running with another kind of account than `requested`."""
    if requested is None or not cloud.is_running():
        return
    kind = cloud.control().send("GET", "account")["kind"]
    if kind != requested:
        raise CommandError(f"the running local cloud's account is {kind}. {_suggest_stop(cloud)}", REFUSED)


def check_providers(cloud: "LocalCloud", requested: str | None) -> None:
    """Raise CommandError if the local cloud is running with other resource providers than `requested`."""
    if requested is None or not cloud.is_running():
        return
    present = next(name for name, official in OFFICIAL.items() if not official & cloud.emulators.keys())
    if present != requested:
        raise CommandError(f"the running local cloud uses --providers {present}. {_suggest_stop(cloud)}", REFUSED)


def _suggest_stop(cloud: "LocalCloud") -> str:
    return f"Stop it first: {program()} local stop{make_home_option(cloud)}"


def check_control_plane_runs(server: str, *, nodes: bool = False) -> None:
    """Raise CommandError if `server` is the API server of a local cluster whose control plane has crashed.

    With `nodes`, also raise CommandError if a process of one of the cluster's nodes has crashed.
    """
    if CLONE is None or urlsplit(server).hostname != LOOPBACK:
        return
    from localcloud import mending
    from localcloud.instance import LocalCloud

    for cloud in map(LocalCloud, list_local_clouds()):
        _raise_crash_error(cloud, mending.list_crashed_dependencies(cloud, server, nodes=nodes))


def suggest_restart(server: str) -> str:
    """Return a hint to append to the error that the API server at this address does not answer.

    Empty if the address cannot belong to a local cloud.
    """
    local = CLONE is not None and urlsplit(server).hostname == LOOPBACK
    return f"; if it belongs to a local cloud, `{program()} local start` restarts its dead parts" if local else ""


def list_local_clouds() -> Iterator[Path]:
    """Yield the folder of the default local cloud and of the local cloud that `local env` selected in this shell."""
    yield DEFAULT_HOME
    kind, _, folder = os.environ.get(BACKEND, "").partition("://")
    if kind == "file" and Path(folder).parent != DEFAULT_HOME:
        yield Path(folder).parent
