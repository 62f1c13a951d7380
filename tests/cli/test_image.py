"""`image build` and `image list`, with stub builders, an emulated ECR and a stub of `pulumi`."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from typer.testing import CliRunner, Result

from cli.images import builders, recipes, repositories
from cli.images.recipes import find_recipe
from cli.main import app

REGISTRY = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
REPOSITORY = f"{REGISTRY}/my-cluster"
PROGRAM = """#!{python}
import json, os, pathlib, sys
folder = pathlib.Path(__file__).parent
verb = sys.argv[1]
entry = {{"arguments": sys.argv[1:], "input": "" if verb == "version" else sys.stdin.read()}}
if verb == "build":
    context = pathlib.Path(sys.argv[-1])
    entry["context"] = sorted(str(file.relative_to(context)) for file in context.rglob("*") if file.is_file())
with (folder / "log").open("a") as log:
    log.write(json.dumps(entry) + "\\n")
if verb == "push" and os.environ.get("AWS_ENDPOINT_URL"):
    import boto3
    name, _, tag = sys.argv[2].partition("/")[2].rpartition(":")
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = json.dumps({{"schemaVersion": 2, "mediaType": kind, "config": {{}}, "layers": []}})
    boto3.client("ecr").put_image(repositoryName=name, imageTag=tag, imageManifest=manifest)
if verb in os.environ.get("FAILS", "").split(","):
    sys.exit("Cannot connect to the daemon." if verb == "version" else "denied: no")
"""
PULUMI = """#!/bin/sh
case "$*" in
  *"--stack mine "*) echo '{"clusterName": "gpumpi-mine", "imageRepository": "REPOSITORY"}' ;;
  *"--stack plain "*) echo '{"clusterName": "gpumpi-plain"}' ;;
  *) echo "error: no stack named 'other' found" >&2; exit 255 ;;
esac
"""


@dataclass
class Machine:
    """A folder with stub programs. This folder is the only one on PATH."""

    folder: Path

    def install(self, *names: str) -> None:
        for name in names:
            (self.folder / name).write_text(PROGRAM.format(python=sys.executable))
            (self.folder / name).chmod(0o755)

    def list_calls(self, verb: str) -> list[dict[str, Any]]:
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [call for call in map(json.loads, lines) if call["arguments"][0] == verb]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "sh").symlink_to("/bin/sh")
    (tmp_path / "pulumi").write_text(PULUMI.replace("REPOSITORY", REPOSITORY))
    (tmp_path / "pulumi").chmod(0o755)
    return Machine(tmp_path)


@pytest.fixture(scope="module")
def ecr_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def ecr_client(ecr_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """ECR client of an account with the repository my-cluster/mpi."""
    for name, value in {
        "AWS_ENDPOINT_URL": ecr_endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("ecr")
    for repository in client.describe_repositories()["repositories"]:
        client.delete_repository(repositoryName=repository["repositoryName"], force=True)
    client.create_repository(repositoryName="my-cluster/mpi", imageTagMutability="IMMUTABLE")
    return client


def run_image_command(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["image", *arguments])


def read_failure(done: Result) -> tuple[int, str]:
    """Return the exit code and the only line on stderr."""
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return done.exit_code, line.removeprefix("cluster image build: ")


# --- recipes -------------------------------------------------------------------------------------------------------------


def test_image_list_prints_every_recipe_with_its_base_image(machine: Machine) -> None:
    done = run_image_command("list")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["recipe", "mpi", "openmpi", "pytorch"]
    assert "public.ecr.aws/deep-learning-containers/base:devel-cu132-amzn2023" in done.stdout
    assert "NOT VERIFIED" in done.stderr
    listed = json.loads(run_image_command("list", "--json").stdout)
    assert [(row["name"], row["tag"]) for row in listed] == [
        (recipe.name, recipe.tag(recipe.base, {})) for recipe in recipes.list_every_recipe()
    ]
    assert [row["name"] for row in listed if row["notVerified"]] == ["mpi", "pytorch"]


def test_an_error_for_an_unknown_recipe_suggests_similar_recipes() -> None:
    assert read_failure(run_image_command("build", "pytorhc")) == (4, "there is no recipe pytorhc. Did you mean pytorch?")
    assert read_failure(run_image_command("build", "x")) == (4, "there is no recipe x. The recipes are mpi, openmpi and pytorch")


def test_the_default_tag_depends_on_recipe_files_base_and_build_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = find_recipe("mpi")
    recipe.write_build_context(tmp_path)
    monkeypatch.setattr(recipes, "ROOT", tmp_path)
    before = recipe.tag(recipe.base, {})
    assert before == find_recipe("mpi").tag(recipe.base, {}), "nothing else, such as the time, affects the tag"
    tags = {before, recipe.tag("another", {}), recipe.tag(recipe.base, {"A": "1"}), recipe.tag(recipe.base, {"A": "2"})}
    for file in recipe.files:
        text = (tmp_path / file).read_text()
        (tmp_path / file).write_text(f"{text}# changed\n")
        tags.add(recipe.tag(recipe.base, {}))
        (tmp_path / file).write_text(text)
    (tmp_path / "amis/provisioners/create-user.sh").chmod(0o644)
    tags.add(recipe.tag(recipe.base, {}))
    assert len(tags) == 5 + len(recipe.files)


def test_a_recipe_that_copies_a_folder_includes_all_files_of_the_folder() -> None:
    files = find_recipe("openmpi").files
    assert {"amis/provisioners/install-openmpi.sh", "amis/frameworks/jax.txt", "workloads/jax-mnist/train.py"} <= set(files)
    assert not [file for file in files if "__pycache__" in file]


# --- build ---------------------------------------------------------------------------------------------------------------


def test_an_image_built_without_a_repository_has_a_local_name(machine: Machine) -> None:
    machine.install("docker")
    done = run_image_command("build", "mpi")
    assert done.exit_code == 0, done.stderr
    recipe = find_recipe("mpi")
    reference = f"mpi:{recipe.tag(recipe.base, {})}"
    assert done.stdout == f"{reference}\n"
    assert f"building {reference} with docker from images/mpi/Dockerfile" in done.stderr
    assert "NOT VERIFIED: base public.ecr.aws/" in done.stderr and "NOT VERIFIED: recipe mpi" in done.stderr
    (build,) = machine.list_calls("build")
    *options, context = build["arguments"]
    dockerfile = f"{context}/images/mpi/Dockerfile"
    expected_options = [
        "--platform",
        "linux/amd64",
        "--file",
        dockerfile,
        "--tag",
        reference,
        "--build-arg",
        f"BASE={recipe.base}",
    ]
    assert options == ["build", *expected_options]
    assert build["context"] == sorted(recipe.files), "the builder gets only the files from which the tag is derived"
    assert machine.list_calls("push") == machine.list_calls("login") == []


def test_build_passes_a_base_digest_and_build_arguments_to_the_builder(machine: Machine) -> None:
    machine.install("podman")
    base = f"mirror.example.com/base@sha256:{'0' * 64}"
    arguments = ("--base", base, "--build-arg", "TINI_SOURCE=https://mirror.example.com/tini?a=b", "--tag", "1.2")
    done = run_image_command("build", "mpi", *arguments, "--repository", "registry.example.com/team/", "--json")
    document = json.loads(done.stdout)
    assert document["image"] == "registry.example.com/team/mpi:1.2"
    assert (document["builder"], document["pushed"], document["digest"]) == ("podman", False, None)
    assert [mark.partition(":")[0] for mark in document["notVerified"]] == ["recipe mpi"], "the base is pinned"
    (build,) = machine.list_calls("build")
    assert f"BASE={base}" in build["arguments"] and "TINI_SOURCE=https://mirror.example.com/tini?a=b" in build["arguments"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--push"], "--push needs a repository. Add -s STACK or --repository PREFIX"),
        (["-s", "mine", "--repository", "a"], "--stack and --repository exclude each other"),
        (["--tag", "a b"], "--tag: 'a b' is not a tag. Use letters, digits, `.`, `_` and `-`, at most 128 characters"),
        (["--build-arg", "A"], "--build-arg: A has no value. Write NAME=VALUE"),
        (["--build-arg", "BASE=a"], "--build-arg: BASE is set by --base"),
    ],
)
def test_wrong_usage_is_reported_in_one_sentence(machine: Machine, arguments: list[str], error: str) -> None:
    assert read_failure(run_image_command("build", "mpi", *arguments)) == (2, error)


# --- builders ------------------------------------------------------------------------------------------------------------


def test_builders_are_tried_in_order(machine: Machine) -> None:
    machine.install(*builders.NAMES)
    for name in ("docker", "podman", "finch", "buildah"):
        assert json.loads(run_image_command("build", "mpi", "--json").stdout)["builder"] == name
        (machine.folder / name).unlink()


def test_a_broken_builder_is_skipped_unless_it_was_requested(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install("docker", "buildah")
    (machine.folder / "docker").write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon.' >&2; exit 1\n")
    assert json.loads(run_image_command("build", "mpi", "--json").stdout)["builder"] == "buildah"
    reason = "no program can build images: `docker version` fails (Cannot connect to the Docker daemon). Install or start it"
    assert read_failure(run_image_command("build", "mpi", "--builder", "docker")) == (1, reason)


def test_the_error_for_a_missing_builder_lists_all_builders(machine: Machine) -> None:
    names = "; ".join(f"{name} is not on PATH" for name in builders.NAMES)
    assert read_failure(run_image_command("build", "mpi")) == (
        1,
        f"no program can build images: {names}. Install or start one of them",
    )


@pytest.mark.parametrize(("verb", "purpose"), [("build", "build the image"), ("push", "push registry.example.com/mpi:1")])
def test_a_failing_builder_is_reported_in_one_sentence(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, verb: str, purpose: str
) -> None:
    machine.install("docker")
    monkeypatch.setenv("FAILS", verb)
    done = run_image_command("build", "mpi", "--tag", "1", "--push", "--repository", "registry.example.com", "--json")
    error = f"docker could not {purpose} (exit code 1); see its output above"
    assert (done.exit_code, json.loads(done.stdout)) == (1, {"error": error, "exitCode": 1})
    assert machine.list_calls("login") == [], "only AWS's registries need a login"


# --- push to ECR ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [("-s", "mine"), ("--repository", REPOSITORY)])
def test_a_push_logs_in_with_aws_credentials_and_prints_the_digest(
    machine: Machine, ecr_client: Any, place: tuple[str, str]
) -> None:
    machine.install("docker")
    done = run_image_command("build", "mpi", "--push", *place, "--json")
    document = json.loads(done.stdout)
    recipe = find_recipe("mpi")
    tag = recipe.tag(recipe.base, {})
    assert document["image"] == f"{REPOSITORY}/mpi:{tag}"
    (stored,) = ecr_client.describe_images(repositoryName="my-cluster/mpi")["imageDetails"]
    assert (document["pushed"], document["digest"], stored["imageTags"]) == (True, stored["imageDigest"], [tag])
    (login,) = machine.list_calls("login")
    assert login["arguments"] == ["login", "--username", "AWS", "--password-stdin", REGISTRY]
    assert login["input"] == "123456789012-auth-token", "moto's password"
    everything = (machine.folder / "log").read_text() + done.output
    assert everything.count(login["input"]) == 1, "the password must not be in a command line or message"


def test_an_existing_tag_is_refused_before_the_build(machine: Machine, ecr_client: Any) -> None:
    machine.install("docker")
    assert run_image_command("build", "mpi", "--push", "-s", "mine", "--tag", "1").exit_code == 0
    fix = "and the tags of its repository are immutable. Use that image, or give another --tag"
    assert read_failure(run_image_command("build", "mpi", "--push", "-s", "mine", "--tag", "1")) == (
        3,
        f"{REPOSITORY}/mpi:1 already exists, {fix}",
    )
    assert len(machine.list_calls("build")) == 1


def test_the_error_for_a_stack_without_repositories_contains_the_fix(machine: Machine) -> None:
    fix = "Set platform.imageRepositories: true and run `pulumi up`, or give --repository"
    assert read_failure(run_image_command("build", "mpi", "-s", "plain")) == (3, f"stack plain has no image repositories. {fix}")
    assert read_failure(run_image_command("build", "mpi", "-s", "other"))[0] == 4


def test_a_missing_repository_is_reported_before_the_build(machine: Machine, ecr_client: Any) -> None:
    machine.install("docker")
    code, error = read_failure(run_image_command("build", "pytorch", "--push", "-s", "mine"))
    assert (code, error.partition(". ")[0]) == (4, f"{REGISTRY} has no repository my-cluster/pytorch")
    assert machine.list_calls("build") == []


def test_a_push_without_credentials_fails_before_the_build(
    machine: Machine, ecr_client: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.install("docker")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    code, error = read_failure(run_image_command("build", "mpi", "--push", "-s", "mine"))
    assert (code, error.partition(". ")[0]) == (5, "AWS could not be queried: no credentials found")
    assert machine.list_calls("build") == []


def test_a_failing_login_does_not_print_the_password(machine: Machine, ecr_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install("docker")
    monkeypatch.setenv("FAILS", "login")
    done = run_image_command("build", "mpi", "--push", "-s", "mine")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == f"cluster image build: docker could not log in to {REGISTRY}: denied: no"
    assert "auth-token" not in done.output and machine.list_calls("push") == []


@pytest.mark.parametrize(
    ("name", "region"),
    [
        (REPOSITORY, "eu-central-1"),
        ("123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com/a", "us-gov-west-1"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/a/b", "cn-north-1"),
        ("public.ecr.aws/team", None),
        ("123456789012.dkr.ecr.eu-central-1.amazonaws.com.example.com/a", None),
        ("team", None),
    ],
)
def test_only_aws_registries_get_the_callers_password(name: str, region: str | None) -> None:
    registry = repositories.Ecr.from_repository(name)
    assert (registry and registry.region) == region
