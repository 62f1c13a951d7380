"""ECR repositories: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_CreateRepository.html and related
operations."""

import functools
from datetime import timedelta
from typing import Any

from botocore.session import get_session
from moto.core.utils import utcnow
from moto.utilities.utils import get_partition

from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

AWS_KEY = "alias/aws/ecr"
TOKEN_HOURS = 12
_NAME_LENGTH = 256
_TAGS_PER_REPOSITORY = 50
_ENCRYPTION_TYPES = ("AES256", "KMS", "KMS_DSSE")


@operation("ecr", "CreateRepository")
def _create_repository(call: Call) -> dict[str, Any]:
    name, params = call.params["repositoryName"], call.params
    if len(name) > _NAME_LENGTH:
        raise build_invalid_parameter_error("repositoryName", f"must have at most {_NAME_LENGTH} characters")
    if not name[0].isalpha():
        raise build_invalid_parameter_error("repositoryName", "must start with a letter")
    if params.get("registryId", call.account) != call.account:
        raise AwsError("AccessDeniedException", f"User is not authorized to create repositories in {params['registryId']}")
    _check_tags(params.get("tags", []))
    encryption = _read_encryption(call)
    answer = call.moto()
    repository = call.backend.repositories[name]
    repository.encryption_configuration = encryption
    repository.uri = f"{_build_registry_host(call, call.account)}/{name}"
    described = {"encryptionConfiguration": encryption, "repositoryUri": repository.uri}
    return {"repository": {**answer["repository"], **described}}


def _read_encryption(call: Call) -> dict[str, str]:
    """Return the encryption configuration, including the key for KMS encryption.

    https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_EncryptionConfiguration.html
    """
    configuration = call.params.get("encryptionConfiguration", {"encryptionType": "AES256"})
    kind, key = configuration["encryptionType"], configuration.get("kmsKey")
    if kind not in _ENCRYPTION_TYPES:
        raise build_invalid_parameter_error(
            "encryptionConfiguration.encryptionType", f"must be one of {', '.join(_ENCRYPTION_TYPES)}"
        )
    if kind == "AES256":
        if key is not None:
            raise build_invalid_parameter_error(
                "encryptionConfiguration", "kmsKey cannot be specified with encryption type AES256"
            )
        return {"encryptionType": kind}
    kms = call.backend_of("kms")
    try:
        kms_key = kms.keys[kms.any_id_to_key_id(key or AWS_KEY)]
    except (KeyError, AttributeError, TypeError):
        raise AwsError("KmsException", f"The KMS key '{key}' does not exist", kmsError="NotFoundException") from None
    if kms_key.key_state != "Enabled":
        raise AwsError("KmsException", f"{kms_key.arn} is {kms_key.key_state}", kmsError="KMSInvalidStateException")
    return {"encryptionType": kind, "kmsKey": str(kms_key.arn)}


@operation("ecr", "TagResource")
def _tag_resource(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_TagResource.html"""
    arn, new = call.params["resourceArn"], call.params["tags"]
    current_tags = call.backend.list_tags_for_resource(arn)["tags"]
    other_tags = [tag for tag in current_tags if tag["Key"] not in {new_tag["Key"] for new_tag in new}]
    _check_tags([*other_tags, *new])
    return call.moto()


def _check_tags(tags: list[dict[str, str]]) -> None:
    """Check tags against https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-using-tags.html"""
    if len(tags) > _TAGS_PER_REPOSITORY:
        raise AwsError("TooManyTagsException", f"A repository can have at most {_TAGS_PER_REPOSITORY} tags")
    for tag in tags:
        key, value = tag["Key"], tag["Value"]
        if not 1 <= len(key) <= 128 or len(value) > 256 or key.lower().startswith("aws:"):
            raise AwsError("InvalidTagParameterException", f"Invalid parameter at 'tags': the tag '{key}' is not valid")


@operation("ecr", "PutImage")
def _put_image(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_PutImage.html"""
    name, tag = call.params["repositoryName"], call.params.get("imageTag")
    repository = call.backend._get_repository(name, call.params.get("registryId"))
    for image in repository.images:
        if repository.is_tag_immutable() and tag in image.image_tags and image.image_manifest != call.params["imageManifest"]:
            immutable = "and cannot be overwritten because the repository is immutable."
            raise AwsError(
                "ImageTagAlreadyExistsException", f"The image tag '{tag}' already exists in the '{name}' repository {immutable}"
            )
    return call.moto()


@operation("ecr", "GetAuthorizationToken")
def _get_authorization_token(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html"""
    answer = call.moto()
    registries = call.params.get("registryIds") or [call.account]
    for registry, data in zip(registries, answer["authorizationData"], strict=True):
        data["expiresAt"] = utcnow() + timedelta(hours=TOKEN_HOURS)
        data["proxyEndpoint"] = f"https://{_build_registry_host(call, registry)}"
    return answer


def build_invalid_parameter_error(parameter: str, constraint: str) -> AwsError:
    message = f"Invalid parameter at '{parameter}' failed to satisfy constraint: '{constraint}'"
    return AwsError("InvalidParameterException", message)


def _build_registry_host(call: Call, registry: str) -> str:
    return f"{registry}.dkr.ecr.{call.region}.{_load_dns_suffixes()[get_partition(call.region)]}"


@functools.cache
def _load_dns_suffixes() -> dict[str, str]:
    """Return the DNS suffix of each partition."""
    partitions = get_session().get_data("partitions")["partitions"]
    return {partition["id"]: partition["outputs"]["dnsSuffix"] for partition in partitions}
