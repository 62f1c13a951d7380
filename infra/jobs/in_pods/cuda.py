"""Run a kernel on every GPU of this container, check its result, and print one JSON line.

Needs only Python 3.8 and the driver's libcuda.so.1: the kernel is PTX, which the driver compiles for the GPU.
https://docs.nvidia.com/cuda/cuda-driver-api/
"""

import array
import ctypes
import json
import sys

LIBRARY = "libcuda.so.1"
WORDS = 1 << 18
"""Length of the buffer: 1 MiB in 32-bit words."""
THREADS = 256
FACTOR, FIRST = 2654435761, 12345
"""Word i of the buffer, filled with FIRST + the GPU's index, becomes itself + i * FACTOR, modulo 2**32."""

# For compute capability 7.0 and newer (V100 and later). ptxas 12.8 and 13.0 compile it for each of sm_75 to sm_120.
KERNEL = b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry touch(.param .u64 words, .param .u32 count, .param .u32 factor)
{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [words];
    ld.param.u32 %r1, [count];
    ld.param.u32 %r2, [factor];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r6, 4;
    add.u64 %rd4, %rd2, %rd3;
    ld.global.u32 %r7, [%rd4];
    mad.lo.u32 %r8, %r6, %r2, %r7;
    st.global.u32 [%rd4], %r8;
DONE:
    ret;
}
"""


class Failed(Exception):
    """A driver call failed, or a GPU returned a wrong result."""


class Driver:
    """The CUDA driver API."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(LIBRARY)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(text))
            raise Failed(f"{name} returned {(text.value or b'error').decode()} ({code})")

    def count_gpus(self) -> int:
        self.call("cuInit", ctypes.c_uint(0))
        number = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(number))
        return number.value

    def check_gpu(self, index: int) -> "dict[str, str]":
        """Return a GPU's name and PCI address, and what is wrong with the GPU."""
        result = {"name": "", "bus": "", "error": ""}
        try:
            device = ctypes.c_int()
            self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
            for key, name in (("name", "cuDeviceGetName"), ("bus", "cuDeviceGetPCIBusId")):
                text = ctypes.create_string_buffer(100)
                self.call(name, text, ctypes.c_int(len(text)), device)
                result[key] = text.value.decode()
            context = ctypes.c_void_p()
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            try:
                self.call("cuCtxSetCurrent", context)
                self._run_kernel(FIRST + index)
            finally:
                self.call("cuDevicePrimaryCtxRelease_v2", device)
        except Failed as error:
            result["error"] = str(error)
        return result

    def _run_kernel(self, first: int) -> None:
        """Fill a buffer on the current GPU, change it with the kernel, copy it back and check every word."""
        module, kernel, words = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(KERNEL))
        self.call("cuModuleGetFunction", ctypes.byref(kernel), module, ctypes.c_char_p(b"touch"))
        self.call("cuMemAlloc_v2", ctypes.byref(words), ctypes.c_size_t(4 * WORDS))
        self.call("cuMemsetD32_v2", words, ctypes.c_uint(first), ctypes.c_size_t(WORDS))
        values = (words, ctypes.c_uint32(WORDS), ctypes.c_uint32(FACTOR))
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        sizes = [ctypes.c_uint(number) for number in (WORDS // THREADS, 1, 1, THREADS, 1, 1, 0)]
        self.call("cuLaunchKernel", kernel, *sizes, ctypes.c_void_p(), addresses, ctypes.c_void_p())
        self.call("cuCtxSynchronize")
        result = array.array("I", bytes(4 * WORDS))
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(result.buffer_info()[0]), words, ctypes.c_size_t(4 * WORDS))
        self.call("cuMemFree_v2", words)
        if wrong := sum(word != (first + i * FACTOR) % 2**32 for i, word in enumerate(result)):
            raise Failed(f"the kernel left {wrong} of {WORDS} words wrong")


def main() -> int:
    report: dict[str, object] = {"error": "", "gpus": []}
    try:
        driver = Driver()
        report["gpus"] = [driver.check_gpu(index) for index in range(driver.count_gpus())]
    except OSError:
        report["error"] = f"{LIBRARY} is missing"
    except (Failed, AttributeError) as error:
        report["error"] = str(error)
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
