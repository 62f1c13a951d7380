"""Output of NCCL, nccl-tests, PyTorch and the GPU driver, as printed on a machine with an H100.

Recorded on 2026-11-26 with `bench/gpu/one_gpu.py`: two ranks with different host names shared one GPU. The versions
were NCCL 2.28.9, nccl-tests 2.19.6, PyTorch 2.11 and driver 580.159.04.
"""

TCP = """\
gpumpi-rank-0:1458:1458 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
gpumpi-rank-0:1458:1458 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
gpumpi-rank-0:1458:1458 [0] NCCL INFO NET/IB : No device found.
gpumpi-rank-0:1458:1458 [0] NCCL INFO NET/IB : Using [RO]; OOB lo:127.0.0.1<0>
gpumpi-rank-0:1458:1458 [0] NCCL INFO Failed to initialize NET plugin IB
gpumpi-rank-0:1458:1458 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
gpumpi-rank-0:1458:1458 [0] NCCL INFO Initialized NET plugin Socket
gpumpi-rank-0:1458:1458 [0] NCCL INFO Assigned NET plugin Socket to comm
gpumpi-rank-0:1458:1458 [0] NCCL INFO Using network Socket
gpumpi-rank-0:1458:1458 [0] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'lo'
gpumpi-rank-0:1458:1458 [0] NCCL INFO Channel 00/02 : 0 1
gpumpi-rank-0:1458:1458 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
gpumpi-rank-0:1458:1458 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
gpumpi-rank-0:1458:1458 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
gpumpi-rank-0:1458:1458 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Socket/0
gpumpi-rank-0:1458:1458 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0
"""
TABLE = """\
# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
#
# Using devices
#  Rank  0 Group  0 Pid   1458 on gpumpi-rank-0 device  0 [0000:00:06] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1459 on gpumpi-rank-1 device  0 [0000:00:06] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place          \x20
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\x20
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \x20
           8             2     float     sum      -1  4512.86    0.00    0.00       0  4513.42    0.00    0.00       0
      262144         65536     float     sum      -1  4518.85    0.06    0.06       0  4512.05    0.06    0.06       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.0110567\x20
#
# Collective test concluded: all_reduce_perf
"""
NO_PLUGIN_LOG = """\
gpumpi-rank-0:1488:1488 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
gpumpi-rank-0:1488:1488 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so

[2026-11-26 11:15:10] gpumpi-rank-0:1488:1488 [0] plugin/net.cc:379 NCCL WARN Failed to initialize any NET plugin
gpumpi-rank-0:1488:1488 [0] NCCL INFO init.cc:421 -> 5
"""
NO_PLUGIN = """\
# Using devices
#  Rank  0 Group  0 Pid   1488 on gpumpi-rank-0 device  0 [0000:00:06] NVIDIA H100 80GB HBM3
gpumpi-rank-0: Test NCCL failure common.cu:222 'invalid usage (run with NCCL_DEBUG=WARN for details) / '
 .. gpumpi-rank-0 pid 1488: Test failure common.cu:1620
 .. gpumpi-rank-0 pid 1488: Test failure common.cu:1454
"""
ILLEGAL_ADDRESS = (
    "NVRM: Xid (PCI:0000:00:06): 31, pid=3775, name=python3, channel 0x0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 "
    "GPCCLIENT_T1_8 faulted @ 0x0_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
)
"""The driver's line in the kernel log after a kernel had written to address 16."""

RAS = """NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          2            1          2        2

Communicators... (0.000s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         2         2         2   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (878eb8cd4928511c) MISMATCH
  Communicator ranks have different AllReduce operation counts
  Rank 0 has launched up to operation 6 -- GPU 0 managed by process 2988 on node 127.0.0.1
  Rank 1 has launched up to operation 5 -- GPU 0 managed by process 2989 on node 127.0.0.1

"""
"""Output of two ranks on an H100 on 2026-11-26, while rank 0 waited for rank 1 in its sixth all_reduce."""

HANG = f"""gpumpi-rank 0 R python3
Process 2988: python3 hang.py
Python v3.12.3 (/usr/bin/python3.12)

Thread 2988 (active): "MainThread"
    synchronize (torch/cuda/__init__.py:1162)
    step (hang.py:7)
    <module> (hang.py:14)
flight recorder: completed: nccl:all_reduce 5, from step (hang.py:6)
flight recorder: scheduled: nccl:all_reduce 6, from step (hang.py:6)
gpumpi-rank 1 S python3
Process 2989: python3 hang.py
Python v3.12.3 (/usr/bin/python3.12)

Thread 2989 (idle): "MainThread"
    <module> (hang.py:13)
flight recorder: completed: nccl:all_reduce 5, from step (hang.py:6)
gpumpi-nccl
{RAS}"""
"""The complete dump of the same ranks."""
