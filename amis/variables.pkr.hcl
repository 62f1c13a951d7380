# Variables of both templates. Versions and checksums are in versions.pkrvars.hcl. The provisioners source that
# file; Packer does not load it as a variable file.

packer {
  required_version = ">= 1.11.0"
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = "~> 1.3"
    }
  }
}

variable "region" {
  type        = string
  description = "Region in which Packer builds the AMI."
  default     = "us-west-2"
}

variable "instance_type" {
  type        = string
  description = "Instance type of the build instance. It needs no GPU."
  default     = "c7i.4xlarge"
  validation {
    # The family of a Graviton type has a g after its number: m7g, c8gn, g5g; GB200 is p6e.
    condition     = !can(regex("^([a-z]+[0-9]+g[a-z]*|p6e-[a-z0-9]+|a1)\\.", var.instance_type))
    error_message = "There is no arm64 recipe yet. Set instance_type to an x86_64 type such as c7i.4xlarge."
  }
}

variable "subnet_id" {
  type        = string
  description = "Subnet of the build instance, with a route to the internet. Empty: a default subnet."
  default     = ""
}

variable "volume_gib" {
  type        = number
  description = "Size of the AMI's root volume in GiB. The base on Amazon Linux needs 75."
  default     = 100
}

variable "openmpi" {
  type        = string
  description = "Open MPI series: 5 (5.0.x), or 4 (4.1.x) with openmpi_origin upstream or debian."
  default     = "5"
  validation {
    condition     = contains(["4", "5"], var.openmpi)
    error_message = "Set openmpi to 4 (4.1.x) or 5 (5.0.x)."
  }
}

variable "openmpi_origin" {
  type        = string
  description = "Where Open MPI comes from: aws (the EFA installer's), or compiled from the source at upstream or debian."
  default     = "aws"
  validation {
    condition     = contains(["aws", "upstream", "debian"], var.openmpi_origin)
    error_message = "Set openmpi_origin to aws, to upstream to compile, or to debian if open-mpi.org cannot be reached."
  }
}

variable "openmpi_flags" {
  type        = string
  description = "Additional options for Open MPI's configure, separated by spaces."
  default     = "CFLAGS=-O2"
}

variable "debian_mirror" {
  type        = string
  description = "Debian archive to use with openmpi_origin debian."
  default     = "https://deb.debian.org/debian"
}

variable "frameworks" {
  type        = list(string)
  description = "Python package sets to install: file names in frameworks/ without .txt."
  default     = []
}

variable "skip" {
  type        = map(string)
  description = "Provisioners to skip: name without .sh and the reason. The manifest records both."
  default     = {}
  validation {
    condition     = length([for reason in values(var.skip) : reason if trimspace(reason) == ""]) == 0
    error_message = "Give a reason for each skipped provisioner, as in skip={\"install-gdrcopy\":\"jobs do not use GDRCopy\"}."
  }
}

variable "cache" {
  type        = string
  description = "Local folder with files for the build: wheels for pip, and built/, which keeps compiled programs."
  default     = "~/.cache/gpumpi/ami"
}

variable "environment" {
  type        = list(string)
  description = "NAME=value for all provisioners, for example https_proxy or PIP_INDEX_URL in an air-gapped VPC."
  default     = []
}

variable "output" {
  type        = string
  description = "Local folder for the manifests."
  default     = ".local/ami"
}

variable "kms_key_id" {
  type        = string
  description = "KMS key that encrypts the AMI. Empty: the account's default EBS key, which prevents sharing."
  default     = ""
}

variable "share_with" {
  type        = list(string)
  description = "Accounts that may launch the AMI."
  default     = []
}

variable "copy_to" {
  type        = map(string)
  description = "Regions to copy the AMI to, each with the KMS key to use there; alias/aws/ebs is the account's default."
  default     = {}
}

variable "tags" {
  type        = map(string)
  description = "Additional tags for the AMI and its snapshots."
  default     = {}
}

variable "ssh_interface" {
  type        = string
  description = "How Packer reaches the build instance. session_manager needs no open port; others: public_ip, private_ip."
  default     = "session_manager"
}

variable "custom_endpoint" {
  type        = string
  description = "EC2 endpoint to use instead of AWS, for example that of a local cloud."
  default     = ""
}

locals {
  # Only the permissions that the SSM agent needs, without access to resources in the account:
  # AmazonSSMManagedInstanceCore allows more.
  agent_actions = [
    "ec2messages:*",
    "ssm:UpdateInstanceInformation",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
  ]
  cache   = pathexpand(var.cache)
  kms_key = var.kms_key_id == "" ? null : var.kms_key_id
  stamp   = formatdate("YYYYMMDD-hhmmss", timestamp())

  settings = concat(var.environment, [
    "OPENMPI_SERIES=${var.openmpi}",
    "OPENMPI_ORIGIN=${var.openmpi_origin}",
    "OPENMPI_FLAGS=${var.openmpi_flags}",
    "DEBIAN_MIRROR=${var.debian_mirror}",
    "FRAMEWORKS=${join(" ", var.frameworks)}",
    "BUILD_CACHE=/tmp/cache/built",
    "PIP_FIND_LINKS=/tmp/cache",
    "SKIP=${jsonencode(var.skip)}",
  ])
  versions = { for line in regexall("(?m)^(\\w+)=\"(.*)\"$", file("versions.pkrvars.hcl")) : line[0] => line[1] }
  openmpi_origins = {
    aws      = "the EFA installer's"
    upstream = local.versions["openmpi${var.openmpi}_source_version"]
    debian   = local.versions["openmpi${var.openmpi}_debian_version"]
  }
  tags = merge(
    {
      "gpumpi:openmpi"         = var.openmpi
      "gpumpi:openmpi-version" = local.openmpi_origins[var.openmpi_origin]
      "gpumpi:skipped"         = join(" ", keys(var.skip))
      "gpumpi:source"          = "{{ .SourceAMIName }}"
    },
    var.tags,
  )

  # The SSH user may run sudo; keep its environment, which may set a proxy.
  as_root = "chmod +x {{ .Path }}; sudo --preserve-env --set-home env {{ .Vars }} {{ .Path }}"

  prepare = [
    "mkdir -p /tmp/amis /tmp/cache/built",
    "if command -v cloud-init >/dev/null; then sudo cloud-init status --wait >/dev/null || true; fi",
  ]
}
