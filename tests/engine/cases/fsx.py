"""Test cases for FSx for Lustre."""

from typing import Any

from tests.engine.cases.case import Case, names, value
from tests.engine.world import World


def _persistent(world: World) -> dict[str, Any]:
    return {
        "subnetIds": world.subnets[0],
        "securityGroupIds": [world.lustre_group],
        "automaticBackupRetentionDays": 0,
        "copyTagsToBackups": False,
        "dataCompressionType": "LZ4",
        "deploymentType": "PERSISTENT_2",
        "fileSystemTypeVersion": "2.12",
        "kmsKeyId": world.key,
        "perUnitStorageThroughput": 125,
        "skipFinalBackup": True,
        "storageCapacity": 2400,
        "storageType": "SSD",
        "weeklyMaintenanceStartTime": "1:03:00",
        "tags": {"Name": "lustre"},
    }


def _association(world: World) -> dict[str, Any]:
    return {
        "fileSystemId": world.lustre_file_system,
        "fileSystemPath": "/data",
        "dataRepositoryPath": f"s3://{world.bucket}/sets",
        "batchImportMetaDataOnCreate": True,
        "deleteDataInFilesystem": False,
        "importedFileChunkSize": 1024,
        "s3": {"autoExportPolicy": {"events": ["NEW"]}, "autoImportPolicy": {"events": ["NEW", "CHANGED"]}},
        "tags": {"Name": "data"},
    }


CASES = [
    Case(
        "aws:fsx/lustreFileSystem:LustreFileSystem",
        make_inputs=_persistent,
        needed=names("subnetIds", "securityGroupIds", "deploymentType", "perUnitStorageThroughput", "storageCapacity"),
        updates={
            "dataCompressionType": value("NONE"),
            "fileSystemTypeVersion": value("2.15"),
            "perUnitStorageThroughput": value(250),
            "storageCapacity": value(4800),
            "weeklyMaintenanceStartTime": value("2:03:00"),
            "tags": value({"Name": "other"}),
        },
        removals=names("dataCompressionType", "tags"),
        replaces={
            "copyTagsToBackups": value(True),
            "deploymentType": value("SCRATCH_2"),
            "kmsKeyId": lambda world: world.second_key,
            "securityGroupIds": value(["sg-0123456789abcdef0"]),
            "storageType": value("HDD"),
            "subnetIds": value("subnet-0123456789abcdef0"),
        },
        drift=lambda world, id: world.client("fsx").update_file_system(
            FileSystemId=id, LustreConfiguration={"DataCompressionType": "NONE"}
        ),
        drifted=names("dataCompressionType"),
    ),
    Case(
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        make_inputs=_association,
        needed=names("fileSystemId", "fileSystemPath", "dataRepositoryPath"),
        updates={
            "importedFileChunkSize": value(2048),
            "s3": value({"autoExportPolicy": {"events": ["DELETED"]}}),
            "tags": value({"Name": "other"}),
        },
        removals=names("tags"),
        replaces={
            "batchImportMetaDataOnCreate": value(False),
            "dataRepositoryPath": value("s3://another-bucket"),
            "fileSystemId": value("fs-0123456789abcdef0"),
            "fileSystemPath": value("/other"),
        },
        drift=lambda world, id: world.client("fsx").update_data_repository_association(
            AssociationId=id, S3={"AutoExportPolicy": {"Events": ["CHANGED"]}}
        ),
        drifted=names("s3"),
    ),
]
