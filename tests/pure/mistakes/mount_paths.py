"""Mount paths that would hide something that nodes or pods need, each with the full problem without its path."""

PLAIN = "is not an absolute path made of letters, digits and . _ -"
SYSTEM = "is a system directory"
PROGRAMS = "would hide programs of the AMI or image, such as Open MPI"
HOME = "would hide the home directory /home/"
KEYS = "would hide the SSH configuration in /home/"

REFUSED: list[tuple[str, str]] = [
    *((path, f"{HOME}mpiuser") for path in ("/home", "/home/", "/home/mpiuser", "/home/mpiuser/")),
    *(("/home/ubuntu", f"{HOME}ubuntu"), ("/home/ec2-user", f"{HOME}ec2-user"), ("/home/ssm-user", f"{HOME}ssm-user")),
    *((path, f"{KEYS}mpiuser") for path in ("/home/mpiuser/.ssh", "/home/mpiuser/.ssh/more", "/home/mpiuser/.sshd_config")),
    *((path, PROGRAMS) for path in ("/opt", "/opt/", "/opt/amazon", "/opt/amazon/openmpi5/lib64", "/opt/aws", "/opt/mpi")),
    *(
        (path, PROGRAMS)
        for path in ("/opt/gpumpi/join", "/opt/openmpi-4.1.8", "/opt/cuda-headers", "/opt/venv", "/opt/dlami/nvme")
    ),
    *((path, SYSTEM) for path in ("/lib", "/lib32", "/lib64", "/libx32", "/lib32/x", "/bin", "/sbin", "/usr", "/usr/local")),
    *((path, SYSTEM) for path in ("/etc", "/etc/ssh", "/boot", "/proc", "/sys", "/dev", "/dev/shm", "/run", "/snap", "/root")),
    *((path, SYSTEM) for path in ("/var", "/var/lib", "/var/lib/kubelet/pods", "/var/lib/gpumpi", "/tmp", "/tmp/shared", "/")),
    *((path, PLAIN) for path in ("//home", "/home/../home", "/home/./mpiuser", "/data//home", "/.", "/..", "home", "/data\n")),
    *((path, "is used by the pods of jobs") for path in ("/gpumpi", "/gpumpi/workdir", "/keys")),
]
ACCEPTED = (
    *("/shared", "/fsx", "/data", "/mnt", "/mnt/efs", "/srv", "/srv/data", "/media/efs", "/efs/home", "/homes", "/library"),
    *("/home/shared", "/home/mpiuser2", "/home/mpiuser/data", "/opt/shared", "/opt/models", "/optional", "/usr2"),
)
