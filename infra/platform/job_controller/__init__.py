"""Job controller: keeps the record of every job, runs `setup` before the ranks, and restarts jobs as a whole.

component.py creates the job controller in the cluster; program.py puts the files of in_pod/ into a ConfigMap.
"""
