"""`port-forward`: connect a port of this machine to a port of a job's pod."""

import re
import socket
import threading
from typing import Annotated, Final, NoReturn

import typer

from cli import options
from cli.clusters.kubernetes_access import Access, Cluster
from cli.clusters.pod_streams import PortConnection
from cli.console import say
from cli.errors import CommandError
from cli.exit_codes import OK, USAGE
from cli.installation import NAME
from cli.jobs import objects
from cli.jobs.job_pods import find_running_container
from cli.jobs.state import JobState

LOOPBACK: Final = "127.0.0.1"
CHUNK: Final = 65536
_PORT: Final = re.compile(r"(?:(\d{1,5}):)?(\d{1,5})")


def command(
    name: Annotated[str, typer.Argument(help="Job name.")],
    port: Annotated[str, typer.Argument(metavar="[LOCAL:]PORT", help="Port of the pod, such as 6006 or 8888:6006.")],
    worker: options.Worker = 0,
    launcher: options.Launcher = False,
    *,
    access: Access,
    as_json: options.JsonErrors = False,
) -> int:
    """Example: `port-forward train 6006` for TensorBoard. Listens on 127.0.0.1 only, until ^C."""
    local, remote = parse_ports(port)
    cluster = access.connect()
    state = objects.find_job(cluster, name, objects.choose_namespace(cluster, access.namespace))
    find_running_container(cluster, state, worker, launcher=launcher)
    with _open_listener(local) as listener:
        where = "the launcher" if launcher else f"worker {worker}"
        local = listener.getsockname()[1]
        print(f"http://{LOOPBACK}:{local} -> port {remote} of {where} of job {name}; ^C ends it", flush=True)
        try:
            _serve_clients(listener, cluster, state, remote, None if launcher else worker)
        except KeyboardInterrupt:
            return OK


def parse_ports(text: str) -> tuple[int, int]:
    """Parse `[LOCAL:]PORT` into the local and the remote port.

    >>> ports("6006"), ports("8888:6006"), ports("0:80")
    ((6006, 6006), (8888, 6006), (0, 80))
    """
    match = _PORT.fullmatch(text)
    numbers = (int(match[1] or match[2]), int(match[2])) if match else (0, 0)
    if not 0 < numbers[1] < 65536 or numbers[0] > 65535:
        raise CommandError(f"PORT: {text} is not a port. Use PORT or LOCAL:PORT with numbers from 1 to 65535.", USAGE)
    return numbers


def _open_listener(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        fix = f"Choose another local port: {port + 1}:PORT." if port else ""
        raise CommandError(f"PORT: cannot listen on {LOOPBACK}:{port} ({error.strerror}). {fix}") from None


def _serve_clients(listener: socket.socket, cluster: Cluster, state: JobState, port: int, worker: int | None) -> NoReturn:
    """Connect each client to the pod that is running when the client connects: a restarted worker has a new pod."""
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_connect_client, args=(client, cluster, state, port, worker), daemon=True).start()


def _connect_client(client: socket.socket, cluster: Cluster, state: JobState, port: int, worker: int | None) -> None:
    with client:
        try:
            where = find_running_container(cluster, state, worker or 0, launcher=worker is None)
            pod = PortConnection(cluster, where.pod, where.namespace, port)
        except CommandError as error:
            say(f"{NAME}: {error}")
            return
        threading.Thread(target=_copy_to_pod, args=(client, pod), daemon=True).start()
        try:
            while data := pod.receive():
                client.sendall(data)
        except CommandError as error:
            say(f"{NAME}: {error}")
        except OSError:
            pass  # the client has disconnected
        finally:
            pod.close()


def _copy_to_pod(client: socket.socket, pod: PortConnection) -> None:
    import websocket

    try:
        while data := client.recv(CHUNK):
            pod.send(data)
    except (OSError, websocket.WebSocketException):
        return
