"""Node faults and the actions that they require. The modules contain pure functions and import only Python's standard
library, because the job controller runs them in its pod.

documents.py    checks of JSON documents that users or nodes can write
xids.py         NVIDIA's Xids
faults.py       node conditions of EKS's node monitoring agent -> one owner and one action
brake.py        how many nodes may be taken out of service within a window
annotation.py   the annotation of a node that is out of service
cordons.py      which nodes to take out of service
repairs.py      from repair to verification, and back into service
journal.py      history of nodes that were taken out of service, including deleted ones
healing.py      one pass over all nodes: what to record, then what to change
"""
