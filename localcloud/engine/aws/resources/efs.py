"""EFS file systems and their access, backup and lifecycle settings."""

from typing import Any

from botocore.exceptions import ClientError

from localcloud.engine.aws.resource import Args, AutoName, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.progress import MINUTE, Seen, await_gone, await_status
from localcloud.engine.aws.resources.requests import get_error_code, ignore_gone, report_partial_creation, to_request, to_state
from localcloud.engine.aws.resources.tags import TAGS, apply_tag_changes, build_tag_state, from_pairs, get_program_tags, to_pairs

FILE_SYSTEM_GONE = "FileSystemNotFound"
POLICY_GONE = "PolicyNotFound"
TIMEOUT = 10 * MINUTE
TRANSITIONS = {
    "transitionToIa": "TransitionToIA",
    "transitionToPrimaryStorageClass": "TransitionToPrimaryStorageClass",
    "transitionToArchive": "TransitionToArchive",
}
DNS_SUFFIXES = {"aws": "amazonaws.com", "aws-cn": "amazonaws.com.cn", "aws-us-gov": "amazonaws.com"}


def build_efs_arn(aws: Aws, kind: str, id: str) -> str:
    return f"arn:{aws.partition}:elasticfilesystem:{aws.region}:{aws.account_id}:{kind}/{id}"


def build_dns_name(aws: Aws, file_system: str) -> str:
    return f"{file_system}.efs.{aws.region}.{DNS_SUFFIXES[aws.partition]}"


def update_tags(aws: Aws, id: str, old: State, new: Args) -> None:
    """Update the tags of a file system or access point."""
    efs = aws.client("efs")
    apply_tag_changes(
        old,
        new,
        remove=lambda keys: efs.untag_resource(ResourceId=id, TagKeys=keys),
        write=lambda tags: efs.tag_resource(ResourceId=id, Tags=to_pairs(tags)),
    )


@register
class FileSystem(Resource):
    token = "aws:efs/fileSystem:FileSystem"
    title = "EFS File System"
    auto_name = AutoName(property="creationToken", unless=())
    CREATE_NAMES = {
        "creationToken": "CreationToken",
        "availabilityZoneName": "AvailabilityZoneName",
        "encrypted": "Encrypted",
        "kmsKeyId": "KmsKeyId",
        "performanceMode": "PerformanceMode",
        "provisionedThroughputInMibps": "ProvisionedThroughputInMibps",
        "throughputMode": "ThroughputMode",
    }
    OUTPUTS = {
        **CREATE_NAMES,
        "arn": "FileSystemArn",
        "availabilityZoneId": "AvailabilityZoneId",
        "name": "Name",
        "numberOfMountTargets": "NumberOfMountTargets",
        "ownerId": "OwnerId",
    }
    props = {
        "availabilityZoneName": Prop(replace=True),
        "creationToken": Prop(replace=True),
        "encrypted": Prop(replace=True),
        "kmsKeyId": Prop(replace=True),
        "lifecyclePolicies": Prop(unordered=True, default=[], fields=dict.fromkeys(TRANSITIONS, Prop())),
        "performanceMode": Prop(replace=True),
        "protection": Prop(fields={"replicationOverwrite": Prop()}),
        "provisionedThroughputInMibps": Prop(default=0),
        "throughputMode": Prop(default="bursting"),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        efs = aws.client("efs")
        response = efs.create_file_system(Tags=to_pairs(get_program_tags(args)), **to_request(args, self.CREATE_NAMES))
        id = str(response["FileSystemId"])
        with report_partial_creation(id):
            self._wait_until_available(aws, id, f"EFS File System ({id}) create", "creating")
            if args.get("protection"):
                self._update_protection(aws, id, args)
            if args.get("lifecyclePolicies"):
                self._put_lifecycle_policies(aws, id, args)
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        efs = aws.client("efs")
        file_system = self._describe(aws, id)
        if file_system is None or file_system["LifeCycleState"] == "deleted":
            return None
        policies = efs.describe_lifecycle_configuration(FileSystemId=id)["LifecyclePolicies"]
        protection = (file_system.get("FileSystemProtection") or {}).get("ReplicationOverwriteProtection")
        size = file_system.get("SizeInBytes") or {}
        return {
            **to_state(file_system, self.OUTPUTS),
            **build_tag_state(from_pairs(file_system.get("Tags"))),
            **({"protection": {"replicationOverwrite": protection}} if protection else {}),
            "lifecyclePolicies": [to_state(policy, TRANSITIONS) for policy in policies],
            "sizeInBytes": [to_state(size, {"value": "Value", "valueInIa": "ValueInIA", "valueInStandard": "ValueInStandard"})],
            "dnsName": build_dns_name(aws, id),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        if changed & {"throughputMode", "provisionedThroughputInMibps"}:
            mode = new.get("throughputMode") or "bursting"
            rate = {"ProvisionedThroughputInMibps": new["provisionedThroughputInMibps"]} if mode == "provisioned" else {}
            aws.client("efs").update_file_system(FileSystemId=id, ThroughputMode=mode, **rate)
            self._wait_until_available(aws, id, f"EFS File System ({id}) update", "updating")
        if "protection" in changed:
            self._update_protection(aws, id, new)
        if "lifecyclePolicies" in changed:
            self._put_lifecycle_policies(aws, id, new)
        if "tags" in changed:
            update_tags(aws, id, old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(FILE_SYSTEM_GONE):
            aws.client("efs").delete_file_system(FileSystemId=id)
        await_gone(aws, f"EFS File System ({id}) delete", lambda: self._read_status(aws, id), failures=["error"], timeout=TIMEOUT)

    @staticmethod
    def _update_protection(aws: Aws, id: str, args: Args) -> None:
        overwrite_protection = (args.get("protection") or {}).get("replicationOverwrite")
        if overwrite_protection:
            aws.client("efs").update_file_system_protection(FileSystemId=id, ReplicationOverwriteProtection=overwrite_protection)

    @staticmethod
    def _put_lifecycle_policies(aws: Aws, id: str, args: Args) -> None:
        policies = [to_request(policy, TRANSITIONS) for policy in args.get("lifecyclePolicies") or []]
        aws.client("efs").put_lifecycle_configuration(FileSystemId=id, LifecyclePolicies=policies)

    @staticmethod
    def _describe(aws: Aws, id: str) -> dict[str, Any] | None:
        efs = aws.client("efs")
        try:
            file_systems: list[dict[str, Any]] = efs.describe_file_systems(FileSystemId=id)["FileSystems"]
        except efs.exceptions.FileSystemNotFound:
            return None
        return file_systems[0] if file_systems else None

    def _read_status(self, aws: Aws, id: str) -> Seen | None:
        file_system = self._describe(aws, id)
        return Seen(file_system["LifeCycleState"]) if file_system and file_system["LifeCycleState"] != "deleted" else None

    def _wait_until_available(self, aws: Aws, id: str, doing: str, pending: str) -> None:
        await_status(aws, doing, lambda: self._read_status(aws, id), target="available", pending=[pending], timeout=TIMEOUT)


@register
class FileSystemPolicy(Resource):
    token = "aws:efs/fileSystemPolicy:FileSystemPolicy"
    title = "EFS File System Policy"
    props = {
        "fileSystemId": Prop(replace=True),
        "policy": Prop(json=True),
        "bypassPolicyLockoutSafetyCheck": Prop(write_only=True, default=False),
    }

    def create(self, aws: Aws, args: Args) -> str:
        self._put_policy(aws, args)
        return str(args["fileSystemId"])

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        try:
            response = aws.client("efs").describe_file_system_policy(FileSystemId=id)
        except ClientError as error:
            if get_error_code(error) in (POLICY_GONE, FILE_SYSTEM_GONE):
                return None
            raise
        return {"fileSystemId": id, "policy": response["Policy"]}

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        self._put_policy(aws, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(POLICY_GONE, FILE_SYSTEM_GONE):
            aws.client("efs").delete_file_system_policy(FileSystemId=id)

    @staticmethod
    def _put_policy(aws: Aws, args: Args) -> None:
        lockout = to_request(args, {"bypassPolicyLockoutSafetyCheck": "BypassPolicyLockoutSafetyCheck"})
        aws.client("efs").put_file_system_policy(FileSystemId=args["fileSystemId"], Policy=args["policy"], **lockout)


@register
class BackupPolicy(Resource):
    token = "aws:efs/backupPolicy:BackupPolicy"
    title = "EFS Backup Policy"
    props = {"fileSystemId": Prop(replace=True), "backupPolicy": Prop(fields={"status": Prop()})}

    def create(self, aws: Aws, args: Args) -> str:
        id = str(args["fileSystemId"])
        self._put_backup_policy(aws, id, args["backupPolicy"]["status"])
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        current = self._read_status(aws, id)
        return {"fileSystemId": id, "backupPolicy": {"status": current.status}} if current else None

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        self._put_backup_policy(aws, id, new["backupPolicy"]["status"])

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(FILE_SYSTEM_GONE, POLICY_GONE):
            self._put_backup_policy(aws, id, "DISABLED")

    def _put_backup_policy(self, aws: Aws, id: str, status: str) -> None:
        aws.client("efs").put_backup_policy(FileSystemId=id, BackupPolicy={"Status": status})
        pending = {"ENABLED": "ENABLING", "DISABLED": "DISABLING"}[status]
        doing = f"EFS Backup Policy ({id}) {'enable' if status == 'ENABLED' else 'disable'}"
        await_status(aws, doing, lambda: self._read_status(aws, id), target=status, pending=[pending], timeout=TIMEOUT)

    @staticmethod
    def _read_status(aws: Aws, id: str) -> Seen | None:
        try:
            return Seen(aws.client("efs").describe_backup_policy(FileSystemId=id)["BackupPolicy"]["Status"])
        except ClientError as error:
            if get_error_code(error) in (FILE_SYSTEM_GONE, POLICY_GONE):
                return None
            raise
