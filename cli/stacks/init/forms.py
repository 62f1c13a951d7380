"""Forms of `init`: questions, and the template of the stack file. To support a new target, add a `Form`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cli.stacks.init.existing_form import EXISTING
from cli.stacks.init.questions import (
    NONE,
    REGION,
    STORAGE,
    Answers,
    Draft,
    Form,
    Proposal,
    Question,
    Unfit,
    check_cidrs,
    format_as_flow_yaml,
    make_instance_type_question,
    make_size_question,
    parse_cidrs,
    propose_own_cidr,
)
from infra.preflight import examine_aws_stack
from infra.settings.network import NetworkSettings
from infra.settings.targets import Ec2Target

HERE: Final = "next"

# --- eks ---------------------------------------------------------------------------------------------------------------

PRIVATE_EKS: Final = (
    "If you leave this empty or answer none, the Kubernetes API is private: only machines inside the VPC reach it. `pulumi "
    "up` from here leaves out the operators and the queue. Install them and submit jobs from inside the VPC."
)
PRIVATE_ACCESS: Final = f"""\
    # The Kubernetes API is private: only machines inside the VPC reach it. `pulumi up` from anywhere else creates the
    # cluster without the operators, the queue and the namespaces for jobs. Run it again from inside the VPC with
    # `install: true` below `gpumpi:platform`, and submit jobs from there. If you connect the VPC to another network, add
    # the CIDR of that network. To open the API to your own addresses, now or later, add publicCidrs: [ADDRESS/32].
    endpointAccess: {{privateCidrs: [{NetworkSettings().new_cidr}]}} # the VPC
"""


def _render_eks_stack_file(stack: str, answers: Answers) -> str:
    allowed = parse_cidrs(answers["allow"])
    access = f"    endpointAccess: {{publicCidrs: {format_as_flow_yaml(allowed)}}} # allowed to reach the Kubernetes API\n"
    return f"""\
# A Kubernetes cluster with GPU nodes. A job brings up the nodes that it needs; idle nodes are deleted after ten minutes.
config:
  aws:region: {answers["region"]}
  gpumpi:target:
    kind: eks
{access if allowed else PRIVATE_ACCESS}{_render_storage(answers)}  gpumpi:pools:
    - {{name: train, instanceType: {answers["instance-type"]}, maxSize: {answers["size"]}}}
  gpumpi:platform: {{imageRepositories: true}} # ECR repositories, to which short image names such as openmpi:5 refer
"""


def _list_eks_steps(stack: str, answers: Answers) -> dict[str, tuple[str, ...]]:
    create = (f"scripts/cluster validate -s {stack}", f"pulumi stack init {stack} && pulumi up -s {stack}")
    use = (
        f"scripts/cluster status -s {stack}",
        f"scripts/cluster kubeconfig -s {stack} -o ~/.kube/{stack}.yaml && export KUBECONFIG=~/.kube/{stack}.yaml",
        f"scripts/cluster image build mpi --push -s {stack}",
        f"scripts/cluster smoke --workers {min(2, int(answers['size']))}",
    )
    if parse_cidrs(answers["allow"]):
        return {HERE: (*create, *use)}
    install = f"pulumi config set --path gpumpi:platform.install true -s {stack} && pulumi up -s {stack}"
    inside = (
        "then on a machine inside the VPC, with this checkout, its stack file and the same Pulumi backend (the API is private)"
    )
    return {HERE: create, inside: (install, *use)}


EKS: Final = Form(
    "a Kubernetes cluster (EKS) with GPU nodes, a queue and a shared volume",
    "AWS",
    (
        REGION,
        make_instance_type_question("instance type of the GPU nodes", "g6.8xlarge"),
        make_size_question("pools[0].maxSize"),
        STORAGE,
        Question(
            "allow",
            "addresses (CIDRs) allowed to reach the Kubernetes API, or `none`",
            # With --yes and no address, stop instead of writing a private endpoint. A user who accepts the defaults
            # expects a usable cluster, not one that proves unreachable after 20 minutes of `pulumi up`.
            propose_own_cidr("the Kubernetes API", PRIVATE_EKS, is_required=True),
            check_cidrs,
            ("target.endpointAccess",),
            example="203.0.113.7/32, or none",
        ),
    ),
    _render_eks_stack_file,
    examine_aws_stack,
    _list_eks_steps,
)


# --- ec2 ---------------------------------------------------------------------------------------------------------------

CLOSED_SSH: Final = (
    "If you leave this empty or answer none, port 22 stays closed: log in through Session Manager with `scripts/cluster ssh`."
)


def _propose_public_key(draft: Draft) -> Proposal:
    keys = sorted((Path.home() / ".ssh").glob("id_*.pub"))
    return Proposal(str(keys[0]) if keys else "")


def _check_public_key(answer: str, answers: Answers) -> None:
    if not answer:
        return
    file = Path(answer).expanduser()
    if not file.is_file():
        raise Unfit(f"{answer} is not a file; write the path of a public key, like ~/.ssh/id_ed25519.pub, or leave it empty")
    if not re.match(r"(ssh|ecdsa|sk)-[\w@.-]+ [A-Za-z0-9+/=]+", file.read_text(errors="replace")):
        raise Unfit(f"{answer} is not a public key; give the file that ends in .pub")


def _render_ec2_stack_file(stack: str, answers: Answers) -> str:
    allowed, file = parse_cidrs(answers.get("allow", "")), answers["ssh-key"]
    lines = []
    if file:
        key = Path(file).expanduser().read_text().strip()
        lines += ["    ssh:", f"      publicKeys: {format_as_flow_yaml([key])}"]
    if allowed:
        lines.append(f"      cidrs: {format_as_flow_yaml(allowed)} # allowed to reach port 22 of the head node")
    else:
        lines.append("    # port 22 is closed: log in with `scripts/cluster ssh`, which goes through Session Manager")
    ssh = "".join(f"\n{line}" for line in lines)
    return f"""\
# A head node and workers without Kubernetes, ready for `mpiexec`. All use the newest AMI built from amis/.
config:
  aws:region: {answers["region"]}
  gpumpi:target:
    kind: ec2
    headNodeType: {Ec2Target(kind="ec2").head_node_type}{ssh}
{_render_storage(answers)}  gpumpi:pools:
    # desiredSize is the number at creation; change it later with `scripts/cluster scale N -s {stack}`
    - {{name: workers, instanceType: {answers["instance-type"]}, desiredSize: {answers["size"]}, maxSize: {answers["size"]}}}
"""


def _list_ec2_steps(stack: str, answers: Answers) -> dict[str, tuple[str, ...]]:
    create = (f"scripts/cluster validate -s {stack}", f"pulumi stack init {stack} && pulumi up -s {stack}")
    login = (f"scripts/cluster ssh -s {stack}",) if answers["ssh-key"] else ()
    return {HERE: (*create, f"scripts/cluster wait -s {stack}", *login)}


EC2: Final = Form(
    "a head node and workers (EC2 instances) for mpiexec, without Kubernetes",
    "AWS",
    (
        REGION,
        make_instance_type_question("instance type of the workers", "g6.8xlarge"),
        make_size_question("pools[0].desiredSize", "pools[0].maxSize"),
        STORAGE,
        Question(
            "ssh-key",
            "path of your public SSH key; without one, you can log in only through Session Manager",
            _propose_public_key,
            _check_public_key,
            ("target.ssh.publicKeys",),
        ),
        Question(
            "allow",
            "addresses (CIDRs) allowed to reach the head node by SSH, or `none`",
            # an address is not required: the cluster can be reached through Session Manager
            propose_own_cidr("the head node by SSH", CLOSED_SSH, is_required=False),
            check_cidrs,
            ("target.ssh.cidrs",),
            applies=lambda answers: bool(answers["ssh-key"]),
            condition="with --ssh-key",
        ),
    ),
    _render_ec2_stack_file,
    examine_aws_stack,
    _list_ec2_steps,
)


def _render_storage(answers: Answers) -> str:
    return f"  gpumpi:storage: {{efs: {NONE}}}\n" if answers["storage"] == NONE else ""


FORMS: Final[Mapping[str, Form]] = {"eks": EKS, "ec2": EC2, "existing": EXISTING}
"""`target.kind` -> form."""
