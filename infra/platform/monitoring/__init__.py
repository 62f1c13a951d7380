"""Prometheus, Alertmanager and exporters in the cluster.

component.py    the component
servers.py      pods of Prometheus, Alertmanager and kube-state-metrics
agents.py       pods on every node: node-exporter, and NVIDIA's DCGM exporter on nodes with GPUs
access.py       permissions, and network policies that keep job pods away from metrics
"""
