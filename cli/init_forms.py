"""What `init` asks for each target, and the stack file that follows from the answers. Another target is one more form here."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from infra.settings.targets import Ec2Target

Answers = Mapping[str, str]
STORAGES: Final = ("efs", "none")


class Unfit(Exception):
    """An answer that cannot be taken; the message says which can."""


@dataclass(frozen=True)
class Question:
    """One thing that a stack must say. Its flag is `--NAME`."""

    name: str
    words: str
    usual: Callable[[Answers], str]
    """What is taken where nothing is said, from the answers before; it may look at this machine."""
    check: Callable[[str], None] = lambda answer: None
    """Raises Unfit. Whether AWS has such a thing is for the validation to say."""


@dataclass(frozen=True)
class Form:
    """A target: what to ask, and what comes of it."""

    summary: str
    questions: tuple[Question, ...]
    text: Callable[[str, Answers], str]
    """Stack name and answers -> the stack file."""
    next_steps: tuple[str, ...]
    """Commands; `{stack}` stands for the name."""


# --- checks ------------------------------------------------------------------------------------------------------------


def _looks_like(pattern: str, example: str) -> Callable[[str], None]:
    def check(answer: str) -> None:
        if not re.fullmatch(pattern, answer):
            raise Unfit(f"write one like {example}")

    return check


def _size(answer: str) -> None:
    if not answer.isdecimal() or not 1 <= int(answer) <= 1000:
        raise Unfit("write a number from 1 to 1000")


def _storage(answer: str) -> None:
    if answer not in STORAGES:
        raise Unfit("write efs or none")


def _addresses(answer: str) -> None:
    for part in _parts(answer):
        try:
            ipaddress.IPv4Network(part)
        except ValueError as error:
            raise Unfit(f"{part} is no range of IPv4 addresses ({error}); write one like 203.0.113.7/32") from None


def _key_file(answer: str) -> None:
    if not answer:
        return
    file = Path(answer).expanduser()
    if not file.is_file():
        raise Unfit(f"{answer} is no file; write the path of a public key, like ~/.ssh/id_ed25519.pub, or nothing")
    if not re.match(r"(ssh|ecdsa|sk)-[\w@.-]+ [A-Za-z0-9+/=]+", file.read_text(errors="replace")):
        raise Unfit(f"{answer} is no public key; name the file that ends in .pub")


def _parts(answer: str) -> list[str]:
    return [part.strip() for part in answer.split(",") if part.strip()]


# --- questions that several targets ask --------------------------------------------------------------------------------


def _usual_region(answers: Answers) -> str:
    import os

    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-west-2"


def _usual_key(answers: Answers) -> str:
    keys = sorted((Path.home() / ".ssh").glob("id_*.pub"))
    return str(keys[0]) if keys else ""


def _always(answer: str) -> Callable[[Answers], str]:
    return lambda answers: answer


REGION: Final = Question("region", "AWS region", _usual_region, _looks_like(r"[a-z]{2}(-[a-z]+)+-\d", "us-west-2"))
SIZE: Final = Question("size", "nodes at most", _always("2"), _size)
STORAGE: Final = Question("storage", "a shared file system (efs), or none", _always("efs"), _storage)


def _instance_type(words: str, usual: str) -> Question:
    return Question("instance-type", words, _always(usual), _looks_like(r"[a-z0-9-]+\.[a-z0-9-]+", usual))


# --- eks ---------------------------------------------------------------------------------------------------------------


def _eks(stack: str, answers: Answers) -> str:
    cidrs = _parts(answers["allow"])
    access = (
        f"\n    endpointAccess: {{publicCidrs: {_flow(cidrs)}}} # who reaches the Kubernetes API"
        if cidrs
        else " # no endpointAccess: the API is reached from within the network only, and jobs are submitted there"
    )
    return f"""\
# GPU nodes under Kubernetes, none while nothing runs: a job brings the nodes that it needs, ten minutes after its end they go.
config:
  aws:region: {answers["region"]}
  gpumpi:target:
    kind: eks{access}
{_storage_text(answers)}  gpumpi:pools:
    - {{name: train, instanceType: {answers["instance-type"]}, maxSize: {answers["size"]}}}
"""


EKS: Final = Form(
    "a Kubernetes cluster (EKS) with GPU nodes, a queue and a shared volume",
    (
        REGION,
        _instance_type("type of the GPU nodes", "g6.8xlarge"),
        SIZE,
        STORAGE,
        Question(
            "allow",
            "addresses that reach the Kubernetes API, like 203.0.113.7/32; none: only its network",
            _always(""),
            _addresses,
        ),
    ),
    _eks,
    (
        "scripts/cluster validate -s {stack}",
        "pulumi stack init {stack} && pulumi up -s {stack}",
        "scripts/cluster status -s {stack}",
    ),
)


# --- ec2 ---------------------------------------------------------------------------------------------------------------


def _ec2(stack: str, answers: Answers) -> str:
    cidrs, file = _parts(answers["allow"]), answers["ssh-key"]
    lines = []
    if cidrs or file:
        lines.append("    ssh:")
    if file:
        key = Path(file).expanduser().read_text().strip()
        lines.append(f"      publicKeys: {_flow([key])}")
    if cidrs:
        lines.append(f"      cidrs: {_flow(cidrs)} # who reaches the master's port 22")
    ssh = "".join(f"\n{line}" for line in lines)
    return f"""\
# A master and its workers without Kubernetes, ready for `mpiexec`. All start from the newest AMI that amis/ built in the account.
config:
  aws:region: {answers["region"]}
  gpumpi:target:
    kind: ec2
    masterType: {Ec2Target(kind="ec2").head_node_type}{ssh}
{_storage_text(answers)}  gpumpi:pools:
    # desiredSize counts at creation; later `scripts/cluster scale N -s {stack}`
    - {{name: workers, instanceType: {answers["instance-type"]}, desiredSize: {answers["size"]}, maxSize: {answers["size"]}}}
"""


EC2: Final = Form(
    "a master and workers (EC2 instances) for mpiexec, without Kubernetes",
    (
        REGION,
        _instance_type("type of the workers", "g6.8xlarge"),
        SIZE,
        STORAGE,
        Question("ssh-key", "file of your public SSH key; none: nobody but Session Manager logs in", _usual_key, _key_file),
        Question("allow", "addresses that reach the master by SSH; none: Session Manager is the way in", _always(""), _addresses),
    ),
    _ec2,
    (
        "scripts/cluster validate -s {stack}",
        "pulumi stack init {stack} && pulumi up -s {stack}",
        "scripts/cluster wait -s {stack}",
    ),
)


def _storage_text(answers: Answers) -> str:
    return "" if answers["storage"] == "efs" else "  gpumpi:storage: {efs: none}\n"


def _flow(values: list[str]) -> str:
    """A list as YAML on one line."""
    return yaml.safe_dump(values, default_flow_style=True, width=10_000).strip()


FORMS: Final[Mapping[str, Form]] = {"eks": EKS, "ec2": EC2}
"""By `target.kind`."""
