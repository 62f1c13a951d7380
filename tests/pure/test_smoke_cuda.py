"""The smoke program that runs a kernel on every GPU, tested with an emulator of the driver's library.

The emulator shows that the program makes the driver's calls in order, passes the kernel's arguments, and reports each fault.
It computes the kernel's result in C, so it cannot show that a driver compiles the PTX or that a GPU runs it. NOT VERIFIED on a
GPU (2026-11-23); ptxas 12.8.93 and 13.0.88 compile the PTX for every type from V100 to Blackwell.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.jobs import smoke
from infra.jobs.in_pods import read_source
from infra.jobs.in_pods.smoke import run_cuda_check

DRIVER = r"""
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static int current = -1, filled;
static int set(const char *name) { return getenv(name) ? atoi(getenv(name)) : -1; }
static uint32_t *memory;
int cuInit(unsigned flags) { if (set("CRASH") > 0) abort(); return set("INIT") > 0 ? set("INIT") : 0; }
int cuDeviceGetCount(int *count) { *count = set("GPUS"); return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Emulated GPU"); return 0; }
int cuDeviceGetPCIBusId(char *name, int size, int device) { snprintf(name, size, "0000:%02x:00.0", device); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(intptr_t)(device + 1); return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { current = -1; return 0; }
int cuCtxSetCurrent(void *context) { current = (int)(intptr_t)context - 1; return 0; }
int cuModuleLoadData(void **module, const char *image) {
  *module = memory; return strstr(image, ".visible .entry touch(") ? 0 : 218; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = memory; return strcmp(name, "touch"); }
int cuMemAlloc_v2(uint64_t *address, size_t bytes) { *address = (uint64_t)(memory = malloc(bytes)); filled = 0; return 0; }
int cuMemsetD32_v2(uint64_t address, unsigned value, size_t count) {
  for (size_t i = 0; i < count; i++) ((uint32_t *)address)[i] = value;
  filled = 1; return 0; }
int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **values, void **extra) {
  uint32_t *words = *(uint32_t **)values[0], count = *(uint32_t *)values[1], factor = *(uint32_t *)values[2];
  if (current == set("LAUNCH_FAILS_ON")) return 700;
  if (!filled || gx * bx < count) return 1;
  for (uint32_t i = 0; i < count; i++) words[i] += i * factor;
  if (current == set("WRONG_ON")) words[count / 2] ^= 1;
  return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t address, size_t bytes) { memcpy(to, (void *)address, bytes); return 0; }
int cuMemFree_v2(uint64_t address) { free((void *)address); return 0; }
int cuGetErrorName(int code, const char **name) {
  *name = code == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0; }
"""


@pytest.fixture(scope="module")
def cuda_emulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the emulator, and return its folder."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc for an emulator of libcuda.so.1")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(folder / "libcuda.so.1"), str(folder / "driver.c")]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def run_cuda_program(driver: Path, **settings: str) -> dict[str, Any]:
    environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(driver), "GPUS": "3", **settings}
    command = [sys.executable, "-I", "-c", read_source("cuda.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def list_gpu_errors(output: dict[str, Any]) -> list[str]:
    return [gpu["error"] for gpu in output["gpus"]]


def test_a_kernel_runs_on_every_gpu(cuda_emulator: Path) -> None:
    output = run_cuda_program(cuda_emulator)
    assert output["error"] == "" and list_gpu_errors(output) == ["", "", ""]
    assert [gpu["bus"] for gpu in output["gpus"]] == ["0000:00:00.0", "0000:01:00.0", "0000:02:00.0"]
    assert {gpu["name"] for gpu in output["gpus"]} == {"Emulated GPU"}


def test_wrong_kernel_result_fails_only_its_gpu(cuda_emulator: Path) -> None:
    assert list_gpu_errors(run_cuda_program(cuda_emulator, WRONG_ON="1")) == ["", "the kernel left 1 of 262144 words wrong", ""]


def test_failed_kernel_launch_fails_only_its_gpu(cuda_emulator: Path) -> None:
    expected = ["", "", "cuLaunchKernel returned CUDA_ERROR_ILLEGAL_ADDRESS (700)"]
    assert list_gpu_errors(run_cuda_program(cuda_emulator, LAUNCH_FAILS_ON="2")) == expected


def test_driver_initialization_failure_is_reported(cuda_emulator: Path) -> None:
    output = run_cuda_program(cuda_emulator, INIT="802")
    assert output == {"error": "cuInit returned CUDA_ERROR_SYSTEM_NOT_READY (802)", "gpus": []}


def test_an_image_or_node_without_a_driver_is_reported(tmp_path: Path) -> None:
    assert run_cuda_program(tmp_path) == {"error": "libcuda.so.1 is missing", "gpus": []}


def test_a_driver_that_crashes_does_not_end_the_rank(cuda_emulator: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(cuda_emulator))
    monkeypatch.setenv("CRASH", "1")
    monkeypatch.setattr("infra.jobs.in_pods.smoke.CUDA_PROGRAM", read_source("cuda.py"), raising=False)
    assert run_cuda_check() == {"error": "the CUDA driver terminated the process with -6.", "gpus": []}


def test_a_driver_that_hangs_does_not_hang_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.jobs.in_pods.smoke.CUDA_PROGRAM", "import signal; signal.pause()", raising=False)
    monkeypatch.setattr("infra.jobs.in_pods.smoke.CUDA_SECONDS", 0)
    assert run_cuda_check() == {"error": "the CUDA driver did not answer within 0 s", "gpus": []}


def test_programs_in_pods_use_only_python_3_8_syntax() -> None:
    for program in (smoke.build_program(), read_source("cuda.py"), read_source("nccl.py")):
        ast.parse(program, feature_version=(3, 8))


def test_smoke_program_embeds_the_cuda_program() -> None:
    names: dict[str, Any] = {"__name__": "builtins"}
    exec(compile(smoke.build_program(), "program", "exec"), names)
    assert names["CUDA_PROGRAM"] == read_source("cuda.py")
