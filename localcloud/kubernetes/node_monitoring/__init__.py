"""EKS's node monitoring agent on local GPU nodes, while the add-on eks-node-monitoring-agent is installed.

    part.py     runs node-problem-detector (localcloud/tools/node-problem-detector) on each real node with GPUs
    rules.py    maps lines of the node's kernel log to conditions and reasons (pure)

The agent on AWS gets Xids from DCGM. Here they come from the node's kernel log (nodes/kernel_log.py), to which the
driver also writes them. Conditions of other systems, such as NetworkingReady, are not reported, and nodes without GPUs
have no conditions from the agent.
"""
