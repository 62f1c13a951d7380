"""CSI driver on a node: the Identity and Node services, and the kubelet's plugin registration service.

https://kubernetes-csi.github.io/docs/developing.html. All calls are unary, so a table of handlers is enough.
"""

import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc

from localcloud.kubernetes.csi.messages import get_csi_class, get_registration_class

log = logging.getLogger(__name__)

_GET_VOLUME_STATS = 2
_BYTES = 1
_THREADS = 8


class InvalidVolume(Exception):
    """The volume in the request is invalid. The message contains the reason."""


class MountRefused(Exception):
    """The local AWS rejected the mount. The message contains the reason."""


@dataclass(frozen=True)
class Source:
    """Location of a volume's files."""

    folder: Path
    read_only: bool


class Volumes(Protocol):
    """Interface to the volumes of one driver."""

    driver: str
    version: str
    """Version of the real driver that the emulator reports."""
    statistics: bool
    """Whether the real driver reports the usage of volumes."""

    def parse(self, request: Any) -> Any:
        """Return the volume in a NodePublishVolumeRequest. Log and error messages contain the volume's `str`. Raises
        InvalidVolume."""

    def resolve(self, volume: Any) -> Source:
        """Return the location of the volume's files. Raises MountRefused."""


class Mounter(Protocol):
    def bind(self, source: Path, target: Path, *, read_only: bool) -> None: ...

    def unmount(self, target: Path) -> None: ...


class Driver:
    """Implements the gRPC calls. CallFailed exceptions become gRPC errors."""

    def __init__(self, node_id: str, endpoint: Path, registration: Path, volumes: Volumes, mounter: Mounter) -> None:
        """`endpoint`: socket of the driver. `registration`: socket through which the kubelet discovers the driver."""
        self.sockets = endpoint, registration
        self._node_id, self._volumes, self._mounter = node_id, volumes, mounter

    def list_calls(self) -> Mapping[str, tuple[Any, Callable[[Any], Any]]]:
        """Return the request class and the handler of each gRPC call, keyed by the call's full name."""
        nothing = get_csi_class("Nothing")
        return {
            "csi.v1.Identity/GetPluginInfo": (
                nothing,
                lambda _: get_csi_class("GetPluginInfoResponse")(name=self._volumes.driver, vendor_version=self._volumes.version),
            ),
            "csi.v1.Identity/GetPluginCapabilities": (nothing, lambda _: get_csi_class("GetPluginCapabilitiesResponse")()),
            "csi.v1.Identity/Probe": (nothing, lambda _: get_csi_class("ProbeResponse")(ready=get_csi_class("Bool")(value=True))),
            "csi.v1.Node/NodeGetInfo": (nothing, lambda _: get_csi_class("NodeGetInfoResponse")(node_id=self._node_id)),
            "csi.v1.Node/NodeGetCapabilities": (nothing, self._get_capabilities),
            "csi.v1.Node/NodePublishVolume": (get_csi_class("NodePublishVolumeRequest"), self._publish_volume),
            "csi.v1.Node/NodeUnpublishVolume": (get_csi_class("NodeUnpublishVolumeRequest"), self._unpublish_volume),
            "csi.v1.Node/NodeGetVolumeStats": (get_csi_class("NodeGetVolumeStatsRequest"), self._get_volume_stats),
            "pluginregistration.Registration/GetInfo": (get_registration_class("InfoRequest"), self._get_plugin_info),
            "pluginregistration.Registration/NotifyRegistrationStatus": (
                get_registration_class("RegistrationStatus"),
                self._log_registration,
            ),
        }

    def _get_capabilities(self, _: Any) -> Any:
        able = get_csi_class("NodeServiceCapability")(rpc=get_csi_class("RPC")(type=_GET_VOLUME_STATS))
        return get_csi_class("NodeGetCapabilitiesResponse")(capabilities=[able] if self._volumes.statistics else [])

    def _publish_volume(self, request: Any) -> Any:
        if not request.target_path:
            raise CallFailed(grpc.StatusCode.INVALID_ARGUMENT, "Target path not provided")
        if request.volume_capability.HasField("block"):
            raise CallFailed(grpc.StatusCode.INVALID_ARGUMENT, "Volume capability not supported: no block devices")
        try:
            volume = self._volumes.parse(request)
        except InvalidVolume as error:
            raise CallFailed(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        flags = request.volume_capability.mount.mount_flags
        try:
            source = self._volumes.resolve(volume)
            read_only = source.read_only or request.readonly or "ro" in flags
            self._mounter.bind(source.folder, Path(request.target_path), read_only=read_only)
        except (MountRefused, OSError) as error:
            message = f"Could not mount {str(volume)!r} at {request.target_path!r}: {error}"
            raise CallFailed(grpc.StatusCode.INTERNAL, message) from error
        log.info("mounted %s at %s", volume, request.target_path)
        return get_csi_class("Nothing")()

    def _unpublish_volume(self, request: Any) -> Any:
        try:
            self._mounter.unmount(Path(request.target_path))
        except OSError as error:
            raise CallFailed(grpc.StatusCode.INTERNAL, f"Could not unmount {request.target_path!r}: {error}") from error
        log.info("unmounted %s", request.target_path)
        return get_csi_class("Nothing")()

    def _get_volume_stats(self, request: Any) -> Any:
        try:
            status = os.statvfs(request.volume_path)
        except OSError as error:
            raise CallFailed(grpc.StatusCode.NOT_FOUND, f"Could not stat {request.volume_path!r}: {error}") from error
        total, free = status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize
        usage = get_csi_class("VolumeUsage")(available=free, total=total, used=total - free, unit=_BYTES)
        return get_csi_class("NodeGetVolumeStatsResponse")(usage=[usage])

    def _get_plugin_info(self, _: Any) -> Any:
        return get_registration_class("PluginInfo")(
            type="CSIPlugin", name=self._volumes.driver, endpoint=str(self.sockets[0]), supported_versions=["1.0.0"]
        )

    def _log_registration(self, status: Any) -> Any:
        if status.plugin_registered:
            log.info("the kubelet registered the driver")
        else:
            log.error("the kubelet failed to register the driver: %s", status.error)
            self._recreate_registration_socket()
        return get_registration_class("RegistrationStatusResponse")()

    def _recreate_registration_socket(self) -> None:
        """Make the kubelet register the driver again. The kubelet tries once each time the registration socket appears.

        Registration fails while the API server is down or the Node object does not exist yet. The real driver's
        registrar then exits, and its container restarts:
        https://github.com/kubernetes-csi/node-driver-registrar/blob/master/cmd/csi-node-driver-registrar/node_register.go
        The kubelet ignores sockets whose name begins with a dot.
        """
        socket = self.sockets[1]
        hidden = socket.rename(socket.with_name(f".{socket.name}"))
        hidden.rename(socket)


class CallFailed(Exception):
    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, calls: Mapping[str, tuple[Any, Callable[[Any], Any]]]) -> None:
        self._handlers = {f"/{name}": _create_handler(name, *entry) for name, entry in calls.items()}

    def service(self, details: Any) -> Any:
        return self._handlers.get(details.method)


def _create_handler(name: str, request_class: Any, answer: Callable[[Any], Any]) -> Any:
    def handle_call(request: Any, context: Any) -> Any:
        try:
            return answer(request)
        except CallFailed as failed:
            log.warning("%s: %s", name, failed)
            context.abort(failed.code, str(failed))

    return grpc.unary_unary_rpc_method_handler(
        handle_call,
        request_deserializer=request_class.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


def serve_driver(driver: Driver) -> grpc.Server:
    """Serve on the driver's Unix sockets. Replace stale sockets left by an earlier process."""
    server = grpc.server(ThreadPoolExecutor(_THREADS), handlers=[_Handlers(driver.list_calls())])
    for path in driver.sockets:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{path}")
    server.start()
    return server
