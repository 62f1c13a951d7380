"""Image repositories of a stack, and access to AWS's registry, ECR."""

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from cli.aws_queries import query_aws
from cli.errors import CommandError, NotFound
from cli.exit_codes import REFUSED
from cli.stacks import pulumi_program
from infra.facts.clients import Clients, is_error
from infra.facts.registries import parse_ecr_repository

OUTPUT: Final = "imageRepository"
"""Name of the stack output that contains the prefix of the stack's repositories, such as
123456789012.dkr.ecr.eu-central-1.amazonaws.com/my-cluster.
"""


def read_stack_repository(stack: str) -> str:
    outputs = json.loads(pulumi_program.run_pulumi("stack", "output", "--json", "--stack", stack))
    address = outputs.get(OUTPUT)
    if not address:
        fix = "Set platform.imageRepositories: true and run `pulumi up`, or give --repository"
        raise CommandError(f"stack {stack} has no image repositories. {fix}", REFUSED)
    return str(address)


@dataclass(frozen=True)
class Ecr:
    """An ECR registry, accessed with the caller's credentials."""

    registry: str
    account: str
    region: str

    @classmethod
    def from_repository(cls, repository: str) -> "Ecr | None":
        """Return the registry of a repository, or None if the repository is not in ECR."""
        match = parse_ecr_repository(repository)
        return cls(repository.partition("/")[0], *match[:2]) if match else None

    def find_digest(self, repository: str, tag: str) -> str | None:
        """Return the digest of an image, or None if the tag does not exist. Raises NotFound if the repository does not
        exist.
        """
        name = repository.removeprefix(f"{self.registry}/")
        ecr = Clients(self.region).ecr

        def describe_image() -> Any:
            try:
                return ecr.describe_images(registryId=self.account, repositoryName=name, imageIds=[{"imageTag": tag}])
            except ecr.exceptions.ClientError as error:
                if is_error(error, "ImageNotFoundException"):
                    return None
                if is_error(error, "RepositoryNotFoundException"):
                    fix = "`pulumi up` creates the repositories of a stack; for others, use `aws ecr create-repository`"
                    raise NotFound(f"{self.registry} has no repository {name}. {fix}") from None
                raise

        described = self._query_ecr(describe_image)
        return str(described["imageDetails"][0]["imageDigest"]) if described else None

    def get_password(self) -> str:
        """Return a password that is valid for 12 hours."""
        answer = self._query_ecr(Clients(self.region).ecr.get_authorization_token)
        token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"]).decode()
        return token.partition(":")[2]

    def _query_ecr(self, call: Any) -> Any:
        return query_aws(self.region, call, f", which a push to {self.registry} needs")


USER: Final = "AWS"
"""User name for every login to ECR."""
