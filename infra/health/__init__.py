"""What faults of nodes mean, and what follows from them. Pure, and only Python's standard library: the job controller runs
these modules in its pod.

xids.py         NVIDIA's Xids
faults.py       node conditions of EKS's node monitoring agent -> one owner and one action
brake.py        how many nodes may be taken out of service within a window
annotation.py   what the annotation of a node that is out of service says
cordons.py      which nodes to take out of service
repairs.py      from repair to verification, and back into service
journal.py      what happened to nodes, also to those that are gone
healing.py      all of it in one look: what to write, then what to change
"""
