# AMI for EKS GPU nodes with a CUDA-aware MPI on the nodes themselves, based on EKS's AL2023 NVIDIA AMI, which has the
# driver, fabric manager, container toolkit and EFA's kernel module. Jobs in containers bring their own MPI and do not
# need this AMI. EKS builds the driver's module at boot, so the build does not touch the kernel, the DKMS archives or
# the driver packages, and loads no module: nvidia-kmod-load.service must run first.
#   packer init amis
#   packer build -only 'eks.*' amis

variable "kubernetes" {
  type        = string
  description = "EKS version."
  default     = "1.35"
}

locals {
  eks_provisioners = [
    "check-driver",
    "check-fabric-manager",
    "install-efa",
    "check-efa",
    "check-ofi-nccl",
    "install-python",
    "install-cuda-headers",
    "select-openmpi",
    "install-mpi4py",
    "install-frameworks",
    "configure-limits",
    "install-first-boot-check",
  ]
}

source "amazon-ebs" "al2023" {
  region              = var.region
  custom_endpoint_ec2 = var.custom_endpoint
  instance_type       = var.instance_type
  subnet_id           = var.subnet_id
  shutdown_behavior   = "terminate"

  source_ami_filter {
    owners      = ["602401143452"]
    most_recent = true
    filters = {
      name                = "amazon-eks-node-al2023-x86_64-nvidia-${var.kubernetes}-v*"
      architecture        = "x86_64"
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
  }

  communicator            = "ssh"
  ssh_username            = "ec2-user"
  ssh_interface           = var.ssh_interface
  temporary_key_pair_type = "ed25519"
  temporary_iam_instance_profile_policy_document {
    Version = "2012-10-17"
    Statement {
      Effect   = "Allow"
      Action   = local.agent_actions
      Resource = ["*"]
    }
  }
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
  launch_block_device_mappings {
    device_name           = "/dev/xvda"
    volume_type           = "gp3"
    volume_size           = var.volume_gib
    delete_on_termination = true
  }

  ami_name           = "gpumpi-eks-${var.kubernetes}-openmpi${var.openmpi}-${local.stamp}"
  ami_description    = "EKS ${var.kubernetes} GPU nodes: Open MPI ${var.openmpi}, CUDA-aware, on Amazon Linux 2023"
  imds_support       = "v2.0"
  encrypt_boot       = true
  kms_key_id         = local.kms_key
  ami_users          = var.share_with
  ami_regions        = keys(var.copy_to)
  region_kms_key_ids = var.copy_to
  tags               = merge(local.tags, { "gpumpi:ami" = "eks" })
  snapshot_tags      = merge(local.tags, { "gpumpi:ami" = "eks" })
  run_tags           = { Name = "gpumpi-eks-ami-build" }
  run_volume_tags    = { Name = "gpumpi-eks-ami-build" }
}

build {
  name    = "eks"
  sources = ["amazon-ebs.al2023"]

  provisioner "shell" {
    inline = local.prepare
  }
  provisioner "file" {
    source      = "${path.root}/"
    destination = "/tmp/amis"
  }
  provisioner "shell-local" {
    inline = ["mkdir -p '${local.cache}/built' '${var.output}'"]
  }
  provisioner "file" {
    source      = "${local.cache}/"
    destination = "/tmp/cache"
    generated   = true
  }
  provisioner "shell" {
    execute_command  = local.as_root
    environment_vars = concat(local.settings, ["NODE_KIND=eks", "LOGIN_USER=ec2-user", "SOURCE_IMAGE=${build.SourceAMIName}"])
    inline = [
      "set -e; cd /tmp/amis/provisioners; chmod +x *.sh",
      "./run-provisioners.sh ${join(" ", formatlist("%s.sh", local.eks_provisioners))}",
      "./validate-node.sh",
      "./write-manifest.sh",
    ]
  }
  provisioner "file" {
    direction   = "download"
    source      = "/etc/gpumpi/manifest.json"
    destination = "${var.output}/eks-${var.kubernetes}-openmpi${var.openmpi}.json"
  }
  provisioner "file" {
    direction   = "download"
    source      = "/tmp/cache/built/"
    destination = "${local.cache}/"
  }
  provisioner "shell" {
    execute_command = local.as_root
    inline          = ["/tmp/amis/provisioners/clean-image.sh"]
  }

  post-processor "manifest" {
    output     = "${var.output}/eks-${var.kubernetes}-openmpi${var.openmpi}.amis.json"
    strip_path = true
  }
}
