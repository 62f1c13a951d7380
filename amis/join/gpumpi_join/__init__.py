"""The join service: nodes of an EC2 cluster find each other and trust each other's SSH keys, without a shared private key.

Each node creates its own keys and publishes the public keys in the key bucket, under its own identity. The bucket
policy does not let anyone else write there. Each node trusts the keys of the nodes that AWS reports as cluster
members, and writes authorized_keys, known_hosts and the hostfile. The service needs only Python 3.10 and boto3, which
the AMI has.
"""
