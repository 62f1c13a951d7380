"""ECR repositories and their lifecycle policies."""

from typing import Any

from botocore.exceptions import ClientError

from localcloud.engine.aws.resource import Args, AutoName, Aws, Failed, Prop, Resource, State, register
from localcloud.engine.aws.resources.names import choose_physical_name
from localcloud.engine.aws.resources.requests import find_first, get_error_code, ignore_gone, to_request, to_state
from localcloud.engine.aws.resources.tags import TAGS, apply_tag_changes, build_tag_state, from_pairs, get_program_tags, to_pairs

ABSENT = "RepositoryNotFoundException"
ENCRYPTION = {"encryptionType": "encryptionType", "kmsKey": "kmsKey"}


@register
class Repository(Resource):
    token = "aws:ecr/repository:Repository"
    title = "ECR Repository"
    auto_name = AutoName(max_length=255, lower=True, unless=())
    CREATE_NAMES = {
        "imageTagMutability": "imageTagMutability",
        "imageScanningConfiguration": "imageScanningConfiguration",
    }
    OUTPUTS = {
        "arn": "repositoryArn",
        "name": "repositoryName",
        "registryId": "registryId",
        "repositoryUrl": "repositoryUri",
        "imageTagMutability": "imageTagMutability",
        "imageScanningConfiguration": "imageScanningConfiguration",
    }
    props = {
        "name": Prop(replace=True),
        "imageTagMutability": Prop(default="MUTABLE"),
        "imageScanningConfiguration": Prop(fields={"scanOnPush": Prop()}),
        "encryptionConfigurations": Prop(
            replace=True, fields={"encryptionType": Prop(replace=True, default="AES256"), "kmsKey": Prop(replace=True)}
        ),
        "forceDelete": Prop(write_only=True, default=False),
        **TAGS,
    }

    def create(self, aws: Aws, args: Args) -> str:
        name, tags = choose_physical_name(args), get_program_tags(args)
        encryption = [
            to_request({"encryptionType": "AES256", **configuration}, ENCRYPTION)
            for configuration in args.get("encryptionConfigurations") or ()
        ]
        aws.client("ecr").create_repository(
            repositoryName=name,
            tags=to_pairs(tags),
            **to_request(args, self.CREATE_NAMES),
            **({"encryptionConfiguration": encryption[0]} if encryption else {}),
        )
        return name

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        ecr = aws.client("ecr")
        repository = find_first(lambda: ecr.describe_repositories(repositoryNames=[id])["repositories"], ABSENT)
        if repository is None:
            return None
        return {
            **to_state(repository, self.OUTPUTS),
            **build_tag_state(from_pairs(ecr.list_tags_for_resource(resourceArn=repository["repositoryArn"])["tags"])),
            "encryptionConfigurations": [to_state(repository["encryptionConfiguration"], ENCRYPTION)],
        }

    def update(self, aws: Aws, id: str, old: State, new: Args, changed: frozenset[str]) -> None:
        ecr = aws.client("ecr")
        if "imageTagMutability" in changed:
            ecr.put_image_tag_mutability(repositoryName=id, imageTagMutability=new.get("imageTagMutability") or "MUTABLE")
        if "imageScanningConfiguration" in changed:
            scanning = new.get("imageScanningConfiguration") or {"scanOnPush": False}
            ecr.put_image_scanning_configuration(repositoryName=id, imageScanningConfiguration=scanning)
        if "tags" in changed:
            apply_tag_changes(
                old,
                new,
                remove=lambda keys: ecr.untag_resource(resourceArn=old["arn"], tagKeys=keys),
                write=lambda tags: ecr.tag_resource(resourceArn=old["arn"], tags=to_pairs(tags)),
            )

    def delete(self, aws: Aws, id: str, state: State) -> None:
        """Delete the repository. ECR deletes a repository that contains images only if `force` is set."""
        try:
            with ignore_gone(ABSENT):
                aws.client("ecr").delete_repository(repositoryName=id, force=bool(state.get("forceDelete")))
        except ClientError as error:
            if get_error_code(error) != "RepositoryNotEmptyException":
                raise
            raise Failed(f"not empty, consider using force_delete: {error}") from None


@register
class LifecyclePolicy(Resource):
    token = "aws:ecr/lifecyclePolicy:LifecyclePolicy"
    title = "ECR Lifecycle Policy"
    delete_before_replace = True  # https://github.com/pulumi/pulumi-aws/pull/2085
    props = {"repository": Prop(replace=True), "policy": Prop(replace=True, json=True)}

    def create(self, aws: Aws, args: Args) -> str:
        response = aws.client("ecr").put_lifecycle_policy(repositoryName=args["repository"], lifecyclePolicyText=args["policy"])
        return str(response["repositoryName"])

    def read(self, aws: Aws, id: str, recorded: State) -> State | None:
        ecr = aws.client("ecr")

        def fetch_policy() -> list[dict[str, Any]]:
            return [ecr.get_lifecycle_policy(repositoryName=id)]

        policy = find_first(fetch_policy, ABSENT, "LifecyclePolicyNotFoundException")
        if policy is None:
            return None
        return to_state(policy, {"repository": "repositoryName", "policy": "lifecyclePolicyText", "registryId": "registryId"})

    def delete(self, aws: Aws, id: str, state: State) -> None:
        with ignore_gone(ABSENT, "LifecyclePolicyNotFoundException"):
            aws.client("ecr").delete_lifecycle_policy(repositoryName=id)
