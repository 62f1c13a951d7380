"""Local hosts: EC2 instances as containers with their own root file system, systemd, SSH server and IMDS."""
