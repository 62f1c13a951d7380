"""The CSI messages and plugin registration messages that the driver uses.

Field numbers: https://github.com/container-storage-interface/spec/blob/v1.12.0/csi.proto and
https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/kubelet/pkg/apis/pluginregistration/v1/api.proto
Other fields are ignored, as protobuf ignores all unknown fields.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

CSI, REGISTRATION = "csi.v1", "pluginregistration"

Fields = Mapping[str, tuple[int, str]]
"""Number and type of each field, keyed by field name. Types: `string`, `bool`, `int32` (also for enums), `int64`, `map`
(of strings), a message of the same package, or `repeated` followed by one of these."""

TABLES: Mapping[str, Mapping[str, Fields]] = {
    CSI: {
        "Nothing": {},
        "GetPluginInfoResponse": {"name": (1, "string"), "vendor_version": (2, "string")},
        "GetPluginCapabilitiesResponse": {},
        "Bool": {"value": (1, "bool")},
        "ProbeResponse": {"ready": (1, "Bool")},
        "MountVolume": {"fs_type": (1, "string"), "mount_flags": (2, "repeated string")},
        "AccessMode": {"mode": (1, "int32")},
        "VolumeCapability": {"block": (1, "Nothing"), "mount": (2, "MountVolume"), "access_mode": (3, "AccessMode")},
        "NodePublishVolumeRequest": {
            "volume_id": (1, "string"),
            "target_path": (4, "string"),
            "volume_capability": (5, "VolumeCapability"),
            "readonly": (6, "bool"),
            "volume_context": (8, "map"),
        },
        "NodeUnpublishVolumeRequest": {"volume_id": (1, "string"), "target_path": (2, "string")},
        "NodeGetVolumeStatsRequest": {"volume_id": (1, "string"), "volume_path": (2, "string")},
        "VolumeUsage": {"available": (1, "int64"), "total": (2, "int64"), "used": (3, "int64"), "unit": (4, "int32")},
        "NodeGetVolumeStatsResponse": {"usage": (1, "repeated VolumeUsage")},
        "RPC": {"type": (1, "int32")},
        "NodeServiceCapability": {"rpc": (1, "RPC")},
        "NodeGetCapabilitiesResponse": {"capabilities": (1, "repeated NodeServiceCapability")},
        "NodeGetInfoResponse": {"node_id": (1, "string"), "max_volumes_per_node": (2, "int64")},
    },
    REGISTRATION: {
        "InfoRequest": {},
        "PluginInfo": {
            "type": (1, "string"),
            "name": (2, "string"),
            "endpoint": (3, "string"),
            "supported_versions": (4, "repeated string"),
        },
        "RegistrationStatus": {"plugin_registered": (1, "bool"), "error": (2, "string")},
        "RegistrationStatusResponse": {},
    },
}
_SCALARS = {
    name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}") for name in ("string", "bool", "int32", "int64")
}
_MESSAGE = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_OPTIONAL, _REPEATED = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL, descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED


def _build_file_descriptor(package: str, table: Mapping[str, Fields]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, package, name, field, number, kind)
    return file


def _add_field(message: Any, package: str, owner: str, name: str, number: int, kind: str) -> None:
    label = _REPEATED if kind.startswith("repeated ") or kind == "map" else _OPTIONAL
    kind = kind.removeprefix("repeated ")
    field = message.field.add(name=name, number=number, label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _MESSAGE
    if kind == "map":
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        for number_, part in enumerate(("key", "value"), 1):
            entry.field.add(name=part, number=number_, label=_OPTIONAL, type=_SCALARS["string"])
        kind = f"{owner}.{entry.name}"
    field.type_name = f".{package}.{kind}"


def _build_message_classes() -> dict[str, Any]:
    """Build the message classes in a separate descriptor pool, because another package in this process may register the
    real .proto files."""
    pool = descriptor_pool.DescriptorPool()
    classes = {}
    for package, table in TABLES.items():
        pool.Add(_build_file_descriptor(package, table))
        for name in table:
            classes[f"{package}.{name}"] = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
    return classes


CLASSES: Mapping[str, Any] = _build_message_classes()


def get_csi_class(name: str) -> Any:
    """Return the class of the CSI message with this name."""
    return CLASSES[f"{CSI}.{name}"]


def get_registration_class(name: str) -> Any:
    return CLASSES[f"{REGISTRATION}.{name}"]
