"""Test cases for FSx for Lustre."""

from typing import Any

from tests.engine.cases.case import Case, make_constant, property_names
from tests.engine.world import World


def _build_persistent_inputs(world: World) -> dict[str, Any]:
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


def _build_association_inputs(world: World) -> dict[str, Any]:
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
        make_inputs=_build_persistent_inputs,
        needed=property_names("subnetIds", "securityGroupIds", "deploymentType", "perUnitStorageThroughput", "storageCapacity"),
        updates={
            "dataCompressionType": make_constant("NONE"),
            "fileSystemTypeVersion": make_constant("2.15"),
            "perUnitStorageThroughput": make_constant(250),
            "storageCapacity": make_constant(4800),
            "weeklyMaintenanceStartTime": make_constant("2:03:00"),
            "tags": make_constant({"Name": "other"}),
        },
        removals=property_names("dataCompressionType", "tags"),
        replaces={
            "copyTagsToBackups": make_constant(True),
            "deploymentType": make_constant("SCRATCH_2"),
            "kmsKeyId": lambda world: world.second_key,
            "securityGroupIds": make_constant(["sg-0123456789abcdef0"]),
            "storageType": make_constant("HDD"),
            "subnetIds": make_constant("subnet-0123456789abcdef0"),
        },
        drift=lambda world, id: world.client("fsx").update_file_system(
            FileSystemId=id, LustreConfiguration={"DataCompressionType": "NONE"}
        ),
        drifted=property_names("dataCompressionType"),
    ),
    Case(
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        make_inputs=_build_association_inputs,
        needed=property_names("fileSystemId", "fileSystemPath", "dataRepositoryPath"),
        updates={
            "importedFileChunkSize": make_constant(2048),
            "s3": make_constant({"autoExportPolicy": {"events": ["DELETED"]}}),
            "tags": make_constant({"Name": "other"}),
        },
        removals=property_names("tags"),
        replaces={
            "batchImportMetaDataOnCreate": make_constant(False),
            "dataRepositoryPath": make_constant("s3://another-bucket"),
            "fileSystemId": make_constant("fs-0123456789abcdef0"),
            "fileSystemPath": make_constant("/other"),
        },
        drift=lambda world, id: world.client("fsx").update_data_repository_association(
            AssociationId=id, S3={"AutoExportPolicy": {"Events": ["CHANGED"]}}
        ),
        drifted=property_names("s3"),
    ),
]
