"""Data repository associations.

https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html and related operations
"""

import re
import secrets
from typing import Any

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.fsx import repository
from localcloud.aws.fsx.states import (
    Association,
    Record,
    build_bad_request_error,
    build_not_emulated_error,
    check_all_emulated,
    find_file_system,
    get_associations,
    list_tags,
    now,
)
from localcloud.aws.patching import operation

_CREATE = frozenset(
    {
        *("FileSystemId", "FileSystemPath", "DataRepositoryPath", "BatchImportMetaDataOnCreate", "ImportedFileChunkSize"),
        *("S3", "ClientRequestToken", "Tags"),
    }
)
_EVENTS = {"NEW", "CHANGED", "DELETED"}
_MOST = 8
_CHUNK_MIB = 1024


@operation("fsx", "CreateDataRepositoryAssociation")
def _create_association(call: Call) -> Record:
    params, by_id = call.params, get_associations(call.backend)
    token = params.get("ClientRequestToken", "")
    for association in by_id.values():
        if token and association.token == token:
            return {"Association": association.describe(list_tags(call, association.resource_arn))}
    check_all_emulated(params, _CREATE)
    system = find_file_system(call, params["FileSystemId"], ready=True)
    if system.record["FileSystemTypeVersion"] == "2.10":
        raise AwsError("UnsupportedOperation", "Data repository associations need Lustre version 2.12 or newer.")
    siblings = [association for association in by_id.values() if association.file_system is system]
    if len(siblings) >= _MOST:
        raise AwsError("ServiceLimitExceeded", f"A file system can have at most {_MOST} data repository associations.")
    path, directory = _check_path(params.get("DataRepositoryPath", "")), _check_directory(params.get("FileSystemPath", "/"))
    for association in siblings:
        _check_overlap("file system path", association.record["FileSystemPath"], directory)
        _check_overlap("data repository path", association.record["DataRepositoryPath"], path)
    _check_event_policies(params.get("S3", {}))
    name = f"dra-{secrets.token_hex(9)[1:]}"
    arn = f"arn:aws:fsx:{call.region}:{call.account}:association/{system.file_system_id}/{name}"
    record = {
        "AssociationId": name,
        "ResourceARN": arn,
        "FileSystemId": system.file_system_id,
        "FileSystemPath": directory,
        "DataRepositoryPath": path,
        "BatchImportMetaDataOnCreate": params.get("BatchImportMetaDataOnCreate", False),
        "ImportedFileChunkSize": params.get("ImportedFileChunkSize", _CHUNK_MIB),
        "S3": params.get("S3", {}),
        "CreationTime": now(),
    }
    created = Association(name, arn, system, record, call.account, call.region, token)
    by_id[name] = created
    if params.get("Tags"):
        call.backend.tagger.tag_resource(arn, params["Tags"])
    final = _make_link_action(created)
    durations.schedule(created, "lifecycle", "CREATING", final, "fsx-data-repository-association")
    return {"Association": created.describe(list_tags(call, arn))}


def _make_link_action(created: Association) -> Any:
    def link_directory() -> str:
        """Link the directory and return the association's state, which is FAILED if FSx cannot use the bucket."""
        created.failure = repository.find_bucket_problem(created)
        if created.failure:
            return "FAILED"
        repository.link(created)
        return "AVAILABLE"

    return link_directory


@operation("fsx", "DescribeDataRepositoryAssociations")
def _describe_associations(call: Call) -> Record:
    ids = call.params.get("AssociationIds")
    selected = [_find_association(call, name) for name in ids] if ids else list(get_associations(call.backend).values())
    for item_filter in call.params.get("Filters", ()):
        if item_filter["Name"] != "file-system-id":
            raise build_not_emulated_error(f"the filter {item_filter['Name']}")
        selected = [association for association in selected if association.record["FileSystemId"] in item_filter["Values"]]
    return {"Associations": [association.describe(list_tags(call, association.resource_arn)) for association in selected]}


@operation("fsx", "UpdateDataRepositoryAssociation")
def _update_association(call: Call) -> Record:
    association = _find_association(call, call.params["AssociationId"], ready=True)
    check_all_emulated(call.params, frozenset({"AssociationId", "ClientRequestToken", "ImportedFileChunkSize", "S3"}))
    if "S3" in call.params:
        _check_event_policies(call.params["S3"])
        association.record["S3"] = {**association.record["S3"], **call.params["S3"]}
    if "ImportedFileChunkSize" in call.params:
        association.record["ImportedFileChunkSize"] = call.params["ImportedFileChunkSize"]
    durations.schedule(association, "lifecycle", "UPDATING", "AVAILABLE", "fsx-data-repository-association-update")
    return {"Association": association.describe(list_tags(call, association.resource_arn))}


@operation("fsx", "DeleteDataRepositoryAssociation")
def _delete_association(call: Call) -> Record:
    association = _find_association(call, call.params["AssociationId"])
    deletes_data = bool(call.params.get("DeleteDataInFileSystem"))

    def remove_association() -> None:
        repository.unlink_directory(association)
        if deletes_data:
            repository.delete_directory(association)
        get_associations(call.backend).pop(association.association_id, None)
        call.backend.tagger.delete_all_tags_for_resource(association.resource_arn)

    failed = durations.make_failure_handler(association, "lifecycle", "FAILED")
    kind = "fsx-data-repository-association-delete"
    durations.schedule(association, "lifecycle", "DELETING", "DELETED", kind, then=remove_association, fail=failed)
    return {"AssociationId": association.association_id, "Lifecycle": "DELETING", "DeleteDataInFileSystem": deletes_data}


def _find_association(call: Call, name: str, *, ready: bool = False) -> Association:
    association = get_associations(call.backend).get(name)
    if association is None:
        raise AwsError("DataRepositoryAssociationNotFound", f"Data repository association '{name}' does not exist.")
    if ready and association.lifecycle != "AVAILABLE":
        raise build_bad_request_error(f"Data repository association '{name}' is {association.lifecycle}.")
    return association


def _check_path(path: str) -> str:
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", path):
        raise build_bad_request_error(f"The data repository path '{path}' must have the form s3://bucket/prefix.")
    return path


def _check_directory(path: str) -> str:
    if not path.startswith("/") or ".." in path.split("/"):
        raise build_bad_request_error(f"The file system path '{path}' must be absolute.")
    return path.rstrip("/") or "/"


def _check_overlap(what: str, path: str, other: str) -> None:
    first, second = f"{path.rstrip('/')}/", f"{other.rstrip('/')}/"
    if first.startswith(second) or second.startswith(first):
        raise build_bad_request_error(f"The {what} '{other}' overlaps with '{path}' of another data repository association.")


def _check_event_policies(policies: Record) -> None:
    for name, policy in policies.items():
        events = policy.get("Events", [])
        if name not in ("AutoImportPolicy", "AutoExportPolicy") or set(events) - _EVENTS or len(events) != len(set(events)):
            raise build_bad_request_error(f"{name}.Events must be distinct values from NEW, CHANGED and DELETED.")
