"""The join service: nodes of an EC2 cluster find each other and trust each other's SSH keys, without a shared private key.

Each node creates its own keys and publishes the public halves in the key bucket, under its own identity; the bucket policy
lets nobody else write there. It trusts the keys of the nodes that AWS reports as cluster members, and writes
authorized_keys, known_hosts and the hostfile. It needs only what the AMI has: Python 3.10 and boto3.
"""
