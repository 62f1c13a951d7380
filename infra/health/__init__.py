"""What faults of nodes mean: which component acts, and how often it may. Pure.

xids.py      NVIDIA's Xids
faults.py    node conditions of EKS's node monitoring agent -> one owner and one action
brake.py     how many nodes may be taken out of service within a window
"""
