"""Emulator of EKS's node monitoring agent. The emulator runs on local GPU nodes while the add-on eks-node-monitoring-agent is
installed.

    part.py     runs node-problem-detector (localcloud/tools/node-problem-detector) on each real node with GPUs
    rules.py    maps lines of the node's kernel log to conditions and reasons (pure)

On AWS, the agent reads Xids from DCGM. The emulator reads Xids from the node's kernel log (nodes/kernel_log.py), to
which NVIDIA's driver also writes them. The emulator does not report conditions of other systems, such as
NetworkingReady. Nodes without GPUs have no conditions from the agent.
"""
