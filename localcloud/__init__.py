"""The local cloud: an emulation of AWS, EKS and EC2 hosts on one machine. `infra/` does not depend on it."""
