"""The EFS CSI driver on a node, called over gRPC as the kubelet does."""

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud.kubernetes.csi.messages import get_csi_class, get_registration_class
from localcloud.kubernetes.csi.node_server import Driver, MountRefused, Source, serve_driver
from localcloud.kubernetes.csi.part import DRIVER_ENVIRONMENT
from localcloud.kubernetes.efs_csi import handles
from localcloud.kubernetes.efs_csi.handles import Handle, InvalidHandle
from localcloud.kubernetes.efs_csi.volumes import EfsVolumes

IN_MOVED_TO, IN_CREATE = 0x80, 0x100


@pytest.mark.parametrize(
    ("text", "handle"),
    [
        ("fs-12ab", Handle("fs-12ab")),
        ("fs-12ab:/data", Handle("fs-12ab", None, "/data")),
        ("fs-12ab::fsap-34cd", Handle("fs-12ab", "fsap-34cd")),
        ("fs-12ab:/data:fsap-34cd", Handle("fs-12ab", "fsap-34cd", "/data")),
    ],
)
def test_volume_handle_contains_file_system_path_and_access_point(text: str, handle: Handle) -> None:
    assert handles.parse(text) == handle
    assert str(handle) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vol-12ab", "volume ID 'vol-12ab' is invalid: expected a file system ID of the form 'fs-...'"),
        ("fs-1:/a:fsap-1:x", "volume ID 'fs-1:/a:fsap-1:x' is invalid: expected at most three fields separated by ':'"),
        ("fs-1::ap-1", "volume ID 'fs-1::ap-1' has an invalid access point ID 'ap-1': expected 'fsap-...'"),
    ],
)
def test_invalid_volume_handle_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(InvalidHandle) as caught:
        handles.parse(text)
    assert str(caught.value) == message


@dataclass
class Scene:
    """A driver that listens on a Unix socket and records its mounts."""

    channel: Any
    asked: list[tuple[Handle, bool]] = field(default_factory=list)
    mounted: dict[str, tuple[str, bool]] = field(default_factory=dict)
    refusal: str = ""
    read_only: bool = False
    owner: tuple[int, int] | None = None
    owners: dict[str, tuple[int, int] | None] = field(default_factory=dict)

    def resolve(self, handle: Handle, encrypted: bool) -> Source:
        self.asked.append((handle, encrypted))
        if self.refusal:
            raise MountRefused(self.refusal)
        return Source(Path("/files") / handle.file_system, self.read_only, self.owner)

    def bind(self, source: Path, target: Path, *, read_only: bool, owner: tuple[int, int] | None = None) -> None:
        self.mounted[str(target)] = str(source), read_only
        self.owners[str(target)] = owner

    def unmount(self, target: Path) -> None:
        self.mounted.pop(str(target), None)

    def call_driver(self, name: str, request: Any = None, answer: str = "csi.v1.Nothing") -> Any:
        package, kind = answer.rsplit(".", 1)
        parse = (get_csi_class if package == "csi.v1" else get_registration_class)(kind).FromString
        make = self.channel.unary_unary(f"/{name}", lambda message: message.SerializeToString(), parse)
        return make(get_csi_class("Nothing")() if request is None else request, timeout=10)

    def publish(self, handle: str = "fs-1::fsap-2", **settings: Any) -> None:
        capability = get_csi_class("VolumeCapability")(
            mount=get_csi_class("MountVolume")(mount_flags=settings.pop("mount_flags", []))
        )
        request = {"volume_id": handle, "target_path": "/pods/x/mount", "volume_capability": capability} | settings
        self.call_driver("csi.v1.Node/NodePublishVolume", get_csi_class("NodePublishVolumeRequest")(**request))


@pytest.fixture
def running_driver(tmp_path: Path) -> Iterator[Scene]:
    socket, registry = tmp_path / "plugins" / "csi.sock", tmp_path / "registry" / "reg.sock"
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        scene = Scene(channel)
        server = serve_driver(Driver("i-1", socket, registry, EfsVolumes(scene.resolve), scene))
        yield scene
        server.stop(0).wait()


def test_kubelet_learns_driver_name_and_socket(tmp_path: Path, running_driver: Scene) -> None:
    with grpc.insecure_channel(f"unix:{tmp_path / 'registry' / 'reg.sock'}") as channel:
        running_driver.channel = channel
        info = running_driver.call_driver("pluginregistration.Registration/GetInfo", answer="pluginregistration.PluginInfo")
    assert (info.type, info.name, info.endpoint) == ("CSIPlugin", "efs.csi.aws.com", str(tmp_path / "plugins" / "csi.sock"))
    assert list(info.supported_versions) == ["1.0.0"]


@contextmanager
def watch_folder(folder: Path) -> Iterator[Callable[[], list[str]]]:
    """Yield a function that returns the file names that inotify reported for the folder since its last call."""
    libc = ctypes.CDLL(None)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(descriptor, os.fsencode(folder), IN_CREATE | IN_MOVED_TO) >= 0

    def list_new_names() -> list[str]:
        names = []
        with suppress(BlockingIOError):
            events = os.read(descriptor, 4096)
            while events:
                length = int.from_bytes(events[12:16], sys.byteorder)
                names.append(os.fsdecode(events[16 : 16 + length].rstrip(b"\0")))
                events = events[16 + length :]
        return names

    try:
        yield list_new_names
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("registered", "appearances"), [(True, []), (False, ["reg.sock"])])
def test_driver_registers_again_after_the_kubelet_failed_to_register(
    tmp_path: Path, running_driver: Scene, registered: bool, appearances: list[str]
) -> None:
    """The kubelet tries to register a driver only once, when the driver's socket appears in the watched folder."""
    socket = tmp_path / "registry" / "reg.sock"
    status = get_registration_class("RegistrationStatus")(
        plugin_registered=registered, error="" if registered else "API server away"
    )
    with watch_folder(socket.parent) as appeared:
        for _ in range(2):
            with grpc.insecure_channel(f"unix:{socket}") as channel:
                running_driver.channel = channel
                name = "pluginregistration.Registration/NotifyRegistrationStatus"
                running_driver.call_driver(name, status, "pluginregistration.RegistrationStatusResponse")
            assert [name for name in appeared() if not name.startswith(".")] == appearances


def test_driver_reports_its_identity_and_capabilities(running_driver: Scene) -> None:
    assert (
        running_driver.call_driver("csi.v1.Identity/GetPluginInfo", answer="csi.v1.GetPluginInfoResponse").name
        == "efs.csi.aws.com"
    )
    assert running_driver.call_driver("csi.v1.Identity/Probe", answer="csi.v1.ProbeResponse").ready.value
    assert running_driver.call_driver("csi.v1.Node/NodeGetInfo", answer="csi.v1.NodeGetInfoResponse").node_id == "i-1"
    able = running_driver.call_driver("csi.v1.Node/NodeGetCapabilities", answer="csi.v1.NodeGetCapabilitiesResponse")
    assert [capability.rpc.type for capability in able.capabilities] == [2], "statistics, and no staging"


def test_request_matches_bytes_sent_by_kubernetes() -> None:
    """Field numbers in csi.proto: volume_id 1, target_path 4, volume_capability 5, readonly 6, volume_context 8."""
    sent = b"\x0a\x04fs-1\x22\x02/t\x2a\x02\x12\x00\x30\x01\x42\x06\x0a\x01k\x12\x01v"
    request = get_csi_class("NodePublishVolumeRequest").FromString(sent)
    assert (request.volume_id, request.target_path, request.readonly) == ("fs-1", "/t", True)
    assert request.volume_capability.HasField("mount") and dict(request.volume_context) == {"k": "v"}


def test_a_volume_is_mounted_and_unmounted(running_driver: Scene) -> None:
    running_driver.publish()
    assert running_driver.asked == [(Handle("fs-1", "fsap-2"), True)]
    assert running_driver.mounted == {"/pods/x/mount": ("/files/fs-1", False)}
    request = get_csi_class("NodeUnpublishVolumeRequest")(volume_id="fs-1", target_path="/pods/x/mount")
    running_driver.call_driver("csi.v1.Node/NodeUnpublishVolume", request)
    assert running_driver.mounted == {}


@pytest.mark.parametrize("settings", [{"readonly": True}, {"mount_flags": ["ro"]}])
def test_volume_is_mounted_read_only_if_pod_or_volume_requests_read_only(running_driver: Scene, settings: dict[str, Any]) -> None:
    running_driver.publish(**settings)
    assert running_driver.mounted["/pods/x/mount"] == ("/files/fs-1", True)


def test_volume_is_read_only_if_file_system_policy_allows_only_reads(running_driver: Scene) -> None:
    running_driver.read_only = True
    running_driver.publish()
    assert running_driver.mounted["/pods/x/mount"] == ("/files/fs-1", True)


def test_volume_of_an_access_point_is_mounted_for_its_user(running_driver: Scene) -> None:
    running_driver.owner = (1_234_567, 1_234_567)
    running_driver.publish()
    assert running_driver.owners == {"/pods/x/mount": (1_234_567, 1_234_567)}


def test_volume_can_disable_encryption(running_driver: Scene) -> None:
    running_driver.publish(volume_context={"encryptInTransit": "false"})
    assert running_driver.asked == [(Handle("fs-1", "fsap-2"), False)]


@pytest.mark.parametrize(
    ("settings", "code", "text"),
    [
        ({"handle": "x"}, grpc.StatusCode.INVALID_ARGUMENT, "expected a file system ID"),
        ({"target_path": ""}, grpc.StatusCode.INVALID_ARGUMENT, "Target path not provided"),
        ({"volume_context": {"encryptInTransit": "maybe"}}, grpc.StatusCode.INVALID_ARGUMENT, "must be a boolean value"),
    ],
)
def test_invalid_volume_request_is_refused(
    running_driver: Scene, settings: dict[str, Any], code: grpc.StatusCode, text: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        running_driver.publish(**settings)
    assert caught.value.code() == code and text in caught.value.details()
    assert running_driver.mounted == {}


def test_reason_for_refused_mount_reaches_the_kubelet(running_driver: Scene) -> None:
    running_driver.refusal = "file system fs-1 does not exist"
    with pytest.raises(grpc.RpcError) as caught:
        running_driver.publish()
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert caught.value.details() == "Could not mount 'fs-1::fsap-2' at '/pods/x/mount': file system fs-1 does not exist"


def test_volume_statistics_describe_its_directory(running_driver: Scene, tmp_path: Path) -> None:
    request = get_csi_class("NodeGetVolumeStatsRequest")(volume_id="fs-1", volume_path=str(tmp_path))
    (usage,) = running_driver.call_driver("csi.v1.Node/NodeGetVolumeStats", request, "csi.v1.NodeGetVolumeStatsResponse").usage
    assert usage.unit == 1 and usage.total == usage.used + usage.available > 0


def test_restarted_driver_takes_over_the_sockets(running_driver: Scene, tmp_path: Path) -> None:
    socket = tmp_path / "again.sock"
    socket.touch()
    server = serve_driver(Driver("i-2", socket, tmp_path / "again-reg.sock", EfsVolumes(running_driver.resolve), running_driver))
    with grpc.insecure_channel(f"unix:{socket}") as running_driver.channel:
        assert running_driver.call_driver("csi.v1.Node/NodeGetInfo", answer="csi.v1.NodeGetInfoResponse").node_id == "i-2"
    server.stop(0).wait()


MOUNTING = """
import os, sys
from pathlib import Path
from localcloud.kubernetes.csi import mounts
mounts.enter_mount_namespace(int(sys.argv[1]))
source, target = Path(sys.argv[2]), Path(sys.argv[3]) / "made with blanks" / "mount"
mounts.bind(source, target, read_only=False)
mounts.bind(source, target, read_only=False)
(target / "file").write_text("through the mount")
mounts.unmount(target)
assert not target.exists()
mounts.bind(source, target, read_only=True)
try:
    (target / "file").write_text("x")
except OSError as error:
    print(error.errno == 30, mounts.is_mounted(target))
mounts.unmount(target)
mounts.unmount(target)
print(mounts.is_mounted(target))
"""


OWNER, OTHER = 1_234_567, 7_654_321
CLAIMING = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import grpc
from localcloud.kubernetes.csi import mounts
mounts.enter_mount_namespace(int(sys.argv[1]))
server = grpc.server(ThreadPoolExecutor(1))  # the driver mounts while gRPC's threads run
server.add_insecure_port("127.0.0.1:0")
server.start()
source, target = Path(sys.argv[2]), Path(sys.argv[3]) / "mount"
mounts.bind(source, target, read_only=False, owner=(int(sys.argv[4]), int(sys.argv[4])))
for user in (mounts.CLIENT, 2000):
    if os.fork() == 0:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        for name in ("new", "file of another user"):
            try:
                (target / name).write_text("x")
                print(user, name, "written", flush=True)
            except OSError:
                print(user, name, "refused", flush=True)
        os._exit(0)
    os.wait()
mounts.unmount(target)
"""


def run_in_mount_namespace(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program with the process ID of a new mount namespace and the arguments."""
    with subprocess.Popen(["unshare", "--mount", "--propagation=private", "sleep", "60"]) as node:
        try:
            own = Path("/proc/self/ns/mnt").readlink()
            waiting = Retrying(
                retry=retry_if_result(lambda other: other == own), stop=stop_after_delay(10), wait=wait_fixed(0.01)
            )
            waiting(Path(f"/proc/{node.pid}/ns/mnt").readlink)
            command = [sys.executable, "-c", program, str(node.pid), *arguments]
            environment = {**os.environ, **DRIVER_ENVIRONMENT}
            return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        finally:
            node.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_folder_is_bind_mounted_only_in_the_target_mount_namespace(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    result = run_in_mount_namespace(MOUNTING, str(source), str(target))
    assert result.stdout.split() == ["True", "True", "False"], result.stderr
    assert (source / "file").read_text() == "through the mount"
    assert str(target) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_client_of_a_mount_acts_as_the_owner_and_no_other_user_can_write() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's folders are closed to other users
        Path(folder).chmod(0o755)
        source, target = Path(folder) / "source", Path(folder) / "target"
        for path in (source, target):
            path.mkdir()
        foreign = source / "file of another user"
        foreign.write_text("theirs")
        foreign.chmod(0o644)
        os.chown(foreign, OTHER, OTHER)
        os.chown(source, OWNER, OWNER)
        result = run_in_mount_namespace(CLAIMING, str(source), str(target), str(OWNER))
        status = (source / "new").stat()
    assert result.stdout.splitlines() == [
        "1000 new written",
        "1000 file of another user refused",
        "2000 new refused",
        "2000 file of another user refused",
    ], result.stderr
    assert (status.st_uid, status.st_gid) == (OWNER, OWNER)
