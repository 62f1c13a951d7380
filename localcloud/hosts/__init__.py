"""Local hosts: EC2 instances as containers with their own root, systemd, SSH server and metadata service."""
