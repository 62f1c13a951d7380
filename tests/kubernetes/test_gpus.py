"""Simulated GPUs, as reported by NVIDIA's own NVML clients: nvidia-ml-py and the device plugin."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from localcloud.kubernetes.nodes import finding, gpus, kernel_log
from localcloud.tools.build import BuildError, ensure_tool
from localcloud.tools.catalogue import NVIDIA_DEVICE_PLUGIN, NVML
from testkit.waiting import wait_while
from tests.images.conftest import needs_root
from tests.pure.node_world import make_machine

NODE = make_machine(kind="p4d.24xlarge")
PLUGIN_FOLDER = "/var/lib/kubelet/device-plugins"
LIST = """
import json
from pynvml import *
nvmlInit()
found = []
for index in range(nvmlDeviceGetCount()):
    gpu = nvmlDeviceGetHandleByIndex(index)
    by_uuid = nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(gpu))
    found.append([
        nvmlDeviceGetUUID(by_uuid), nvmlDeviceGetName(gpu), nvmlDeviceGetMemoryInfo(gpu).total, nvmlDeviceGetPciInfo(gpu).busId,
        nvmlDeviceGetCudaComputeCapability(gpu),
    ])
print(json.dumps(found))
"""
WATCH = """
import json, sys
from pynvml import *
nvmlInit()
events = nvmlEventSetCreate()
for index in range(nvmlDeviceGetCount()):
    nvmlDeviceRegisterEvents(nvmlDeviceGetHandleByIndex(index), nvmlEventTypeXidCriticalError, events)
print("ready", flush=True)
for _ in range(int(sys.argv[1])):
    event = nvmlEventSetWait_v2(events, 60_000)
    print(json.dumps([nvmlDeviceGetIndex(event.device), event.eventData]), flush=True)
"""


@pytest.fixture
def gpu_folder(tmp_path: Path) -> Path:
    """Folder with the files that describe a node's simulated GPUs."""
    gpus.write_gpu_files(NODE, tmp_path)
    return tmp_path


def build_environment_variables(node: Path) -> dict[str, str]:
    try:
        library = ensure_tool(NVML, print)
    except BuildError as error:
        pytest.skip(str(error))
    return {**os.environ, "GPUMPI_NVML": str(node), "LD_LIBRARY_PATH": str(library.parent)}


def break_gpu(node: Path, index: int, xid: int) -> None:
    with (node / gpus.XIDS_FILE).open("a") as file:
        file.write(f"{index} {xid}\n")


def test_nvml_reports_the_gpus_of_the_instance_type(gpu_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIST], env=build_environment_variables(gpu_folder), capture_output=True, text=True, check=True
    )
    devices = json.loads(done.stdout)
    assert [device[0] for device in devices] == gpus.list_gpu_uuids(NODE) and len(set(gpus.list_gpu_uuids(NODE))) == 8
    assert {tuple(device[1:3]) for device in devices} == {("NVIDIA A100", 40960 << 20)}
    assert [device[3] for device in devices] == [f"00000000:1{index}:00.0" for index in range(8)]
    assert all(device[4] == [8, 0] for device in devices)


def test_nvml_is_missing_on_a_node_without_gpus(tmp_path: Path) -> None:
    gpus.write_gpu_files(make_machine(kind="m5.large"), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LIST], env=build_environment_variables(tmp_path), capture_output=True, text=True, check=False
    )
    assert "NVMLError_Unknown" in done.stderr


def test_an_nvml_event_listener_sees_only_faults_after_its_initialization(gpu_folder: Path) -> None:
    break_gpu(gpu_folder, 5, 48)
    command = [sys.executable, "-c", WATCH, "2"]
    with subprocess.Popen(command, env=build_environment_variables(gpu_folder), stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "ready\n"
        break_gpu(gpu_folder, 0, 79)
        break_gpu(gpu_folder, 7, 31)
        assert [json.loads(line) for line in watcher.stdout] == [[0, 79], [7, 31]]


@pytest.fixture
def plugin_channel(gpu_folder: Path, tmp_path: Path) -> "Iterator[grpc.Channel]":
    """gRPC channel to NVIDIA's device plugin, as a kubelet would open it. The plugin runs in its own mount namespace,
    with a temporary folder as the kubelet's plugin folder."""
    try:
        plugin = ensure_tool(NVIDIA_DEVICE_PLUGIN, print)
    except BuildError as error:
        pytest.skip(str(error))
    folder = tmp_path / "plugins"
    folder.mkdir()
    script = f'mkdir -p {PLUGIN_FOLDER} && mount --bind "$1" {PLUGIN_FOLDER} && exec "$2" --kubelet-socket ""'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(folder), str(plugin)]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, env=build_environment_variables(gpu_folder), stdout=log, stderr=log) as running,
    ):
        try:
            socket = folder / "nvidia-gpu.sock"
            wait_while(lambda: socket.exists() or running.poll() is not None, lambda there: not there)
            with grpc.insecure_channel(f"unix://{socket}") as channel:
                yield channel
        finally:
            running.terminate()


@needs_root
def test_the_device_plugin_removes_a_broken_gpu_but_not_after_an_application_error(
    gpu_folder: Path, plugin_channel: grpc.Channel
) -> None:
    watch = plugin_channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")
    answers = watch(b"", timeout=120, wait_for_ready=True)
    first = next(answers)
    assert [first.count(uuid.encode()) for uuid in gpus.list_gpu_uuids(NODE)] == [1] * 8
    assert first.count(b"Healthy") == 8 and b"Unhealthy" not in first
    log = (gpu_folder / "log").read_text
    wait_while(log, lambda text: "Ignoring the following XIDs" not in text)
    break_gpu(gpu_folder, 3, 31)
    break_gpu(gpu_folder, 4, 79)
    second = next(answers)
    assert second.count(b"Unhealthy") == 1
    assert gpus.list_gpu_uuids(NODE)[4].encode() in second.partition(b"Unhealthy")[0][-60:]
    answers.cancel()


def test_break_errors_list_the_existing_nodes_and_gpus(tmp_path: Path) -> None:
    own = tmp_path / "1-demo/nodes/i-0a/own"
    (own / gpus.FOLDER).mkdir(parents=True)
    (own / "etc").mkdir()
    (own / "etc/hostname").write_text("ip-10-0-1-7\n")
    gpus.write_gpu_files(NODE, own / gpus.FOLDER)
    (own / kernel_log.FILE).parent.mkdir(parents=True)
    with pytest.raises(finding.NoSuchNode, match=r"ip-10-0-9-9: no such node\. Choose one of: ip-10-0-1-7"):
        finding.find_real_node(tmp_path, "ip-10-0-9-9")
    node = finding.find_real_node(tmp_path, "i-0a")
    assert node == finding.find_real_node(tmp_path, "ip-10-0-1-7")
    assert (node.cluster, node.instance, node.own) == ("demo", "i-0a", own)
    with pytest.raises(gpus.NoSuchGpu, match="ip-10-0-1-7: no GPU 8; the node has GPUs 0 to 7"):
        gpus.break_gpu(node, 8, 79)
    assert gpus.break_gpu(node, 7, 79) == gpus.list_gpu_uuids(NODE)[7]
    assert (own / gpus.FOLDER / gpus.XIDS_FILE).read_text() == "7 79\n"
    (line,) = (own / kernel_log.FILE).read_text().splitlines()
    assert line.endswith("NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus")
