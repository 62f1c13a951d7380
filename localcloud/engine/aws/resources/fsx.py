"""FSx for Lustre file systems and data repository associations.

https://github.com/hashicorp/terraform-provider-aws/tree/main/internal/service/fsx: lustre_file_system.go,
data_repository_association.go
"""

from typing import Any

from botocore.exceptions import ClientError

from localcloud.engine.aws.resource import Args, Aws, Prop, Resource, State, register
from localcloud.engine.aws.resources.progress import MINUTE, Seen, await_gone, await_status
from localcloud.engine.aws.resources.requests import (
    generate_client_token,
    get_error_code,
    ignore_gone,
    report_partial_creation,
    to_request,
    to_state,
)
from localcloud.engine.aws.resources.tags import TAGS, apply_tag_changes, build_tag_state, from_pairs, get_program_tags, to_pairs

FILE_SYSTEM_GONE = "FileSystemNotFound"
ASSOCIATION_GONE = "DataRepositoryAssociationNotFound"
TIMEOUT = 30 * MINUTE
ASSOCIATION_TIMEOUT = 10 * MINUTE
EVENTS = {"events": "Events"}
CHANGES = {
    "dataCompressionType": "DataCompressionType",
    "perUnitStorageThroughput": "PerUnitStorageThroughput",
    "weeklyMaintenanceStartTime": "WeeklyMaintenanceStartTime",
}
"""Properties of the Lustre configuration that FSx can change in place."""
POLICIES = {"autoExportPolicy": "AutoExportPolicy", "autoImportPolicy": "AutoImportPolicy"}


def _update_tags(aws: Aws, arn: str, old: State, new: Args) -> None:
    fsx = aws.client("fsx")
    apply_tag_changes(
        old,
        new,
        remove=lambda keys: fsx.untag_resource(ResourceARN=arn, TagKeys=keys),
        write=lambda tags: fsx.tag_resource(ResourceARN=arn, Tags=to_pairs(tags)),
    )


class FsxResource(Resource):
    """Base class of FSx resources. The provider waits until each change has taken effect."""

    gone: str
    """Error code for a resource that does not exist."""
    patience: float
    """Timeout of a change, in seconds."""

    @staticmethod
    def fetch(aws: Aws, id: str) -> list[dict[str, Any]]:
        raise NotImplementedError

    def _describe(self, aws: Aws, id: str) -> dict[str, Any] | None:
        try:
            resources = self.fetch(aws, id)
        except ClientError as error:
            if get_error_code(error) == self.gone:
                return None
            raise
        return resources[0] if resources else None

    def _read_status(self, aws: Aws, id: str) -> Seen | None:
        resource = self._describe(aws, id)
        return Seen(resource["Lifecycle"], (resource.get("FailureDetails") or {}).get("Message", "")) if resource else None

    def _wait_until_available(self, aws: Aws, id: str, doing: str, pending: str) -> None:
        what = f"{self.title} ({id}) {doing}"
        await_status(aws, what, lambda: self._read_status(aws, id), target="AVAILABLE", pending=[pending], timeout=self.patience)

    def _wait_until_gone(self, aws: Aws, id: str) -> None:
        what = f"{self.title} ({id}) delete"
        await_gone(aws, what, lambda: self._read_status(aws, id), failures=["FAILED"], timeout=self.patience)


@register
class LustreFileSystem(FsxResource):
    token = "aws:fsx/lustreFileSystem:LustreFileSystem"
    title = "FSx for Lustre File System"
    gone, patience = FILE_SYSTEM_GONE, TIMEOUT
    NAMES = {
        "storageCapacity": "StorageCapacity",
        "storageType": "StorageType",
        "securityGroupIds": "SecurityGroupIds",
        "kmsKeyId": "KmsKeyId",
        "fileSystemTypeVersion": "FileSystemTypeVersion",
    }
    LUSTRE_NAMES = {
        "automaticBackupRetentionDays": "AutomaticBackupRetentionDays",
        "copyTagsToBackups": "CopyTagsToBackups",
        "dataCompressionType": "DataCompressionType",
        "deploymentType": "DeploymentType",
        "perUnitStorageThroughput": "PerUnitStorageThroughput",
        "weeklyMaintenanceStartTime": "WeeklyMaintenanceStartTime",
    }
    OUTPUTS = {
        "storageCapacity": "StorageCapacity",
        "storageType": "StorageType",
        "kmsKeyId": "KmsKeyId",
        "fileSystemTypeVersion": "FileSystemTypeVersion",
        "arn": "ResourceARN",
        "dnsName": "DNSName",
        "networkInterfaceIds": "NetworkInterfaceIds",
        "ownerId": "OwnerId",
        "vpcId": "VpcId",
    }
    props = {
        "automaticBackupRetentionDays": Prop(default=0),
        "copyTagsToBackups": Prop(replace=True, default=False),
        "dataCompressionType": Prop(default="NONE"),
        "deploymentType": Prop(replace=True, default="SCRATCH_1"),
        "fileSystemTypeVersion": Prop(),
        "kmsKeyId": Prop(replace=True),
        "perUnitStorageThroughput": Prop(),
        "securityGroupIds": Prop(replace=True, unordered=True, write_only=True),
        "skipFinalBackup": Prop(default=True),
        "storageCapacity": Prop(),
        "storageType": Prop(replace=True, default="SSD"),
        "subnetIds": Prop(replace=True),
        "weeklyMaintenanceStartTime": Prop(),
        **TAGS,
    }

    def find_replacement_triggers(self, old: State, new: Args, changed: frozenset[str]) -> frozenset[str]:
        """Replace the file system if the capacity or the version decreases, because FSx can only increase them."""
        reduced: set[str] = set()
        if "storageCapacity" in changed and (new.get("storageCapacity") or 0) < (old.get("storageCapacity") or 0):
            reduced.add("storageCapacity")
        if "fileSystemTypeVersion" in changed and str(new.get("fileSystemTypeVersion")) < str(old.get("fileSystemTypeVersion")):
            reduced.add("fileSystemTypeVersion")
        return frozenset(reduced)

    @staticmethod
    def fetch(aws: Aws, id: str) -> list[dict[str, Any]]:
        file_systems: list[dict[str, Any]] = aws.client("fsx").describe_file_systems(FileSystemIds=[id])["FileSystems"]
        return file_systems

    def create(self, aws: Aws, args: Args) -> str:
        response = aws.client("fsx").create_file_system(
            ClientRequestToken=generate_client_token(),
            FileSystemType="LUSTRE",
            SubnetIds=[args["subnetIds"]],
            LustreConfiguration=to_request(args, self.LUSTRE_NAMES),
            **_build_tags(args),
            **to_request(args, self.NAMES),
        )
        id = str(response["FileSystem"]["FileSystemId"])
        with report_partial_creation(id):
            self._wait_until_available(aws, id, "create", "CREATING")
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        file_system = self._describe(aws, id)
        if file_system is None:
            return None
        lustre = file_system["LustreConfiguration"]
        return {
            **to_state(file_system, self.OUTPUTS),
            **to_state(lustre, {**self.LUSTRE_NAMES, "mountName": "MountName", "efaEnabled": "EfaEnabled"}),
            "subnetIds": file_system["SubnetIds"][0],
            "skipFinalBackup": recorded.get("skipFinalBackup", True) is not False,  # used only for deletion
            **build_tag_state(from_pairs(file_system.get("Tags"))),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        request: dict[str, Any] = {}
        lustre = {theirs: new[ours] for ours, theirs in CHANGES.items() if ours in changed and new.get(ours) is not None}
        if "dataCompressionType" in changed and not new.get("dataCompressionType"):
            lustre["DataCompressionType"] = "NONE"
        if lustre:
            request["LustreConfiguration"] = lustre
        if "storageCapacity" in changed:
            request["StorageCapacity"] = new["storageCapacity"]
        if "fileSystemTypeVersion" in changed:
            request["FileSystemTypeVersion"] = new["fileSystemTypeVersion"]
        if request:
            aws.client("fsx").update_file_system(ClientRequestToken=generate_client_token(), FileSystemId=id, **request)
            self._wait_until_available(aws, id, "update", "UPDATING")
            self._wait_for_action(aws, id)
        if "tags" in changed:
            _update_tags(aws, str(old["arn"]), old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        request: dict[str, Any] = {}
        if str(state.get("deploymentType")).startswith("PERSISTENT"):
            request["LustreConfiguration"] = {"SkipFinalBackup": state.get("skipFinalBackup") is not False}
        with ignore_gone(FILE_SYSTEM_GONE):
            aws.client("fsx").delete_file_system(ClientRequestToken=generate_client_token(), FileSystemId=id, **request)
        self._wait_until_gone(aws, id)

    def _wait_for_action(self, aws: Aws, id: str) -> None:
        def read_status() -> Seen | None:
            actions = (self._describe(aws, id) or {}).get("AdministrativeActions") or []
            return next(
                (Seen(action["Status"]) for action in actions if action["AdministrativeActionType"] == "FILE_SYSTEM_UPDATE"), None
            )

        what = f"FSx for Lustre File System ({id}) administrative action (FILE_SYSTEM_UPDATE) complete"
        await_status(aws, what, read_status, target="COMPLETED", pending=["IN_PROGRESS", "PENDING"], timeout=self.patience)


@register
class DataRepositoryAssociation(FsxResource):
    token = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
    title = "FSx for Lustre Data Repository Association"
    gone, patience = ASSOCIATION_GONE, ASSOCIATION_TIMEOUT
    NAMES = {
        "batchImportMetaDataOnCreate": "BatchImportMetaDataOnCreate",
        "dataRepositoryPath": "DataRepositoryPath",
        "fileSystemId": "FileSystemId",
        "fileSystemPath": "FileSystemPath",
        "importedFileChunkSize": "ImportedFileChunkSize",
    }
    props = {
        "batchImportMetaDataOnCreate": Prop(replace=True, default=False),
        "dataRepositoryPath": Prop(replace=True),
        "deleteDataInFilesystem": Prop(write_only=True, default=False),
        "fileSystemId": Prop(replace=True),
        "fileSystemPath": Prop(replace=True),
        "importedFileChunkSize": Prop(),
        "s3": Prop(
            fields={
                "autoExportPolicy": Prop(fields={"events": Prop(unordered=True)}),
                "autoImportPolicy": Prop(fields={"events": Prop(unordered=True)}),
            }
        ),
        **TAGS,
    }

    @staticmethod
    def fetch(aws: Aws, id: str) -> list[dict[str, Any]]:
        fsx = aws.client("fsx")
        associations: list[dict[str, Any]] = fsx.describe_data_repository_associations(AssociationIds=[id])["Associations"]
        return associations

    def create(self, aws: Aws, args: Args) -> str:
        response = aws.client("fsx").create_data_repository_association(
            ClientRequestToken=generate_client_token(),
            **_build_tags(args),
            **to_request(args, self.NAMES),
            **_build_s3_request(args),
        )
        id = str(response["Association"]["AssociationId"])
        with report_partial_creation(id):
            self._wait_until_available(aws, id, "create", "CREATING")
        return id

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        association = self._describe(aws, id)
        if association is None:
            return None
        policies = {
            ours: to_state(association["S3"][theirs], EVENTS)
            for ours, theirs in POLICIES.items()
            if (association.get("S3") or {}).get(theirs)
        }
        return {
            **to_state(association, {**self.NAMES, "arn": "ResourceARN", "associationId": "AssociationId"}),
            **({"s3": policies} if policies else {}),
            **build_tag_state(from_pairs(association.get("Tags"))),
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        request = (
            to_request(new, {"importedFileChunkSize": "ImportedFileChunkSize"}) if "importedFileChunkSize" in changed else {}
        )
        if "s3" in changed:
            request |= _build_s3_request(new)
        if request:
            aws.client("fsx").update_data_repository_association(
                ClientRequestToken=generate_client_token(), AssociationId=id, **request
            )
            self._wait_until_available(aws, id, "update", "UPDATING")
        if "tags" in changed:
            _update_tags(aws, str(old["arn"]), old, new)

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(ASSOCIATION_GONE):
            aws.client("fsx").delete_data_repository_association(
                ClientRequestToken=generate_client_token(),
                AssociationId=id,
                DeleteDataInFileSystem=bool(state.get("deleteDataInFilesystem")),
            )
        self._wait_until_gone(aws, id)


def _build_tags(args: Args) -> dict[str, Any]:
    """Return the tags for a request, or no member for tags: FSx rejects an empty list."""
    tags = to_pairs(get_program_tags(args))
    return {"Tags": tags} if tags else {}


def _build_s3_request(args: Args) -> dict[str, Any]:
    """Return the import and export policies. If the program removed a policy, send it without events."""
    policies = args.get("s3")
    if policies is None:
        return {}
    return {"S3": {theirs: {"Events": (policies.get(ours) or {}).get("events") or []} for ours, theirs in POLICIES.items()}}
