"""The EFS CSI driver on a node, called over gRPC as the kubelet does."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud.kubernetes.csi.messages import csi, registration
from localcloud.kubernetes.csi.node_server import Driver, MountRefused, Source, serve
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
def test_a_volume_handle_names_file_system_path_and_access_point(text: str, handle: Handle) -> None:
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
def test_another_handle_is_refused_with_the_reason(text: str, message: str) -> None:
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

    def resolve(self, handle: Handle, encrypted: bool) -> Source:
        self.asked.append((handle, encrypted))
        if self.refusal:
            raise MountRefused(self.refusal)
        return Source(Path("/files") / handle.file_system, self.read_only)

    def bind(self, source: Path, target: Path, *, read_only: bool) -> None:
        self.mounted[str(target)] = str(source), read_only

    def unmount(self, target: Path) -> None:
        self.mounted.pop(str(target), None)

    def call(self, name: str, request: Any = None, answer: str = "csi.v1.Nothing") -> Any:
        package, kind = answer.rsplit(".", 1)
        parse = (csi if package == "csi.v1" else registration)(kind).FromString
        make = self.channel.unary_unary(f"/{name}", lambda message: message.SerializeToString(), parse)
        return make(csi("Nothing")() if request is None else request, timeout=10)

    def publish(self, handle: str = "fs-1::fsap-2", **settings: Any) -> None:
        capability = csi("VolumeCapability")(mount=csi("MountVolume")(mount_flags=settings.pop("mount_flags", [])))
        request = {"volume_id": handle, "target_path": "/pods/x/mount", "volume_capability": capability} | settings
        self.call("csi.v1.Node/NodePublishVolume", csi("NodePublishVolumeRequest")(**request))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    socket, registry = tmp_path / "plugins" / "csi.sock", tmp_path / "registry" / "reg.sock"
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        scene = Scene(channel)
        server = serve(Driver("i-1", socket, registry, EfsVolumes(scene.resolve), scene))
        yield scene
        server.stop(0).wait()


def test_the_kubelet_learns_the_drivers_name_and_where_it_listens(tmp_path: Path, scene: Scene) -> None:
    with grpc.insecure_channel(f"unix:{tmp_path / 'registry' / 'reg.sock'}") as channel:
        scene.channel = channel
        info = scene.call("pluginregistration.Registration/GetInfo", answer="pluginregistration.PluginInfo")
    assert (info.type, info.name, info.endpoint) == ("CSIPlugin", "efs.csi.aws.com", str(tmp_path / "plugins" / "csi.sock"))
    assert list(info.supported_versions) == ["1.0.0"]


@contextmanager
def watched(folder: Path) -> Iterator[Callable[[], list[str]]]:
    """Yield a function that returns the file names that inotify reported for the folder since its last call."""
    libc = ctypes.CDLL(None)
    descriptor = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(descriptor, os.fsencode(folder), IN_CREATE | IN_MOVED_TO) >= 0

    def appeared() -> list[str]:
        names = []
        with suppress(BlockingIOError):
            events = os.read(descriptor, 4096)
            while events:
                length = int.from_bytes(events[12:16], sys.byteorder)
                names.append(os.fsdecode(events[16 : 16 + length].rstrip(b"\0")))
                events = events[16 + length :]
        return names

    try:
        yield appeared
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("registered", "appearances"), [(True, []), (False, ["reg.sock"])])
def test_a_driver_that_the_kubelet_could_not_register_appears_again(
    tmp_path: Path, scene: Scene, registered: bool, appearances: list[str]
) -> None:
    """The kubelet tries to register a driver only once, when the driver's socket appears in the watched folder."""
    socket = tmp_path / "registry" / "reg.sock"
    status = registration("RegistrationStatus")(plugin_registered=registered, error="" if registered else "API server away")
    with watched(socket.parent) as appeared:
        for _ in range(2):
            with grpc.insecure_channel(f"unix:{socket}") as channel:
                scene.channel = channel
                name = "pluginregistration.Registration/NotifyRegistrationStatus"
                scene.call(name, status, "pluginregistration.RegistrationStatusResponse")
            assert [name for name in appeared() if not name.startswith(".")] == appearances


def test_the_driver_tells_who_it_is_and_what_it_can(scene: Scene) -> None:
    assert scene.call("csi.v1.Identity/GetPluginInfo", answer="csi.v1.GetPluginInfoResponse").name == "efs.csi.aws.com"
    assert scene.call("csi.v1.Identity/Probe", answer="csi.v1.ProbeResponse").ready.value
    assert scene.call("csi.v1.Node/NodeGetInfo", answer="csi.v1.NodeGetInfoResponse").node_id == "i-1"
    able = scene.call("csi.v1.Node/NodeGetCapabilities", answer="csi.v1.NodeGetCapabilitiesResponse")
    assert [capability.rpc.type for capability in able.capabilities] == [2], "statistics, and no staging"


def test_a_request_has_the_bytes_that_kubernetes_sends() -> None:
    """Field numbers in csi.proto: volume_id 1, target_path 4, volume_capability 5, readonly 6, volume_context 8."""
    sent = b"\x0a\x04fs-1\x22\x02/t\x2a\x02\x12\x00\x30\x01\x42\x06\x0a\x01k\x12\x01v"
    request = csi("NodePublishVolumeRequest").FromString(sent)
    assert (request.volume_id, request.target_path, request.readonly) == ("fs-1", "/t", True)
    assert request.volume_capability.HasField("mount") and dict(request.volume_context) == {"k": "v"}


def test_a_volume_is_mounted_and_unmounted(scene: Scene) -> None:
    scene.publish()
    assert scene.asked == [(Handle("fs-1", "fsap-2"), True)]
    assert scene.mounted == {"/pods/x/mount": ("/files/fs-1", False)}
    request = csi("NodeUnpublishVolumeRequest")(volume_id="fs-1", target_path="/pods/x/mount")
    scene.call("csi.v1.Node/NodeUnpublishVolume", request)
    assert scene.mounted == {}


@pytest.mark.parametrize("settings", [{"readonly": True}, {"mount_flags": ["ro"]}])
def test_a_volume_is_read_only_when_the_pod_or_the_volume_is(scene: Scene, settings: dict[str, Any]) -> None:
    scene.publish(**settings)
    assert scene.mounted["/pods/x/mount"] == ("/files/fs-1", True)


def test_a_volume_is_read_only_when_the_file_systems_policy_lets_only_read(scene: Scene) -> None:
    scene.read_only = True
    scene.publish()
    assert scene.mounted["/pods/x/mount"] == ("/files/fs-1", True)


def test_encryption_can_be_turned_off_by_the_volume(scene: Scene) -> None:
    scene.publish(volume_context={"encryptInTransit": "false"})
    assert scene.asked == [(Handle("fs-1", "fsap-2"), False)]


@pytest.mark.parametrize(
    ("settings", "code", "text"),
    [
        ({"handle": "x"}, grpc.StatusCode.INVALID_ARGUMENT, "expected a file system ID"),
        ({"target_path": ""}, grpc.StatusCode.INVALID_ARGUMENT, "Target path not provided"),
        ({"volume_context": {"encryptInTransit": "maybe"}}, grpc.StatusCode.INVALID_ARGUMENT, "must be a boolean value"),
    ],
)
def test_what_makes_no_sense_is_refused(scene: Scene, settings: dict[str, Any], code: grpc.StatusCode, text: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        scene.publish(**settings)
    assert caught.value.code() == code and text in caught.value.details()
    assert scene.mounted == {}


def test_why_a_mount_was_refused_reaches_the_kubelet(scene: Scene) -> None:
    scene.refusal = "file system fs-1 does not exist"
    with pytest.raises(grpc.RpcError) as caught:
        scene.publish()
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert caught.value.details() == "Could not mount 'fs-1::fsap-2' at '/pods/x/mount': file system fs-1 does not exist"


def test_volume_statistics_are_those_of_the_folder(scene: Scene, tmp_path: Path) -> None:
    request = csi("NodeGetVolumeStatsRequest")(volume_id="fs-1", volume_path=str(tmp_path))
    (usage,) = scene.call("csi.v1.Node/NodeGetVolumeStats", request, "csi.v1.NodeGetVolumeStatsResponse").usage
    assert usage.unit == 1 and usage.total == usage.used + usage.available > 0


def test_a_successor_takes_over_the_sockets(scene: Scene, tmp_path: Path) -> None:
    socket = tmp_path / "again.sock"
    socket.touch()
    server = serve(Driver("i-2", socket, tmp_path / "again-reg.sock", EfsVolumes(scene.resolve), scene))
    with grpc.insecure_channel(f"unix:{socket}") as scene.channel:
        assert scene.call("csi.v1.Node/NodeGetInfo", answer="csi.v1.NodeGetInfoResponse").node_id == "i-2"
    server.stop(0).wait()


MOUNTING = """
import os, sys
from pathlib import Path
from localcloud.kubernetes.csi import mounts
mounts.enter(int(sys.argv[1]))
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


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_a_folder_is_shown_in_another_mount_namespace_and_nowhere_else(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    with subprocess.Popen(["unshare", "--mount", "--propagation=private", "sleep", "60"]) as node:
        try:
            own = Path("/proc/self/ns/mnt").readlink()
            waiting = Retrying(
                retry=retry_if_result(lambda other: other == own), stop=stop_after_delay(10), wait=wait_fixed(0.01)
            )
            waiting(Path(f"/proc/{node.pid}/ns/mnt").readlink)
            command = [sys.executable, "-c", MOUNTING, str(node.pid), str(source), str(target)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        finally:
            node.kill()
    assert done.stdout.split() == ["True", "True", "False"], done.stderr
    assert (source / "file").read_text() == "through the mount"
    assert str(target) not in Path("/proc/self/mountinfo").read_text()
