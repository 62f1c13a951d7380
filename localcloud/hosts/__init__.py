"""Local hosts: instances of the local AWS as machines with an own root, systemd, SSH server and metadata service."""
