"""`dashboard`: serve a page about a cluster on loopback, until ^C."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.clusters import stack_cluster
from cli.clusters.dashboard.cluster_reader import Kubernetes, Reader, SpendingReader
from cli.clusters.dashboard.server import DashboardServer
from cli.clusters.kubernetes_access import Access
from cli.clusters.status.status_command import make_status_query
from cli.console import print_json
from cli.exit_codes import INTERRUPTED
from infra.config import stack_file
from infra.config.stack_file import RawStack


def command(
    stack: options.ClusterStack = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on 127.0.0.1.", show_default="a free one")] = 0,
    config_dir: options.ConfigDir = options.STACK_FILES,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the page's URL, or an error, as one JSON document.")] = False,
) -> int:
    """Prints a URL with a random token, for a browser on this machine, and serves the page until ^C. It listens only on
    127.0.0.1 and reads with your permissions: the page lists the data that you are not allowed to read.
    """
    raw = stack_file.read_stack_file(stack_file.find_stack_file(stack, config_dir)) if stack else None
    access = Access(kubeconfig, context)
    with _open_reader(raw, config_dir, access) as reader:
        reader.start()
        with DashboardServer(port, reader.build_page) as server:
            if as_json:
                print_json({"url": server.url, "port": server.port})
            else:
                print(f"{server.url}\nopen it in a browser on this machine; ^C ends it", flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                return INTERRUPTED
    raise AssertionError("serve_forever ends only with an exception")


@contextmanager
def _open_reader(raw: RawStack | None, config_dir: Path, access: Access) -> Iterator[Reader]:
    """Yield the reader for a stack's cluster or, without a stack, for the cluster of the kubeconfig."""
    stack = raw.stack if raw else None
    is_ec2 = raw is not None and raw.target_kind == "ec2"
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        look = make_status_query(stack, config_dir, access, Path(first), spending=False)
        cluster = None if is_ec2 else Kubernetes(lambda: stack_cluster.connect_to_stack(stack, config_dir, access, Path(second)))
        yield Reader(look, cluster, SpendingReader(raw, cluster))
