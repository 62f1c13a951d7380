"""Test cases for FSx for Lustre."""

from typing import Any

from tests.engine.cases.case import Case, constant, property_names
from tests.engine.world import World


def _persistent_inputs(world: World) -> dict[str, Any]:
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


def _association_inputs(world: World) -> dict[str, Any]:
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
        make_inputs=_persistent_inputs,
        needed=property_names("subnetIds", "securityGroupIds", "deploymentType", "perUnitStorageThroughput", "storageCapacity"),
        updates={
            "dataCompressionType": constant("NONE"),
            "fileSystemTypeVersion": constant("2.15"),
            "perUnitStorageThroughput": constant(250),
            "storageCapacity": constant(4800),
            "weeklyMaintenanceStartTime": constant("2:03:00"),
            "tags": constant({"Name": "other"}),
        },
        removals=property_names("dataCompressionType", "tags"),
        replaces={
            "copyTagsToBackups": constant(True),
            "deploymentType": constant("SCRATCH_2"),
            "kmsKeyId": lambda world: world.second_key,
            "securityGroupIds": constant(["sg-0123456789abcdef0"]),
            "storageType": constant("HDD"),
            "subnetIds": constant("subnet-0123456789abcdef0"),
        },
        drift=lambda world, id: world.client("fsx").update_file_system(
            FileSystemId=id, LustreConfiguration={"DataCompressionType": "NONE"}
        ),
        drifted=property_names("dataCompressionType"),
    ),
    Case(
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        make_inputs=_association_inputs,
        needed=property_names("fileSystemId", "fileSystemPath", "dataRepositoryPath"),
        updates={
            "importedFileChunkSize": constant(2048),
            "s3": constant({"autoExportPolicy": {"events": ["DELETED"]}}),
            "tags": constant({"Name": "other"}),
        },
        removals=property_names("tags"),
        replaces={
            "batchImportMetaDataOnCreate": constant(False),
            "dataRepositoryPath": constant("s3://another-bucket"),
            "fileSystemId": constant("fs-0123456789abcdef0"),
            "fileSystemPath": constant("/other"),
        },
        drift=lambda world, id: world.client("fsx").update_data_repository_association(
            AssociationId=id, S3={"AutoExportPolicy": {"Events": ["CHANGED"]}}
        ),
        drifted=property_names("s3"),
    ),
]
