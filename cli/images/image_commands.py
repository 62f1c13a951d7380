"""`image build` and `image list`."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.console import Listing, make_console, print_json, print_result
from cli.errors import CommandError
from cli.exit_codes import OK, REFUSED, USAGE
from cli.images import builders, recipes, repositories
from cli.images.recipes import Recipe
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
    def image_reference(self) -> str:
        return f"{self.repository}:{self.tag}"

    @property
    def not_verified(self) -> list[str]:
        note = self.recipe.not_verified
        marks = [f"recipe {self.recipe.name}: {note}"] if note else []
        if "@sha256:" not in self.base:
            marks.append(f"base {self.base}: its publisher may move this tag; --base IMAGE@sha256:... pins it")
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
    recipe = recipes.find_recipe(name)
    arguments = parse_arguments(build_arg or [])
    chosen = base or recipe.base
    prefix = choose_name_prefix(stack, repository, push=push)
    place = f"{prefix}/{recipe.name}" if prefix else recipe.name
    order = _Order(recipe, chosen, arguments, place, recipes.check_tag(tag) if tag else recipe.tag(chosen, arguments))
    document = build_and_push(order, builder, push=push)
    return print_result(document, str(document["image"]), as_json=as_json)


def parse_arguments(assignments: Sequence[str]) -> dict[str, str]:
    for assignment in assignments:
        if not assignment.partition("=")[1]:
            raise CommandError(f"--build-arg: {assignment} has no value. Write NAME=VALUE", USAGE)
        if assignment.startswith("BASE="):
            raise CommandError("--build-arg: BASE is set by --base", USAGE)
    return {name: value for name, _, value in (assignment.partition("=") for assignment in assignments)}


def choose_name_prefix(stack: str | None, repository: str | None, *, push: bool) -> str:
    if stack and repository:
        raise CommandError("--stack and --repository exclude each other", USAGE)
    if push and not (stack or repository):
        raise CommandError("--push needs a repository. Add -s STACK or --repository PREFIX", USAGE)
    return repositories.read_stack_repository(stack) if stack else (repository or "").rstrip("/")


def build_and_push(order: _Order, builder_name: str | None, *, push: bool) -> dict[str, object]:
    """Build the image, and push it on request. All checks that need no build run first."""
    report = make_console(stderr=True).print
    ecr = Ecr.from_repository(order.repository) if push else None
    if ecr and ecr.find_digest(order.repository, order.tag):
        fix = "the tags of its repository are immutable. Use that image, or give another --tag"
        raise CommandError(f"{order.image_reference} already exists, and {fix}", REFUSED)
    password = ecr.get_password() if ecr else ""
    builder = builders.choose_builder(builder_name)
    for mark in order.not_verified:
        report(f"NOT VERIFIED: {mark}")
    report(f"building {order.image_reference} with {builder.name} from {order.recipe.dockerfile}")
    with tempfile.TemporaryDirectory(prefix="gpumpi-image-") as folder:
        order.recipe.write_build_context(Path(folder))
        builder.build(Path(folder), order.recipe.dockerfile, order.image_reference, {"BASE": order.base, **order.arguments})
    if push:
        if ecr:
            builder.login(ecr.registry, USER, password)
        report(f"pushing {order.image_reference}")
        builder.push(order.image_reference)
    return {
        "image": order.image_reference,
        "recipe": order.recipe.name,
        "tag": order.tag,
        "base": order.base,
        "builder": builder.name,
        "pushed": push,
        "digest": ecr.find_digest(order.repository, order.tag) if ecr else None,
        "notVerified": order.not_verified,
    }


def list_recipes(as_json: options.Json = False) -> int:
    """Shows the default tag that `image build` would use."""
    every = recipes.list_every_recipe()
    if as_json:
        names = {"name": "name", "tag": "default_tag", "content": "content", "base": "base", "recipe": "dockerfile"}
        names["notVerified"] = "not_verified"
        print_json([{key: getattr(recipe, name) for key, name in names.items()} for recipe in every])
        return OK
    rows = [(recipe.name, recipe.default_tag, recipe.content, recipe.base) for recipe in every]
    make_console().print(Listing("recipe", "tag", "content", "base", rows=rows))
    for recipe in every:
        if recipe.not_verified:
            make_console(stderr=True).print(f"NOT VERIFIED: {recipe.name}: {recipe.not_verified}")
    return OK
