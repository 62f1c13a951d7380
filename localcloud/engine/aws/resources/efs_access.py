"""EFS mount targets and access points."""

from typing import Any

from localcloud.engine.aws.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.efs import FILE_SYSTEM_GONE, TIMEOUT, build_dns_name, build_efs_arn, update_tags
from localcloud.engine.aws.resources.progress import MINUTE, Seen, await_gone, await_status
from localcloud.engine.aws.resources.requests import (
    generate_client_token,
    ignore_gone,
    report_partial_creation,
    to_request,
    to_state,
)
from localcloud.engine.aws.resources.tags import TAGS, build_tag_state, from_pairs, get_program_tags, to_pairs

MOUNT_TARGET_TIMEOUT = 30 * MINUTE
MOUNT_TARGET_GONE = "MountTargetNotFound"
ACCESS_POINT_GONE = "AccessPointNotFound"
OWNER = {"gid": "Gid", "uid": "Uid", "secondaryGids": "SecondaryGids"}
CREATION = {"ownerGid": "OwnerGid", "ownerUid": "OwnerUid", "permissions": "Permissions"}


@register
class MountTarget(Resource):
    token = "aws:efs/mountTarget:MountTarget"
    title = "EFS Mount Target"
    delete_before_replace = True  # EFS allows only one mount target per Availability Zone
    CREATE_NAMES = {
        "fileSystemId": "FileSystemId",
        "subnetId": "SubnetId",
        "ipAddress": "IpAddress",
        "securityGroups": "SecurityGroups",
    }
    OUTPUTS = {
        "fileSystemId": "FileSystemId",
        "subnetId": "SubnetId",
        "ipAddress": "IpAddress",
        "availabilityZoneId": "AvailabilityZoneId",
        "availabilityZoneName": "AvailabilityZoneName",
        "networkInterfaceId": "NetworkInterfaceId",
        "ownerId": "OwnerId",
    }
    props = {
        "fileSystemId": Prop(replace=True),
        "subnetId": Prop(replace=True),
        "ipAddress": Prop(replace=True),
        "securityGroups": Prop(unordered=True),
    }

    def create(self, aws: Aws, args: Args) -> str:
        id = str(aws.client("efs").create_mount_target(**to_request(args, self.CREATE_NAMES))["MountTargetId"])
        with report_partial_creation(id):
            doing = f"EFS Mount Target ({id}) create"
            await_status(
                aws,
                doing,
                lambda: self._read_status(aws, id),
                target="available",
                pending=["creating"],
                timeout=MOUNT_TARGET_TIMEOUT,
            )
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        mount_target = self._describe(aws, id)
        if mount_target is None or mount_target["LifeCycleState"] == "deleted":
            return None
        groups = aws.client("efs").describe_mount_target_security_groups(MountTargetId=id).get("SecurityGroups")
        file_system = build_dns_name(aws, mount_target["FileSystemId"])
        return {
            **to_state(mount_target, self.OUTPUTS),
            "securityGroups": groups or [],
            "dnsName": file_system,
            "mountTargetDnsName": f"{mount_target.get('AvailabilityZoneName')}.{file_system}",
            "fileSystemArn": build_efs_arn(aws, "file-system", mount_target["FileSystemId"]),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "securityGroups" in changed:
            groups = new.get("securityGroups") or []
            aws.client("efs").modify_mount_target_security_groups(MountTargetId=id, SecurityGroups=groups)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(MOUNT_TARGET_GONE):
            aws.client("efs").delete_mount_target(MountTargetId=id)
        doing = f"EFS Mount Target ({id}) delete"
        await_gone(aws, doing, lambda: self._read_status(aws, id), failures=["error"], timeout=MOUNT_TARGET_TIMEOUT)

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        efs = aws.client("efs")
        try:
            mount_targets: list[dict[str, Any]] = efs.describe_mount_targets(MountTargetId=id)["MountTargets"]
        except efs.exceptions.MountTargetNotFound:
            return None
        return mount_targets[0] if mount_targets else None

    def _read_status(self, aws: Aws, id: str) -> Seen | None:
        mount_target = self._describe(aws, id)
        return Seen(mount_target["LifeCycleState"]) if mount_target and mount_target["LifeCycleState"] != "deleted" else None


@register
class AccessPoint(Resource):
    token = "aws:efs/accessPoint:AccessPoint"
    title = "EFS Access Point"
    props = {
        "fileSystemId": Prop(replace=True),
        "posixUser": Prop(
            replace=True, default={}, fields={"gid": Prop(), "uid": Prop(), "secondaryGids": Prop(unordered=True, default=[])}
        ),
        "rootDirectory": Prop(
            replace=True, fields={"path": Prop(), "creationInfo": Prop(fields=dict.fromkeys(CREATION, Prop()))}
        ),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        request: dict[str, Any] = {}
        if args.get("posixUser"):
            request["PosixUser"] = to_request(args["posixUser"], OWNER)
        if args.get("rootDirectory"):
            root = args["rootDirectory"]
            request["RootDirectory"] = to_request(root, {"path": "Path"})
            if root.get("creationInfo"):
                request["RootDirectory"]["CreationInfo"] = to_request(root["creationInfo"], CREATION)
        response = aws.client("efs").create_access_point(
            ClientToken=generate_client_token(),
            FileSystemId=args["fileSystemId"],
            Tags=to_pairs(get_program_tags(args)),
            **request,
        )
        id = str(response["AccessPointId"])
        with report_partial_creation(id):
            doing = f"EFS Access Point ({id}) create"
            await_status(
                aws, doing, lambda: self._read_status(aws, id), target="available", pending=["creating"], timeout=TIMEOUT
            )
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        access_point = self._describe(aws, id)
        if access_point is None or access_point["LifeCycleState"] == "deleted":
            return None
        root = access_point.get("RootDirectory") or {}
        creation = to_state(root.get("CreationInfo") or {}, CREATION)
        user = to_state(access_point.get("PosixUser") or {}, OWNER)
        return {
            "fileSystemId": access_point["FileSystemId"],
            "fileSystemArn": build_efs_arn(aws, "file-system", access_point["FileSystemId"]),
            "arn": access_point["AccessPointArn"],
            "ownerId": access_point["OwnerId"],
            "rootDirectory": {"path": root.get("Path", "/"), **({"creationInfo": creation} if creation else {})},
            **({"posixUser": user} if user else {}),
            **build_tag_state(from_pairs(access_point.get("Tags"))),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(ACCESS_POINT_GONE, FILE_SYSTEM_GONE):
            aws.client("efs").delete_access_point(AccessPointId=id)
        await_gone(
            aws, f"EFS Access Point ({id}) delete", lambda: self._read_status(aws, id), failures=["error"], timeout=TIMEOUT
        )

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        efs = aws.client("efs")
        try:
            access_points: list[dict[str, Any]] = efs.describe_access_points(AccessPointId=id)["AccessPoints"]
        except efs.exceptions.AccessPointNotFound:
            return None
        return access_points[0] if access_points else None

    def _read_status(self, aws: Aws, id: str) -> Seen | None:
        access_point = self._describe(aws, id)
        return Seen(access_point["LifeCycleState"]) if access_point and access_point["LifeCycleState"] != "deleted" else None
