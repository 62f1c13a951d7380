"""Build the EC2 cluster AMI in a local cloud, with the same Packer template as on AWS: `packer build amis`.

The build skips some provisioners by name, including those that check components of the base AMI on AWS (driver, EFA,
NCCL). The manifest lists all skipped provisioners.
"""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from localcloud.hosts.hardware import NO_EFA, NO_GPU
from localcloud.images.root import AMIS
from localcloud.instance import LocalCloud
from localcloud.processes import ROOT
from localcloud.tools import build as tools
from localcloud.tools.build import BuildError, Report, hold_lock
from localcloud.tools.catalogue import PACKER, PACKER_AMAZON

Series = Literal["4", "5"]
PLUGIN = "github.com/hashicorp/amazon"
SKIPPED: Mapping[str, str] = {
    "check-driver": NO_GPU,
    "check-fabric-manager": NO_GPU,
    "check-efa": NO_EFA,
    "check-ofi-nccl": NO_EFA,
    "check-nccl": NO_GPU,
    "install-gdrcopy": NO_GPU,
    "install-efs-utils": "local hosts have an emulator of the EFS mount helper",
    "install-lustre-client": "local hosts have an emulator of the Lustre mount helper",
}
OPENMPI_FLAGS = "--enable-mpi-fortran=no --disable-oshmem --disable-io-romio CFLAGS=-O1"
"""`configure` options that shorten the Open MPI build. On AWS, the template's default applies."""
MANIFESTS = "ami"
"""Name of the folder for build manifests, next to the folders of local clouds."""
CIDR = "10.255.0.0/28"
_WRONG = re.compile(r"Provisioning step had errors|^Build .* errored after ")
_STAGES = re.compile(
    r"[ =>]*ec2\.amazon-ebs\.dlami: (?:== ([\w-]+)|((?:configuring|compiling) Open MPI [\d.]+).*"
    r"|((?:Launching|Stopping|Terminating) .*|Connected to SSH!|Creating AMI .*|Copying.*))"
)
_CERTIFICATES = "certificates.pem"
CLEANING_SECONDS = 60.0
"""Grace period in which an interrupted build can terminate its instance."""


def cache_folder() -> Path:
    """Return the folder in which builds cache compiled Open MPI versions, by checksum and options."""
    return tools.cache_folder().parent / "ami"


def build_environment_variables(cloud: LocalCloud, region: str, report: Report, output: Path, subnet: str) -> dict[str, str]:
    """Return environment variables for `packer build -only 'ec2.*' amis` in a local cloud with hosts.

    `output`: folder for the manifests. `subnet`: subnet of the build instance, since the account has no default VPC.
    Raises BuildError if Packer cannot be built.
    """
    cache = cache_folder()
    (cache / "built").mkdir(parents=True, exist_ok=True)
    variables = {
        "region": region,
        "subnet_id": subnet,
        "custom_endpoint": cloud.server("aws").url,
        "base_user": "debian",  # default user of the root file system that emulates AWS's Deep Learning AMI
        "openmpi_origin": "debian",
        "openmpi_flags": OPENMPI_FLAGS,
        "debian_mirror": find_debian_mirror(),
        "skip": json.dumps(SKIPPED),
        "cache": str(cache),
        "environment": json.dumps(_build_pip_settings(cache)),
        "output": str(output.absolute()),
    }
    return {
        **cloud.process_environment(),
        "PATH": f"{tools.ensure_tool(PACKER, report).parent}{os.pathsep}{cloud.environment()['PATH']}",
        "PACKER_PLUGIN_PATH": str(ensure_packer_plugins(report)),
        "PACKER_CONFIG_DIR": str(cache / "packer"),
        "CHECKPOINT_DISABLE": "1",
        "AWS_POLL_DELAY_SECONDS": "1",  # Packer polls AWS every 15 s by default
        **{f"PKR_VAR_{name}": value for name, value in variables.items()},
    }


def build(
    cloud: LocalCloud, region: str, report: Report, output: Path, series: Series = "4", frameworks: Sequence[str] = ()
) -> str:
    """Build the AMI and return its id. `report` is called with each line of Packer's output. Raises BuildError with the
    lines up to the first error.

    All local clouds on this machine share one build lock, so each build can reuse the compiled Open MPI.
    """
    if cloud.is_running() and not cloud.has_hosts:
        raise BuildError("Packer needs a build instance, but this local cloud has no hosts. Start it as root, without --no-hosts")
    with hold_build_lock(), create_temporary_subnet(cloud, region) as subnet:
        _run_packer(build_environment_variables(cloud, region, report, output, subnet), series, frameworks, report)
    return read_built_ami_id(output, series)


def read_manifest(output: Path, series: Series = "4") -> dict[str, Any]:
    """Return the manifest of the last build: versions, packages, and skipped provisioners with reasons."""
    read: dict[str, Any] = json.loads((output / f"ec2-openmpi{series}.json").read_text())
    return read


def parse_stage(line: str) -> str:
    """Return the build stage that a line of Packer's output reports, such as the start of a provisioner. For other lines,
    return an empty string."""
    match = _STAGES.fullmatch(line)
    return next(filter(None, match.groups())) if match else ""


@contextmanager
def hold_build_lock() -> Iterator[None]:
    """Hold the lock on the cache of compiled Open MPI versions."""
    with hold_lock(cache_folder() / "building"):
        yield


def read_built_ami_id(output: Path, series: Series = "4") -> str:
    """Return the id of the AMI that the last build created."""
    runs = json.loads((output / f"ec2-openmpi{series}.amis.json").read_text())
    (build,) = [entry for entry in runs["builds"] if entry["packer_run_uuid"] == runs["last_run_uuid"]]
    return str(build["artifact_id"].partition(":")[2])


def remove(cloud: LocalCloud, region: str, image: str) -> list[str]:
    """Deregister an AMI and delete its snapshots. Return the IDs of the deleted snapshots."""
    ec2 = cloud.clients(region)("ec2")
    (described,) = ec2.describe_images(ImageIds=[image])["Images"]
    disks = [mapping["Ebs"] for mapping in described["BlockDeviceMappings"] if "Ebs" in mapping]
    snapshots = [disk["SnapshotId"] for disk in disks if "SnapshotId" in disk]
    ec2.deregister_image(ImageId=image)
    for snapshot in snapshots:  # only after deregistering: EC2 does not delete snapshots of a registered AMI
        ec2.delete_snapshot(SnapshotId=snapshot)
    return snapshots


@contextmanager
def create_temporary_subnet(cloud: LocalCloud, region: str) -> Iterator[str]:
    """Yield a subnet in a temporary VPC for the build instance. The build instance reaches the internet through the
    proxy that all local hosts use."""
    ec2 = cloud.clients(region)("ec2")
    tags = {"Key": "Name", "Value": "gpumpi-ami-build"}
    vpc = ec2.create_vpc(CidrBlock=CIDR, TagSpecifications=[{"ResourceType": "vpc", "Tags": [tags]}])["Vpc"]["VpcId"]
    try:
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=CIDR)["Subnet"]["SubnetId"]
        try:
            yield subnet
        finally:
            ec2.delete_subnet(SubnetId=subnet)
    finally:
        ec2.delete_vpc(VpcId=vpc)


def _run_packer(variables: Mapping[str, str], series: Series, frameworks: Sequence[str], report: Report) -> None:
    chosen = ["-var", f"openmpi={series}", "-var", f"frameworks={json.dumps(list(frameworks))}"]
    command = ["packer", "build", "-color=false", "-only", "ec2.*", *chosen, str(AMIS.relative_to(ROOT))]
    lines: list[str] = []
    program = shutil.which("packer", path=variables["PATH"])
    with subprocess.Popen(
        command,
        executable=program,
        cwd=ROOT,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,  # Ctrl-C reaches only this process, which then terminates Packer once
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line.rstrip())
                report(lines[-1])
        except BaseException:
            _cancel_build(process)
            raise
    if process.returncode:
        # show the lines up to the first error; Packer logs its cleanup after that
        wrong = next((number for number, line in enumerate(lines) if _WRONG.search(line)), len(lines))
        tail = "\n".join(lines[max(0, wrong - 15) : wrong + 1])
        raise BuildError(f"packer build exited with code {process.returncode}:\n{tail}")


def _cancel_build(packer: "subprocess.Popen[str]") -> None:
    """Let Packer terminate the build instance and exit. If this takes too long, kill Packer and its plugin."""
    packer.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            packer.communicate(timeout=CLEANING_SECONDS)
    finally:
        if packer.poll() is None:  # cleanup timed out, or the user pressed Ctrl-C again
            os.killpg(packer.pid, signal.SIGKILL)


def ensure_packer_plugins(report: Report) -> Path:
    """Return a folder for PACKER_PLUGIN_PATH with the plugin version that the templates require."""
    plugin = tools.ensure_tool(PACKER_AMAZON, report)
    folder = plugin.parents[1] / "packer"
    with hold_lock(folder):
        if not (folder / PLUGIN).exists():
            command = [str(tools.ensure_tool(PACKER, report)), "plugins", "install", "--path", str(plugin), PLUGIN]
            own = {"PACKER_PLUGIN_PATH": str(folder), "PACKER_CONFIG_DIR": str(folder), "CHECKPOINT_DISABLE": "1"}
            done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BuildError(f"packer cannot install its plugin: {done.stdout}{done.stderr}")
    return folder


def _build_pip_settings(cache: Path) -> list[str]:
    """Return environment variables that make pip on hosts use this machine's certificates and pip index."""
    trusted = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile
    settings = []
    if trusted and Path(trusted).exists():
        shutil.copyfile(trusted, cache / _CERTIFICATES)
        settings.append(f"PIP_CERT=/tmp/cache/{_CERTIFICATES}")
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    index_setting = re.search(r"^(?:global|:env:)\.index-url='(.*)'$", done.stdout, re.MULTILINE)
    return [*settings, f"PIP_INDEX_URL={index_setting[1]}"] if index_setting else settings


def find_debian_mirror() -> str:
    """Return the Debian mirror that apt uses on this machine, or Debian's own mirror if there is none."""
    default = "https://deb.debian.org/debian"
    if shutil.which("apt-get") is None:
        return default
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return next((line.rstrip("/") for line in done.stdout.splitlines() if line.rstrip("/").endswith("/debian")), default)
