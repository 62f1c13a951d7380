"""Calls that ECR rejects."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from testkit.aws_clients import Client
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_"
GUIDE = "https://docs.aws.amazon.com/AmazonECR/latest/userguide/"
CREATE, DELETE, TAG = f"{API}CreateRepository.html", f"{API}DeleteRepository.html", f"{API}TagResource.html"
PUT, POLICY = f"{API}PutLifecyclePolicy.html", f"{GUIDE}lifecycle_policy_parameters.html"
NAMES, TAGS = f"{GUIDE}repository-create.html", f"{GUIDE}ecr-using-tags.html"
INVALID = "InvalidParameterException"
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": []})
OTHER_MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "layers": [], "x": 1})


def reject_repository(what: str, code: str, source: str = CREATE, message: str = "", **params: Any) -> Refusal:
    return Refusal(what, "create_repository", {"repositoryName": "new", **params}, code, source, message)


def reject_name(what: str, name: str) -> Refusal:
    return reject_repository(what, INVALID, NAMES, "repositoryName", repositoryName=name)


def build_rule(priority: int = 1, **selection: Any) -> dict[str, Any]:
    usual = {"tagStatus": "untagged", "countType": "imageCountMoreThan", "countNumber": 100}
    return {"rulePriority": priority, "description": "A rule", "selection": {**usual, **selection}, "action": {"type": "expire"}}


def reject_rules(what: str, *rules: Any, message: str = "validation failure") -> Refusal:
    text = json.dumps({"rules": list(rules)}, indent=4)
    return Refusal(
        what, "put_lifecycle_policy", {"repositoryName": "known", "lifecyclePolicyText": text}, INVALID, POLICY, message
    )


def reject_encryption(what: str, code: str, **configuration: str) -> Refusal:
    return reject_repository(what, code, f"{API}EncryptionConfiguration.html", encryptionConfiguration=configuration)


def reject_missing_repository(operation: str, **params: Any) -> Refusal:
    page = f"{API}{''.join(word.capitalize() for word in operation.split('_'))}.html"
    message = "The repository with name 'missing' does not exist in the registry with id '123456789012'"
    return Refusal(
        "a missing repository",
        operation,
        {"repositoryName": "missing", **params},
        "RepositoryNotFoundException",
        page,
        message,
    )


REFUSALS = [
    reject_repository(
        "a name in use",
        "RepositoryAlreadyExistsException",
        message="The repository with name 'known' already exists in the registry with id '123456789012'",
        repositoryName="known",
    ),
    reject_name("capitals in the name", "Train"),
    reject_name("a double hyphen in the name", "team--a/train"),
    reject_name("a double slash in the name", "team//train"),
    reject_name("a digit at the start", "1team/train"),
    reject_name("a name of 257 characters", "n" * 257),
    reject_repository("an unknown mutability", INVALID, imageTagMutability="SOMETIMES"),
    reject_repository("another account's registry", "AccessDeniedException", registryId="210987654321"),
    reject_repository("a reserved tag", "InvalidTagParameterException", TAGS, tags=[{"Key": "aws:owner", "Value": "me"}]),
    reject_repository(
        "51 tags", "TooManyTagsException", TAGS, tags=[{"Key": f"key-{number}", "Value": ""} for number in range(51)]
    ),
    reject_encryption("an unknown encryption", INVALID, encryptionType="ROT13"),
    reject_encryption("a key without KMS encryption", INVALID, encryptionType="AES256", kmsKey="alias/aws/ecr"),
    reject_encryption("a nonexistent key", "KmsException", encryptionType="KMS", kmsKey="alias/missing"),
    Refusal(
        "a repository with images",
        "delete_repository",
        {"repositoryName": "known"},
        "RepositoryNotEmptyException",
        DELETE,
        "The repository with name 'known' in registry with id '123456789012' cannot be deleted because it still contains images",
    ),
    reject_missing_repository("delete_repository"),
    reject_missing_repository("get_lifecycle_policy"),
    reject_missing_repository("delete_lifecycle_policy"),
    reject_missing_repository("put_lifecycle_policy", lifecyclePolicyText=json.dumps({"rules": [build_rule()]}, indent=4)),
    reject_missing_repository("put_image", imageManifest=MANIFEST, imageTag="1"),
    Refusal("a missing policy", "get_lifecycle_policy", {"repositoryName": "known"}, "LifecyclePolicyNotFoundException", PUT),
    Refusal(
        "a tag in use",
        "put_image",
        {"repositoryName": "known", "imageManifest": OTHER_MANIFEST, "imageTag": "1"},
        "ImageTagAlreadyExistsException",
        f"{API}PutImage.html",
        "already exists in the 'known' repository and cannot be overwritten because the repository is immutable",
    ),
    Refusal(
        "a reserved tag",
        "tag_resource",
        lambda arn, **_: {"resourceArn": arn, "tags": [{"Key": "aws:owner", "Value": "me"}]},
        "InvalidTagParameterException",
        TAG,
    ),
    Refusal(
        "a policy that is not JSON",
        "put_lifecycle_policy",
        {"repositoryName": "known", "lifecyclePolicyText": "rules: " * 20},
        INVALID,
        PUT,
    ),
    reject_rules("equal priorities", build_rule(1), build_rule(1, tagStatus="any"), message="unique"),
    reject_rules(
        "tagStatus any before another rule", build_rule(1, tagStatus="any"), build_rule(2), message="highest rulePriority"
    ),
    reject_rules("tagged without a list", build_rule(tagStatus="tagged"), message="tagPatternList"),
    reject_rules("a list without tagged", build_rule(tagPrefixList=["a"]), message="tagPrefixList"),
    reject_rules("an age without a unit", build_rule(countType="sinceImagePushed"), message="countUnit"),
    reject_rules("a number of images with a unit", build_rule(countUnit="days"), message="countUnit"),
    reject_rules("an unknown action", {**build_rule(), "action": {"type": "archive"}}),
    reject_rules("an action that is not an object", {**build_rule(), "action": "expire"}),
    reject_rules("51 rules", *(build_rule(number) for number in range(1, 52)), message="50 rules"),
]


def create_repository(aws: Client) -> str:
    response = aws("ecr").create_repository(repositoryName="known", imageTagMutability="IMMUTABLE")
    aws("ecr").put_image(repositoryName="known", imageManifest=MANIFEST, imageTag="1")
    arn: str = response["repository"]["repositoryArn"]
    return arn


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_ecr_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    refusal.check(aws("ecr"), arn=create_repository(aws))


def test_a_rejected_policy_leaves_the_old_policy_in_place(aws: Client) -> None:
    create_repository(aws)
    ecr, text = aws("ecr"), json.dumps({"rules": [build_rule()]}, indent=4)
    ecr.put_lifecycle_policy(repositoryName="known", lifecyclePolicyText=text)
    reject_rules("equal priorities", build_rule(1), build_rule(1)).check(ecr)
    assert ecr.get_lifecycle_policy(repositoryName="known")["lifecyclePolicyText"] == text


def test_a_repository_has_the_requested_properties(aws: Client) -> None:
    ecr = aws("ecr")
    ecr.create_repository(
        repositoryName="gpumpi-a/train",
        imageTagMutability="IMMUTABLE",
        imageScanningConfiguration={"scanOnPush": True},
        encryptionConfiguration={"encryptionType": "KMS"},
        tags=[{"Key": "a", "Value": "1"}],
    )
    (repository,) = ecr.describe_repositories(repositoryNames=["gpumpi-a/train"])["repositories"]
    assert repository["repositoryUri"] == "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpumpi-a/train"
    assert repository["imageTagMutability"] == "IMMUTABLE" and repository["imageScanningConfiguration"] == {"scanOnPush": True}
    key = aws("kms").describe_key(KeyId=repository["encryptionConfiguration"]["kmsKey"])["KeyMetadata"]
    assert (repository["encryptionConfiguration"]["encryptionType"], key["KeyManager"]) == ("KMS", "AWS")
    assert ecr.list_tags_for_resource(resourceArn=repository["repositoryArn"])["tags"] == [{"Key": "a", "Value": "1"}]


@pytest.mark.parametrize(("region", "suffix"), [("us-west-2", "amazonaws.com"), ("cn-north-1", "amazonaws.com.cn")])
def test_registry_host_names_have_the_suffix_of_the_partition(aws: Client, region: str, suffix: str) -> None:
    ecr = aws("ecr", region)
    host = f"123456789012.dkr.ecr.{region}.{suffix}"
    assert ecr.create_repository(repositoryName="train")["repository"]["repositoryUri"] == f"{host}/train"
    (token,) = ecr.get_authorization_token()["authorizationData"]
    assert token["proxyEndpoint"] == f"https://{host}"
    assert timedelta(hours=11) < token["expiresAt"] - datetime.now(UTC) <= timedelta(hours=12)


def test_deleting_a_repository_does_not_delete_its_kms_key(aws: Client) -> None:
    key = aws("kms").create_key()["KeyMetadata"]["Arn"]
    aws("ecr").create_repository(repositoryName="train", encryptionConfiguration={"encryptionType": "KMS", "kmsKey": key})
    aws("ecr").delete_repository(repositoryName="train")
    assert aws("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "Enabled"


def test_a_repository_cannot_use_a_key_scheduled_for_deletion(aws: Client) -> None:
    key = aws("kms").create_key()["KeyMetadata"]["KeyId"]
    aws("kms").schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    reject_encryption("a key pending deletion", "KmsException", encryptionType="KMS", kmsKey=key).check(aws("ecr"))
