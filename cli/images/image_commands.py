"""`image build` and `image list`."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.console import Listing, make_console, print_json
from cli.errors import CommandError
from cli.exit_codes import OK, REFUSED, USAGE
from cli.images import builders, recipes, repositories
from cli.images.recipes import NOT_VERIFIED, Recipe
from cli.images.repositories import USER, Ecr


@dataclass(frozen=True)
class _Order:
    """The image to build, and its name."""

    recipe: Recipe
    base: str
    arguments: Mapping[str, str]
    repository: str
    tag: str

    @property
    def reference(self) -> str:
        return f"{self.repository}:{self.tag}"

    @property
    def not_verified(self) -> list[str]:
        marks = [f"recipe {self.recipe.name}: {NOT_VERIFIED}"]
        if "@sha256:" not in self.base:
            marks.append(f"base {self.base}: AWS may move this tag; --base IMAGE@sha256:... pins it")
        return marks


def build(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Recipe: the name of a folder in images/.")],
    push: Annotated[bool, typer.Option("--push", help="Push the image. The login to ECR uses your AWS credentials.")] = False,
    stack: Annotated[
        str | None, typer.Option("--stack", "-s", help="Name the image for this stack's repositories.", show_default="local name")
    ] = None,
    repository: Annotated[
        str | None, typer.Option("--repository", help="Prefix of the image's name, such as registry.example.com/team.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Tag.", show_default="derived from the recipe")] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", help="Base image, such as one pinned by digest or from a mirror.", show_default="the recipe's"),
    ] = None,
    build_arg: Annotated[
        list[str] | None, typer.Option("--build-arg", metavar="NAME=VALUE", help="Argument of the recipe; can be repeated.")
    ] = None,
    builder: Annotated[
        builders.Name | None, typer.Option("--builder", help="Program.", show_default="the first that works")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Build a job image and print its name. Without --stack and --repository, the image stays on this machine.

    The default tag changes when the recipe, its base or an argument changes. Tags that exist in ECR are not overwritten.
    """
    recipe = recipes.find(name)
    arguments = _arguments(build_arg or [])
    chosen = base or recipe.base
    prefix = _prefix(stack, repository, push=push)
    place = f"{prefix}/{recipe.name}" if prefix else recipe.name
    order = _Order(recipe, chosen, arguments, place, recipes.valid_tag(tag) if tag else recipe.tag(chosen, arguments))
    document = _made(order, builder, push=push)
    if as_json:
        print_json(document)
    else:
        print(document["image"])
    return OK


def _arguments(given: Sequence[str]) -> dict[str, str]:
    for one in given:
        if not one.partition("=")[1]:
            raise CommandError(f"--build-arg: {one} has no value. Write NAME=VALUE", USAGE)
        if one.startswith("BASE="):
            raise CommandError("--build-arg: BASE is set by --base", USAGE)
    return {name: value for name, _, value in (one.partition("=") for one in given)}


def _prefix(stack: str | None, repository: str | None, *, push: bool) -> str:
    if stack and repository:
        raise CommandError("--stack and --repository exclude each other", USAGE)
    if push and not (stack or repository):
        raise CommandError("--push needs a repository. Add -s STACK or --repository PREFIX", USAGE)
    return repositories.of_stack(stack) if stack else (repository or "").rstrip("/")


def _made(order: _Order, wanted: str | None, *, push: bool) -> dict[str, object]:
    """Build the image, and push it on request. All checks that need no build run first."""
    report = make_console(stderr=True).print
    ecr = Ecr.of(order.repository) if push else None
    if ecr and ecr.digest(order.repository, order.tag):
        fix = "the tags of its repository are immutable. Use that image, or give another --tag"
        raise CommandError(f"{order.reference} already exists, and {fix}", REFUSED)
    password = ecr.password() if ecr else ""
    builder = builders.choose(wanted)
    for mark in order.not_verified:
        report(f"NOT VERIFIED: {mark}")
    report(f"building {order.reference} with {builder.name} from {order.recipe.dockerfile}")
    with tempfile.TemporaryDirectory(prefix="gpumpi-image-") as folder:
        order.recipe.write_context(Path(folder))
        builder.build(Path(folder), order.recipe.dockerfile, order.reference, {"BASE": order.base, **order.arguments})
    if push:
        if ecr:
            builder.login(ecr.registry, USER, password)
        report(f"pushing {order.reference}")
        builder.push(order.reference)
    return {
        "image": order.reference,
        "recipe": order.recipe.name,
        "tag": order.tag,
        "base": order.base,
        "builder": builder.name,
        "pushed": push,
        "digest": ecr.digest(order.repository, order.tag) if ecr else None,
        "notVerified": order.not_verified,
    }


def list_recipes(as_json: options.Json = False) -> int:
    """Shows the default tag that `image build` would use."""
    every = recipes.every_recipe()
    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "tag": one.default_tag,
                    "content": one.content,
                    "base": one.base,
                    "recipe": one.dockerfile,
                    "notVerified": NOT_VERIFIED,
                }
                for one in every
            ]
        )
        return OK
    listing = Listing("recipe", "tag", "content", "base")
    for one in every:
        listing.add_row(one.name, one.default_tag, one.content, one.base)
    make_console().print(listing)
    make_console(stderr=True).print(f"NOT VERIFIED: {NOT_VERIFIED}")
    return OK
