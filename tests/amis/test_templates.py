"""The Packer templates of both AMIs are valid, and validate-node.sh checks every provisioner in the templates."""

import os
import re
import subprocess

import pytest

from localcloud.aws.images import IMAGES
from localcloud.hosts import ami
from localcloud.images.recipes import read_pinned_versions
from localcloud.images.root import AMIS
from localcloud.processes import ROOT
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import PACKER

KINDS = ("ec2", "eks")
TEMPLATES = {kind: (AMIS / f"{kind}.pkr.hcl").read_text() for kind in KINDS}
PROVISIONERS = AMIS / "provisioners"


@pytest.fixture(scope="module")
def packer_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return environment variables for Packer: its plugin folder and dummy credentials."""
    own = str(tmp_path_factory.mktemp("packer"))
    return {
        **os.environ,
        "PATH": f"{ensure_tool(PACKER, print).parent}{os.pathsep}{os.environ['PATH']}",
        "PACKER_PLUGIN_PATH": str(ami.ensure_packer_plugins(print)),
        "PACKER_CONFIG_DIR": own,
        "CHECKPOINT_DISABLE": "1",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
    }


def run_packer(variables: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["packer", *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def list_provisioners(kind: str) -> list[str]:
    """Return the template's provisioners in order."""
    listed = re.search(rf"{kind}_provisioners = \[(.*?)\]", TEMPLATES[kind], re.DOTALL)
    assert listed
    return re.findall(r'"([\w-]+)"', listed[1])


@pytest.mark.xdist_group("packer")
@pytest.mark.parametrize("kind", KINDS)
def test_packer_validates_the_template(packer_environment: dict[str, str], kind: str) -> None:
    result = run_packer(packer_environment, "validate", "-only", f"{kind}.*", "amis")
    assert (result.returncode, result.stdout.strip()) == (0, "The configuration is valid."), result.stdout + result.stderr


@pytest.mark.xdist_group("packer")
def test_packer_templates_are_formatted(packer_environment: dict[str, str]) -> None:
    for template in sorted(AMIS.glob("*.pkr.hcl")):
        result = run_packer(packer_environment, "fmt", "-check", str(template))
        assert result.returncode == 0, template.name


@pytest.mark.xdist_group("packer")
@pytest.mark.parametrize(
    ("variable", "error"),
    [
        ('skip={"install-efa":" "}', "Give a reason for each skipped provisioner"),
        ("openmpi=6", "Set openmpi to 4"),
        ("openmpi_origin=elsewhere", "Set openmpi_origin to aws"),
        ("base=debian-12", "Set base to ubuntu-24.04"),
        ("instance_type=c7g.4xlarge", "There is no arm64 recipe yet"),
        ("instance_type=c8gn.xlarge", "There is no arm64 recipe yet"),
        ("instance_type=g5g.xlarge", "There is no arm64 recipe yet"),
    ],
)
def test_an_invalid_variable_is_rejected_before_anything_starts(
    packer_environment: dict[str, str], variable: str, error: str
) -> None:
    result = run_packer(packer_environment, "validate", "-var", variable, "amis")
    assert result.returncode != 0
    assert error in result.stdout + result.stderr


@pytest.mark.xdist_group("packer")
@pytest.mark.parametrize("base", ["ubuntu-24.04", "ubuntu-22.04", "amazon-linux-2023"])
def test_each_base_ami_is_valid_and_its_pinned_version_exists_in_local_aws(packer_environment: dict[str, str], base: str) -> None:
    result = run_packer(
        packer_environment, "validate", "-only", "ec2.*", "-var", f"base={base}", "-var", "instance_type=g6.xlarge", "amis"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    pinned = read_pinned_versions()[f"dlami_{base.replace('-', '_').replace('.', '_')}"]
    (image,) = [image for image in IMAGES if image.name == pinned]
    assert image.owner == "898082745236"


def test_eks_build_keeps_what_nodes_need_to_build_their_driver_at_boot() -> None:
    """Source: https://github.com/awslabs/amazon-eks-ami, templates/al2023/provisioners/install-nvidia-driver.sh"""
    text = "".join((PROVISIONERS / f"{name}.sh").read_text() for name in list_provisioners("eks"))
    assert "./efa_installer.sh --yes --skip-kmod" in text
    forbidden = (
        r"modules-load\.d|modprobe|dkms (add|build|install)|(dnf|rpm) .*(remove|erase)|\bcuda-toolkit|nvidia-open\b|rm .*dkms"
    )
    assert re.findall(forbidden, text) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_template_step_is_a_provisioner_that_validation_checks(kind: str) -> None:
    steps = list_provisioners(kind)
    assert [name for name in steps if not (PROVISIONERS / f"{name}.sh").exists()] == []
    text = (PROVISIONERS / "validate-node.sh").read_text()
    both = re.search(r"^wanted=\((.*?)\)", text, re.DOTALL | re.MULTILINE)
    own = re.search(rf"{kind}\) wanted\+=\((.*?)\)", text, re.DOTALL)
    assert both
    assert own
    expected_steps = both[1].split() + own[1].split()
    assert sorted(expected_steps) == sorted(steps)
    checked = [name for name in expected_steps if not name.startswith("check-")]
    assert all(re.search(rf"^    {name}\)", text, re.MULTILINE) for name in checked), "each step has its own check"


def test_the_eks_ami_has_no_mount_helper_and_no_join_service() -> None:
    assert {"install-efs-utils", "install-join-service", "configure-node-ssh"} <= set(list_provisioners("ec2"))
    assert not {"install-efs-utils", "install-join-service", "configure-node-ssh"} & set(list_provisioners("eks"))


def test_no_provisioner_upgrades_the_kernel() -> None:
    for script in PROVISIONERS.glob("*.sh"):
        text = script.read_text()
        assert not re.search(
            r"\b(dnf|yum|apt-get|apt) .*\b(upgrade|update-minimal|dist-upgrade|full-upgrade)\b|\b(dnf|yum) .*\bupdate\b", text
        )
        for line in re.findall(r".*\bdnf install\b.*", text):
            assert "--exclude='kernel*'" in line, script.name


@pytest.mark.parametrize("kind", KINDS)
def test_the_build_instance_and_the_ami_require_imdsv2_and_the_ami_is_encrypted(kind: str) -> None:
    settings = dict(re.findall(r"^\s+(\w+)\s+= (\S+)$", TEMPLATES[kind], re.MULTILINE))
    assert settings["http_tokens"] == '"required"'
    assert settings["imds_support"] == '"v2.0"'
    assert settings["encrypt_boot"] == "true"


@pytest.mark.parametrize("kind", KINDS)
def test_cleanup_is_the_last_build_step(kind: str) -> None:
    last = TEMPLATES[kind].rindex('provisioner "')
    assert "clean-image.sh" in TEMPLATES[kind][last:]


def test_every_step_skipped_by_the_local_build_exists_and_has_a_reason() -> None:
    assert set(ami.SKIPPED) <= set(list_provisioners("ec2"))
    assert all(ami.SKIPPED.values())


def test_every_version_used_by_a_provisioner_is_pinned() -> None:
    pinned = set(re.findall(r"^(\w+)=", (AMIS / "versions.pkrvars.hcl").read_text(), re.MULTILINE))
    used = {
        name
        for script in PROVISIONERS.glob("*.sh")
        for name in re.findall(r"\$\{?([a-z0-9_]+_(?:version|sha256|commit|fingerprint))\b", script.read_text())
    }
    assert used <= pinned


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("    ec2.amazon-ebs.dlami: == select-openmpi", "select-openmpi"),
        ("    ec2.amazon-ebs.dlami: compiling Open MPI 4.1.4 with 2 processors", "compiling Open MPI 4.1.4"),
        ("==> ec2.amazon-ebs.dlami: Launching a source AWS instance...", "Launching a source AWS instance..."),
        ("    ec2.amazon-ebs.dlami: == check-efa is skipped: local hosts have no EFA", ""),
        ("==> ec2.amazon-ebs.dlami: debconf: delaying package configuration, since apt-utils is not installed", ""),
        ("Build 'ec2.amazon-ebs.dlami' finished after 3 minutes 20 seconds.", ""),
    ],
)
def test_build_stages_are_recognized_in_packer_output(line: str, stage: str) -> None:
    assert ami.parse_stage(line) == stage
