# AMI for EC2 clusters (without Kubernetes), based on Canonical's Ubuntu LTS.
#   packer init amis
#   packer build -only 'ec2.*' amis

variable "ubuntu" {
  type        = string
  description = "Ubuntu LTS release. The framework set chainermn needs the Python of 22.04."
  default     = "24.04"
}

variable "ubuntu_user" {
  type        = string
  description = "SSH user of the source image."
  default     = "ubuntu"
}

locals {
  # Ubuntu's own user would get UID 1000, which the job user needs on file systems shared between clusters.
  admin_uid = 1900

  ec2_provisioners = [
    "install-python",
    "install-nvidia-driver",
    "install-cuda-toolkit",
    "install-cuda-headers",
    "install-gdrcopy",
    "install-efa",
    "build-ucx",
    "build-openmpi",
    "install-nccl",
    "build-nccl-tests",
    "install-mpi4py",
    "install-frameworks",
    "configure-limits",
    "install-ssm-agent",
    "install-efs-utils",
    "create-user",
    "configure-node-ssh",
    "install-join-service",
    "configure-mpi-hosts",
  ]
}

source "amazon-ebs" "ubuntu" {
  region              = var.region
  custom_endpoint_ec2 = var.custom_endpoint
  instance_type       = var.instance_type
  subnet_id           = var.subnet_id
  shutdown_behavior   = "terminate"
  user_data           = "#cloud-config\nuser: {uid: ${local.admin_uid}}\n"

  source_ami_filter {
    owners      = ["099720109477"]
    most_recent = true
    filters = {
      name                = "ubuntu/images/hvm-ssd*/ubuntu-*-${var.ubuntu}-amd64-server-*"
      architecture        = "x86_64"
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
  }

  communicator            = "ssh"
  ssh_username            = var.ubuntu_user
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
    device_name           = "/dev/sda1"
    volume_type           = "gp3"
    volume_size           = var.volume_gib
    delete_on_termination = true
  }

  ami_name           = "gpumpi-ec2-openmpi${var.openmpi}-${local.stamp}"
  ami_description    = "EC2 clusters: Open MPI ${var.openmpi}, CUDA-aware, on Ubuntu ${var.ubuntu}"
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
  sources = ["amazon-ebs.ubuntu"]

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
