# AMI for EC2 clusters (without Kubernetes), based on AWS's Deep Learning Base GPU AMI, which has the driver, fabric
# manager, CUDA, NCCL, EFA, aws-ofi-nccl, Open MPI 5 and the SSM agent. The build checks these components and adds
# what is missing.
#   packer init amis
#   packer build -only 'ec2.*' amis

variable "base" {
  type        = string
  description = "System of the base AMI: ubuntu-24.04, ubuntu-22.04 or amazon-linux-2023. chainermn needs ubuntu-22.04."
  default     = "ubuntu-24.04"
  validation {
    condition     = contains(["ubuntu-24.04", "ubuntu-22.04", "amazon-linux-2023"], var.base)
    error_message = "Set base to ubuntu-24.04, ubuntu-22.04 or amazon-linux-2023."
  }
}

variable "base_ami_name" {
  type        = string
  description = "Exact name of the base AMI. Empty: the release that versions.pkrvars.hcl pins."
  default     = ""
}

variable "base_user" {
  type        = string
  description = "SSH user of the base AMI. Empty: ubuntu, or ec2-user on Amazon Linux."
  default     = ""
}

locals {
  dlami     = var.base_ami_name != "" ? var.base_ami_name : local.versions["dlami_${replace(replace(var.base, "-", "_"), ".", "_")}"]
  is_ubuntu = var.base != "amazon-linux-2023"
  base_user = var.base_user != "" ? var.base_user : local.is_ubuntu ? "ubuntu" : "ec2-user"

  # The base AMI's user has UID 1000, which the job user needs on file systems shared between clusters. usermod cannot
  # change a user who is logged in, as Packer is, so cloud-init moves the user before SSH starts. Where cloud-init
  # creates the user itself, `user` sets the UID.
  admin_uid = 1900
  move_user = "if id $0; then usermod --uid $1 $0; groupmod --gid $1 $0; chgrp --recursive $0 /home/$0; fi"
  user_data = {
    user    = { uid = local.admin_uid }
    bootcmd = [["cloud-init-per", "once", "gpumpi-move-user", "sh", "-c", local.move_user, local.base_user, "${local.admin_uid}"]]
  }

  ec2_provisioners = [
    "check-driver",
    "check-fabric-manager",
    "check-efa",
    "check-ofi-nccl",
    "check-nccl",
    "hold-driver",
    "install-python",
    "install-cuda-headers",
    "select-openmpi",
    "install-gdrcopy",
    "install-mpi4py",
    "install-frameworks",
    "configure-limits",
    "install-efs-utils",
    "install-lustre-client",
    "create-user",
    "configure-node-ssh",
    "install-join-service",
    "configure-mpi-hosts",
    "install-first-boot-check",
  ]
}

source "amazon-ebs" "dlami" {
  region              = var.region
  custom_endpoint_ec2 = var.custom_endpoint
  instance_type       = var.instance_type
  subnet_id           = var.subnet_id
  shutdown_behavior   = "terminate"
  user_data           = "#cloud-config\n${jsonencode(local.user_data)}\n"

  source_ami_filter {
    owners      = ["898082745236"]
    most_recent = true
    filters = {
      name                = local.dlami
      architecture        = "x86_64"
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
  }

  communicator            = "ssh"
  ssh_username            = local.base_user
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
    device_name           = local.is_ubuntu ? "/dev/sda1" : "/dev/xvda"
    volume_type           = "gp3"
    volume_size           = var.volume_gib
    delete_on_termination = true
  }

  ami_name           = "gpumpi-ec2-openmpi${var.openmpi}-${local.stamp}"
  ami_description    = "EC2 clusters: Open MPI ${var.openmpi}, CUDA-aware, on ${var.base}"
  imds_support       = "v2.0"
  encrypt_boot       = true
  kms_key_id         = local.kms_key
  ami_users          = var.share_with
  ami_regions        = keys(var.copy_to)
  region_kms_key_ids = var.copy_to
  tags               = merge(local.tags, { "gpumpi:ami" = "ec2" })
  snapshot_tags      = merge(local.tags, { "gpumpi:ami" = "ec2" })
  run_tags           = { Name = "gpumpi-ec2-ami-build" }
  run_volume_tags    = { Name = "gpumpi-ec2-ami-build" }
}

build {
  name    = "ec2"
  sources = ["amazon-ebs.dlami"]

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
    environment_vars = concat(local.settings, ["NODE_KIND=ec2", "SOURCE_IMAGE=${build.SourceAMIName}"])
    inline = [
      "set -e; cd /tmp/amis/provisioners; chmod +x *.sh",
      "./run-provisioners.sh ${join(" ", formatlist("%s.sh", local.ec2_provisioners))}",
      "./validate-node.sh",
      "./write-manifest.sh",
    ]
  }
  provisioner "file" {
    direction   = "download"
    source      = "/etc/gpumpi/manifest.json"
    destination = "${var.output}/ec2-openmpi${var.openmpi}.json"
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
    output     = "${var.output}/ec2-openmpi${var.openmpi}.amis.json"
    strip_path = true
  }
}
