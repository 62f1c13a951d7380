"""Deployment types, sizes, throughputs and versions that FSx accepts. Performs no I/O.

https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html (StorageCapacity),
.../API_CreateFileSystemLustreConfiguration.html, .../API_UpdateFileSystem.html
"""

from collections.abc import Mapping
from typing import Any

from localcloud.aws.errors import AwsError
from localcloud.aws.fsx.states import build_bad_request_error, build_not_emulated_error

THROUGHPUTS = (125, 250, 500, 1000)
_SMALLEST, _STEP = 1200, 2400
_VERSIONS = ("2.10", "2.12", "2.15")


def check_new_file_system(size: int | None, lustre: Mapping[str, Any], version: str | None) -> None:
    deployment = lustre.get("DeploymentType", "SCRATCH_1")
    if deployment not in ("SCRATCH_2", "PERSISTENT_2"):
        raise build_not_emulated_error(f"the deployment type {deployment}")
    if size is None:
        raise build_bad_request_error("StorageCapacity is required for a Lustre file system.")
    if size != _SMALLEST and (size < _STEP or size % _STEP):
        raise build_bad_request_error(
            f"Storage capacity {size} GiB is not valid: use 1200 GiB, 2400 GiB, or increments of 2400 GiB."
        )
    _check_throughput(deployment, lustre.get("PerUnitStorageThroughput"))
    _check_version(deployment, version)
    if lustre.get("DataCompressionType", "NONE") not in ("NONE", "LZ4"):
        raise build_bad_request_error("DataCompressionType must be NONE or LZ4.")


def _check_throughput(deployment: str, throughput: int | None) -> None:
    if deployment == "SCRATCH_2":
        if throughput is not None:
            raise build_bad_request_error(
                "PerUnitStorageThroughput is only supported for PERSISTENT_1 and PERSISTENT_2 file systems."
            )
        return
    if throughput is None:
        raise build_bad_request_error("PerUnitStorageThroughput is required for PERSISTENT_2 file systems.")
    check_throughput(throughput)


def check_throughput(throughput: int) -> None:
    if throughput not in THROUGHPUTS:
        valid = ", ".join(map(str, THROUGHPUTS))
        message = f"PerUnitStorageThroughput {throughput} is not valid for PERSISTENT_2 SSD file systems: use {valid}."
        raise AwsError("InvalidPerUnitStorageThroughput", message)


def _check_version(deployment: str, version: str | None) -> None:
    if version is not None and version not in _VERSIONS:
        raise build_bad_request_error(f"FileSystemTypeVersion must be one of {', '.join(_VERSIONS)}.")
    if version == "2.10" and deployment == "PERSISTENT_2":
        raise build_bad_request_error("FileSystemTypeVersion 2.10 is not supported for PERSISTENT_2 file systems.")


def check_upgrade(old: str, new: str) -> None:
    if new not in _VERSIONS or new <= old:
        raise build_bad_request_error(
            f"FileSystemTypeVersion {new} is not valid: the file system has {old}, and FSx only allows newer versions."
        )


def check_size_increase(old: int, new: int) -> None:
    if new <= old:
        raise build_bad_request_error(f"The new storage capacity {new} GiB must be greater than the current one, {old} GiB.")
    if new % _STEP:
        raise build_bad_request_error(f"The new storage capacity {new} GiB must be a multiple of 2400 GiB.")


def get_default_version(deployment: str) -> str:
    return "2.12" if deployment == "PERSISTENT_2" else "2.10"


def count_network_interfaces(size: int) -> int:
    """Return the number of network interfaces: one for the metadata server, and one for every 2.4 TiB or part thereof
    (estimate).
    """
    return 1 + -(-size // _STEP)
