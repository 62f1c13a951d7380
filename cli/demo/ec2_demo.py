"""`demo --ec2`: run the lifecycle of an EC2 cluster whose instances are emulated on this machine."""

import json
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cli.demo.steps import CLUSTER, StepFailed, Steps, join_last_lines, require
from localcloud import workloads
from localcloud.hosts import ami, capability
from localcloud.tools.build import BuildError

RANKS = ("mpiexec", "-n", "8", "-N", "2")
"""Eight ranks: two on the head node, and two on each of the three workers."""
OPENMPI = "ompi_info --parsable --all | grep -e ^ompi:version:full: -e :mpi_built_with_cuda_support:value:"
HOSTS = 4
FEWER = 1
"""Number of workers after scaling down."""


@dataclass
class Ec2Demo(Steps):
    """Demo of an EC2 cluster: builds an AMI, starts a head node and workers from it, and runs MPI jobs on them."""

    name = "demo-ec2"
    stack_name = "local-ec2"
    title = "The lifecycle of an EC2 cluster in a local AWS whose instances are emulated on this machine. No account, no cost."
    goes_on = 'scripts/cluster local start; eval "$(scripts/cluster local env)"; pulumi up -s local-ec2'

    image: str = ""
    """ID of the AMI that the demo built."""

    def steps(self) -> None:
        self.step("start the local cloud", self.start)
        self.step("build the AMI", self.build_ami)
        self.step("create", self.create)
        self.step("wait until all hosts have joined", self.wait_for_workers)
        self.step("check the AMI of the hosts", self.check_hosts)
        self.step("copy the programs", self.copy_programs)
        self.step("allreduce on four hosts", self.run_allreduce)
        self.step("train on four hosts", self.train_model)
        self.step("scale down", self.scale_workers)
        self.step("run again", self.check_second_up_changes_nothing)
        self.step("destroy", self.destroy)
        self.step("delete the AMI", self.delete_ami)
        self.step("check for leftovers", self.check_leftovers)
        self.step("stop the local cloud", self.stop, always=True)

    def start(self) -> str:
        self.cloud.stop()  # an interrupted demo may have left the local cloud running
        able = capability.check_machine()
        require(able.hosts, str(able))
        self.cloud.start(self.print_progress, hosts=True)
        self.stack.prepare()
        self.key.parent.mkdir()
        self.command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "demo", "-f", str(self.key))
        self.stack.set_config("gpumpi:target.ssh.publicKeys[0]", self.key.with_suffix(".pub").read_text().strip())
        return f"AWS and Pulumi's providers on loopback; {able}"

    def build_ami(self) -> str:
        """Build the AMI with Packer, from the same template as on AWS. The stack finds the AMI by its tags."""
        lines: list[str] = []

        def show_line(line: str) -> None:
            lines.append(line)
            if progress := line if line.startswith(("building", "built")) else ami.parse_stage(line):
                self.print_progress(progress)

        output = self.log.parent / ami.MANIFESTS
        try:
            self.image = ami.build(self.cloud, self.stack.region, show_line, output)
        except BuildError as error:
            self.console.print(str(error), markup=False, soft_wrap=True)
            raise StepFailed(join_last_lines(str(error))) from None
        finally:
            self.log_output(("packer", "build", "amis"), "\n".join(lines))
        manifest = ami.read_manifest(output)
        return (
            f"{self.image}: Open MPI {manifest['mpi']['version']}; {len(manifest['installed'])} provisioners ran,"
            f" {len(manifest['skipped'])} were skipped (reasons in the manifest)"
        )

    def create(self) -> str:
        run = self.run_pulumi("up")
        return f"{run.changes.get('create', 0)} resources: a head node and a group of workers, which are now booting"

    def wait_for_workers(self) -> str:
        self._run_cluster_command("wait", *self._identity_option, "--json")
        hosts = json.loads(self._run_cluster_command("hosts", "--json"))["hosts"]
        joined = [host for host in hosts if host["joined"]]
        require(len(joined) == HOSTS, f"{len(joined)} of {HOSTS} hosts have joined: {hosts}")
        slots = sum(host["slots"] for host in joined)
        return f"{len(joined)} hosts with {slots} slots: {', '.join(host['address'] for host in joined)}"

    def check_hosts(self) -> str:
        """Check that all hosts run the AMI that the demo built, and that their Open MPI is CUDA-aware."""
        ec2 = self.cloud.clients(self.stack.region)("ec2")
        reservations = ec2.describe_instances(InstanceIds=[host.instance_id for host in self.cloud.hosts()])["Reservations"]
        images = sorted(instance["ImageId"] for entry in reservations for instance in entry["Instances"])
        require(images == [self.image] * HOSTS, f"the hosts started from {', '.join(images)} instead of {self.image}")
        said = self._run_on_head_node("mpiexec", "-n", str(HOSTS), "-N", "1", "sh", "-c", OPENMPI)
        versions = {line.rpartition(":")[2] for line in said if line.startswith("ompi:version:full:")}
        cuda = [line.rpartition(":")[2] for line in said if ":mpi_built_with_cuda_support:value:" in line]
        require(cuda == ["true"] * HOSTS, f"Open MPI should report CUDA support on each host, but reports {cuda}")
        return f"{HOSTS} hosts from {self.image}; CUDA support of their Open MPI {', '.join(versions)}: true"

    def copy_programs(self) -> str:
        """Copy the programs into the shared folder as a user would on AWS: as a tar archive over SSH."""
        command = self._build_cluster_command("ssh", *self._identity_option, "--", "tar", "x", "-C", "/shared")
        environment = self.cloud.process_environment()
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stderr is not None
            with suppress(BrokenPipeError):  # tar exited early; its stderr gives the reason
                workloads.pack_archive(process.stdin, self.print_progress)
                process.stdin.close()
            said = process.stderr.read().decode(errors="replace")
        self.log_output((*command,), said)
        if process.returncode:
            raise StepFailed(said.strip() or f"tar ended with {process.returncode}")
        return "ChainerMN, its training program and the digits data set are in /shared"

    def run_allreduce(self) -> str:
        """Run an allreduce. Each rank prints its host, and the sum must be correct on every rank."""
        return self._run_on_head_node(*RANKS, "python3", "allreduce.py")[-1]

    def train_model(self) -> str:
        """Train a model. The program fails unless the model learns and all ranks end with equal weights."""
        lines = self._run_on_head_node(*RANKS, "-x", f"PYTHONPATH=/shared/{workloads.PYTHON}", "python3", "train_mnist.py")
        for line in lines[:-1]:
            self.console.print(f"  {line}", markup=False, soft_wrap=True)
        return lines[-1]

    def scale_workers(self) -> str:
        self._run_cluster_command("scale", str(FEWER), *self._identity_option)
        return self._run_on_head_node("mpiexec", "-n", str(2 * (FEWER + 1)), "-N", "2", "python3", "allreduce.py")[-1]

    def check_second_up_changes_nothing(self) -> str:
        """Check that `up` keeps the size that `scale` set."""
        return f"{super().check_second_up_changes_nothing()}, still {FEWER} worker"

    def delete_ami(self) -> str:
        """Delete the AMI. The AMI does not belong to the stack, so `destroy` keeps it, and its snapshots cost money."""
        snapshots = ami.remove(self.cloud, self.stack.region, self.image)
        return f"{self.image}, and {', '.join(snapshots)}"

    def check_leftovers(self) -> str:
        rest = super().check_leftovers()
        hosts = [host.instance_id for host in self.cloud.hosts()]
        require(not hosts, f"still running: {hosts}")
        return f"no host, and {rest}"

    @property
    def key(self) -> Path:
        """SSH key pair of the demo. The key pair is deleted together with the local cloud."""
        return self.cloud.folder / "project" / "ssh" / "key"

    @property
    def _identity_option(self) -> tuple[str, str]:
        return "--identity", str(self.key)

    def _run_on_head_node(self, *command: str) -> list[str]:
        """Run a command on the head node; return its output without mpiexec's own `[host:process] ...` lines."""
        lines = self._run_cluster_command("run", *self._identity_option, "--", *command).splitlines()
        return [line for line in lines if line and not line.startswith("[")]

    def _run_cluster_command(self, verb: str, *options: str) -> str:
        """Return the output of `scripts/cluster VERB`. Raises StepFailed."""
        return self.command(*self._build_cluster_command(verb, *options))

    def _build_cluster_command(self, verb: str, *options: str) -> list[str]:
        where = ("--stack", self.stack.name, "--config-dir", str(self.stack.project))
        return [*CLUSTER, verb, *where, *options]
