"""Create network namespaces and run code in them. A cluster's namespace contains one bridge, which acts as the VPC.

Code that must run in a namespace runs in its own short-lived thread, so all other threads keep their namespace.
"""

import ctypes
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Interface
from pathlib import Path
from typing import TypeVar

RUN = Path("/run/netns")
"""Folder in which `ip netns` looks up named namespaces."""
BRIDGE = "vpc"
BRIDGE_HARDWARE_ADDRESS = "06:00:00:00:00:01"
"""MAC address of every bridge. It must be unique only within the bridge's namespace."""
CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2

Result = TypeVar("Result")


def build_namespace_path(name: str) -> Path:
    return RUN / name


def read_namespace_inode(name: str) -> int | None:
    """Return the inode of a named namespace, which changes when the namespace is recreated. Return None if the
    namespace does not exist, and also while its file is only an ordinary file: `create` makes the file before the
    kernel mounts the namespace on it, and `remove` deletes the file after the namespace.
    """
    try:
        status = build_namespace_path(name).stat()
    except FileNotFoundError:
        return None
    return status.st_ino if status.st_dev == Path("/proc/self/ns/net").stat().st_dev else None


def create_namespace(name: str) -> None:
    """Create a named namespace and bring up its loopback interface. The namespace exists until `remove` is called."""
    RUN.mkdir(parents=True, exist_ok=True)
    build_namespace_path(name).touch(exist_ok=False)

    def create_and_mount() -> None:
        _call_libc("unshare", CLONE_NEWNET)
        _call_libc("mount", b"/proc/thread-self/ns/net", os.fsencode(build_namespace_path(name)), b"none", MS_BIND, None)
        from pyroute2 import IPRoute  # slow to import

        with IPRoute() as route:
            route.link("set", index=1, state="up")

    _run_in_thread(create_and_mount)


def check_network_support() -> None:
    """Check that namespaces and bridges can be created, without leaving any behind. Raises OSError."""

    def try_bridge() -> None:
        _call_libc("unshare", CLONE_NEWNET)
        from pyroute2 import IPRoute, NetlinkError

        try:
            with IPRoute() as route:
                route.link("add", ifname=BRIDGE, kind="bridge")
                route.link("add", ifname="near", kind="veth", peer="far")
        except NetlinkError as error:
            raise OSError(error.code, str(error)) from error

    _run_in_thread(try_bridge)


def remove_namespace(name: str) -> None:
    """Remove a namespace. The kernel removes the namespace's links and addresses after the last process in the
    namespace exits."""
    unmount(build_namespace_path(name))
    try:
        build_namespace_path(name).unlink(missing_ok=True)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _run_in_thread(lambda: _remove_hidden_file(build_namespace_path(name)))


def run_in_namespace(name: str | None, action: Callable[[], Result]) -> Result:
    """Call `action` inside the namespace and return the result. If `name` is None, use the current namespace."""
    if name is None:
        return action()

    def run_inside() -> Result:
        enter_namespace(name)
        return action()

    return _run_in_thread(run_inside)


def enter_namespace(name: str) -> None:
    """Move the calling thread into the namespace. The thread stays in the namespace until the thread ends."""
    descriptor = os.open(build_namespace_path(name), os.O_RDONLY)
    try:
        _call_libc("setns", descriptor, CLONE_NEWNET)
    finally:
        os.close(descriptor)


def make_bridge(name: str, addresses: Iterable[IPv4Interface]) -> None:
    """Create the namespace's bridge with these addresses, and enable IP forwarding."""

    def add_bridge() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as route:
            # Without a fixed MAC address, adding a link may change the bridge's address, which invalidates the neighbors' ARP
            # entries.
            route.link("add", ifname=BRIDGE, kind="bridge", address=BRIDGE_HARDWARE_ADDRESS)
            index = route.link_lookup(ifname=BRIDGE)[0]
            for address in addresses:
                route.addr("add", index=index, address=str(address.ip), prefixlen=address.network.prefixlen)
            route.link("set", index=index, state="up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # affects only this thread's network namespace

    run_in_namespace(name, add_bridge)


def listen(name: str | None, address: str, port: int) -> socket.socket:
    """Return a TCP socket that listens inside the namespace. Any thread of this process can use the socket."""

    def bind_socket() -> socket.socket:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        return listener

    return run_in_namespace(name, bind_socket)


def connect(name: str | None, address: str, port: int, timeout: float) -> socket.socket:
    """Open a TCP connection from inside the namespace."""
    return run_in_namespace(name, lambda: socket.create_connection((address, port), timeout=timeout))


def list_processes(names: Iterable[str]) -> Iterator[int]:
    """Yield the pids of all processes in these network namespaces."""
    identities = {identity for name in names if (identity := _read_file_identity(build_namespace_path(name))) is not None}
    if not identities:
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _read_file_identity(entry / "ns" / "net") in identities:
            yield int(entry.name)


def unmount(path: Path) -> None:
    """Unmount all mounts at the path, if any."""
    while _unmount_topmost(path):
        pass


def _unmount_topmost(path: Path) -> bool:
    """Unmount the topmost mount at the path; return False if nothing is mounted there."""
    try:
        _call_libc("umount2", os.fsencode(path), MNT_DETACH)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return False
        raise
    return True


def _remove_hidden_file(path: Path) -> None:
    """Remove the file of a namespace whose mount is hidden below another mount of RUN.

    The first `ip netns add` on a machine bind-mounts RUN, with all mounts in it, over itself (`netns_add` in
    https://github.com/iproute2/iproute2/blob/v6.1.0/ip/ipnetns.c). Each namespace created earlier is then mounted
    twice, and no path leads to the lower mount. This thread therefore unmounts RUN layer by layer in its own mount
    namespace. Removing a file there also unmounts that file in all other mount namespaces:
    https://man7.org/linux/man-pages/man7/mount_namespaces.7.html
    """
    _call_libc("unshare", CLONE_NEWNS)
    _call_libc("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    while True:
        unmount(path)
        with suppress(OSError):
            path.unlink()
        if not _unmount_topmost(RUN):
            return


def _read_file_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _run_in_thread(action: Callable[[], Result]) -> Result:
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(action())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="network-namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _call_libc(name: str, *arguments: object) -> None:
    """Call a function of the C library. Raises OSError if the function returns -1."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
