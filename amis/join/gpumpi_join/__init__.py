"""The join service: nodes of a plain EC2 cluster find each other and trust each other's SSH keys, without a shared private key.

Every node makes its own keys and publishes the public halves in the key bucket, below its own identity: the bucket's policy
lets nobody else write there. Every node takes the keys of those nodes that AWS itself says belong to the cluster, and writes
authorized_keys, known_hosts and the hostfile. Runs on what an AMI has: Python 3.10 and boto3.
"""
