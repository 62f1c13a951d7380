"""Run CUDA in a pod, with NVIDIA's device plugin and container runtime: `python3 bench/gpu/one_pod.py --work FOLDER`.

The machine needs an NVIDIA GPU and driver, and on PATH the programs that CONTAINERS and NVIDIA name. It needs no network
and no registry: the script builds the only image from this machine's Python and from these programs. containerd gets the
configuration that `amis/provisioners/install-containerd.sh` writes on nodes (also to this machine's /etc/containerd),
except for its folders and the cgroup driver: cgroupfs, because there may be no systemd. The kubelet runs without an API
server and starts pods from files.

Run it as root. Prints a table. Exit code 1: a check failed.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CUDA = ROOT / "infra" / "jobs" / "in_pods" / "cuda.py"
PROVISIONER = ROOT / "amis" / "provisioners" / "install-containerd.sh"
CONTAINERD_CONFIG = Path("/etc/containerd/config.toml")
CONTAINERS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "kubelet", "pause", "curl")
NVIDIA = ("nvidia-device-plugin", "nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook")
IMAGE = "localhost/gpu-check:1"
GPU = "nvidia.com/gpu"
PLUGIN = "/usr/bin/nvidia-device-plugin"
PLUGINS = Path("/var/lib/kubelet/device-plugins")
"""The kubelet's folder for the sockets of device plugins. No setting changes this folder."""
DRIVER = re.compile(r"=> (\S+/lib(?:cuda|nvidia-ml)\.so\.1)$", re.MULTILINE)
"""The driver's libraries in the output of ldconfig. NVIDIA's runtime adds them to containers, but not the libraries
that they load."""
LIMIT = 60
"""Seconds that each step may take."""


class CheckFailed(Exception):
    """A check failed; the message gives the reason."""


# --- the image -------------------------------------------------------------------------------------------------------


def write_image(file: Path) -> None:
    """Write an image archive with this machine's Python, the device plugin and the pause program."""
    python = Path(sys.executable).resolve()
    standard = Path(sysconfig.get_path("stdlib")).resolve()
    modules = [path for path in standard.rglob("*") if path.is_file() and not is_excluded_module(path.relative_to(standard))]
    programs = {PLUGIN: shutil.which("nvidia-device-plugin"), "/usr/bin/pause": shutil.which("pause"), str(python): str(python)}
    binaries = [str(source) for source in programs.values()] + [str(path) for path in modules if path.suffix == ".so"]
    binaries += DRIVER.findall(subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout)
    files = {str(path): str(path) for path in modules} | programs | {path: path for path in find_shared_libraries(binaries)}
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for target, source in sorted(files.items()):
            archive.add(os.path.realpath(str(source)), target.lstrip("/"), recursive=False)
        for folder in ("etc", "tmp", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [f"PYTHONHOME={sys.base_prefix}", "PATH=/usr/bin"], "Cmd": ["/usr/bin/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(file, "w") as archive:
        for name, content in (
            ("manifest.json", json.dumps(manifest).encode()),
            ("config.json", json.dumps(config).encode()),
            ("layer.tar", layer.getvalue()),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def is_excluded_module(module: Path) -> bool:
    return module.parts[0] in {"site-packages", "dist-packages", "test", "idlelib", "ensurepip"} or "__pycache__" in module.parts


def find_shared_libraries(binaries: Sequence[str]) -> set[str]:
    """Return the shared libraries that the binaries load, without NVIDIA's."""
    said = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    return {path for path in re.findall(r"(/\S+\.so\S*) \(0x", said) if "nvidia" not in path}


# --- containerd and the kubelet --------------------------------------------------------------------------------------


class Node:
    """containerd and a kubelet in a folder; `pods` is the folder of pod files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "containerd.sock"
        self.pods = folder / "pods"
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Node":
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def begin(self) -> None:
        self.pods.mkdir()
        write_image(self.folder / "image.tar")
        subprocess.run(["bash", str(PROVISIONER)], check=True)
        default_config = CONTAINERD_CONFIG.read_text()
        if 'default_runtime_name = "nvidia"' not in default_config:
            raise CheckFailed(
                f"{CONTAINERD_CONFIG}: NVIDIA's runtime is not the default. Install nvidia-container-runtime in /usr/bin"
            )
        own = default_config.replace("SystemdCgroup = true", "SystemdCgroup = false")
        own = re.sub(
            r'sandbox_image = ".*"', f'sandbox_image = "{IMAGE}"\n  restrict_oom_score_adj = true\n  disable_apparmor = true', own
        )
        folders = f'root = "{self.folder}/containerd"\nstate = "{self.folder}/run"\noom_score = 0\n'
        (self.folder / "containerd.toml").write_text(f'{folders}{own}\n[grpc]\n  address = "{self.socket}"\n')
        self.start("containerd", "--config", str(self.folder / "containerd.toml"))
        wait_until("containerd answers", lambda: self.run_ctr("version", check=False).returncode == 0)
        self.run_ctr("images", "import", str(self.folder / "image.tar"))
        (self.folder / "kubelet.json").write_text(json.dumps(self.kubelet_config()))
        self.start("kubelet", "--config", str(self.folder / "kubelet.json"), f"--root-dir={self.folder}/kubelet", "--v=2")
        wait_until("the kubelet accepts device plugins", (PLUGINS / "kubelet.sock").exists)

    def kubelet_config(self) -> Mapping[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "readOnlyPort": 0,
            "staticPodPath": str(self.pods),
            "fileCheckFrequency": "1s",
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "podLogsDir": str(self.folder / "logs"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": "/",
            "cgroupsPerQOS": True,
            "enforceNodeAllocatable": ["pods"],
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "memory.available": "0%"},
        }

    def start(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}.log").open("wb") as log:
            self._started.append(
                subprocess.Popen([program, *arguments], stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            )

    def run_ctr(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise CheckFailed(f"{' '.join(command)}: {done.stderr.strip()}")
        return done

    def run(self, name: str, container: Mapping[str, Any], **more: Any) -> None:
        """Start a pod by writing its file."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": hashlib.md5(name.encode()).hexdigest()},
            "spec": {
                "hostNetwork": True,
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "Never", **container}],
                **more,
            },
        }
        new = self.folder / f"{name}.json"
        new.write_text(json.dumps(pod))
        new.rename(self.pods / new.name)

    def status(self, name: str) -> Mapping[str, Any]:
        """Return the status of a pod from the kubelet's API."""
        command = ["curl", "--silent", "--insecure", "https://127.0.0.1:10250/pods"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        pods = (json.loads(done.stdout).get("items") or []) if done.stdout.startswith("{") else []
        statuses = [pod["status"] for pod in pods if pod["metadata"]["name"].startswith(f"{name}-")]
        return statuses[0] if statuses else {}

    def wait_for_pod_end(self, name: str) -> Mapping[str, Any]:
        wait_until(f"pod {name} has ended", lambda: self.status(name).get("phase") in {"Succeeded", "Failed"})
        return self.status(name)

    def log(self, name: str) -> str:
        files = [path for path in (self.folder / "logs").rglob("*.log") if path.parts[-3].startswith(f"default_{name}-")]
        lines = "".join(path.read_text(errors="replace") for path in files).splitlines()
        return "\n".join(line.split(" ", 3)[-1] for line in lines)

    def __exit__(self, *_: object) -> None:
        for pod in self.pods.glob("*"):
            pod.unlink()
        with contextlib.suppress(CheckFailed):
            wait_until("all containers have ended", lambda: not self.run_ctr("tasks", "list", "-q", check=False).stdout.strip())
        for process in reversed(self._started):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)
        shutil.rmtree(PLUGINS, ignore_errors=True)
        # The kubelet bind-mounts its folder onto itself.
        subprocess.run(["umount", "--quiet", str(self.folder / "kubelet")], check=False)


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not is_so():
        if time.monotonic() > end:
            raise CheckFailed(f"not so after {LIMIT} s: {what}")
        time.sleep(0.2)


# --- the checks ------------------------------------------------------------------------------------------------------


def run_checks(node: Node) -> Iterator[tuple[str, str]]:
    """Run the checks in order, and yield the name and the result of each."""
    node.run(
        "plugin",
        {
            "command": [PLUGIN],
            # NVIDIA's image sets these variables for its runtime.
            "env": [
                {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
            ],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "plugins", "mountPath": str(PLUGINS)}],
        },
        volumes=[{"name": "plugins", "hostPath": {"path": str(PLUGINS)}}],
    )
    wait_until("the device plugin has registered the GPUs", lambda: "Registered device plugin" in node.log("plugin"))
    wait_until("the kubelet has the GPUs", (PLUGINS / "kubelet_internal_checkpoint").exists)
    yield "plugin", "NVIDIA's device plugin runs unprivileged and registered the GPUs"

    start_cuda_pod(node, "with", {GPU: "1"})
    report = json.loads(wait_for_last_log_line(node, "with", "Succeeded"))
    if report["error"] or len(report["gpus"]) != 1 or report["gpus"][0]["error"]:
        raise CheckFailed(f"{report}")
    yield "pod", f"a kernel ran in a pod with one GPU: {report['gpus'][0]['name']}"

    start_cuda_pod(node, "without", {})
    report = json.loads(wait_for_last_log_line(node, "without", "Succeeded"))
    if not report["error"]:
        raise CheckFailed(f"a pod without a GPU used one: {report}")
    yield "no GPU", f"a pod that requests no GPU has none: {report['error']}"

    start_cuda_pod(node, "many", {GPU: "1000"})
    status = node.wait_for_pod_end("many")
    if GPU not in status.get("message", ""):
        raise CheckFailed(f"a pod with 1,000 GPUs was not rejected: {status}")
    yield "too many", f"{status['reason']}: {status['message']}"


def start_cuda_pod(node: Node, name: str, limits: Mapping[str, str]) -> None:
    node.run(
        name,
        {
            "command": [str(Path(sys.executable).resolve()), "/check/cuda.py"],
            "env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}],
            "resources": {"limits": {**limits, "memory": "2Gi"}},
            "volumeMounts": [{"name": "check", "mountPath": "/check", "readOnly": True}],
        },
        volumes=[{"name": "check", "hostPath": {"path": str(CUDA.parent)}}],
    )


def wait_for_last_log_line(node: Node, name: str, phase: str) -> str:
    status = node.wait_for_pod_end(name)
    lines = node.log(name).splitlines()
    if status["phase"] != phase or not lines:
        raise CheckFailed(f"pod {name}: {json.dumps(status)}: {' '.join(lines)}")
    return lines[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="new folder for the image, the programs' folders and logs")
    folder = parser.parse_args().work.resolve()
    for path in (folder, PLUGINS):
        if path.exists():
            parser.error(f"{path} exists. Choose a new folder, and a machine without a kubelet")
    if missing := [program for program in (*CONTAINERS, *NVIDIA) if not shutil.which(program)]:
        parser.error(f"these programs are not on PATH: {', '.join(missing)}. Install them")
    folder.mkdir(parents=True)
    try:
        with Node(folder) as node:
            for name, result in run_checks(node):
                print(f"{name:10} passed   {result}", flush=True)
    except CheckFailed as error:
        print(f"FAILED: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
