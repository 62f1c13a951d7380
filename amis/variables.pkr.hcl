# What both templates take. Versions and checksums are in versions.pkrvars.hcl: the provisioners read it, it is not given to Packer.

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
  description = "Where the AMI is built."
  default     = "us-west-2"
}

variable "instance_type" {
  type        = string
  description = "Of the machine that builds. It needs no GPU."
  default     = "c7i.4xlarge"
}

variable "subnet_id" {
  type        = string
  description = "Where it runs, with a way out to the internet. Empty: a default subnet."
  default     = ""
}

variable "volume_gib" {
  type        = number
  description = "Root volume of the AMI. CUDA takes 10."
  default     = 60
}

variable "openmpi" {
  type        = string
  description = "Series of Open MPI."
  default     = "4"
  validation {
    condition     = contains(["4", "5"], var.openmpi)
    error_message = "There is Open MPI 4 (4.1.x) and 5 (5.0.x)."
  }
}

variable "openmpi_origin" {
  type        = string
  description = "Where its source comes from."
  default     = "upstream"
  validation {
    condition     = contains(["upstream", "debian"], var.openmpi_origin)
    error_message = "Sources come from upstream, or from debian where that cannot be reached."
  }
}

variable "openmpi_flags" {
  type        = string
  description = "More options for its configure, separated by spaces."
  default     = "CFLAGS=-O2"
}

variable "debian_mirror" {
  type        = string
  description = "Debian's archive, for openmpi_origin debian."
  default     = "https://deb.debian.org/debian"
}

variable "frameworks" {
  type        = list(string)
  description = "Sets of Python packages to install: names of files in frameworks/, without .txt."
  default     = []
}

variable "skip" {
  type        = map(string)
  description = "Provisioners that are not to run, by name without .sh, each with the reason. The manifest keeps both."
  default     = {}
  validation {
    condition     = length([for reason in values(var.skip) : reason if trimspace(reason) == ""]) == 0
    error_message = "What is skipped needs a reason, as in skip={\"install-efa\":\"no EFA in this region\"}."
  }
}

variable "cache" {
  type        = string
  description = "A folder of this machine that the build takes files from: wheels for pip, and built/, where what was compiled is kept."
  default     = "~/.cache/gpumpi/ami"
}

variable "environment" {
  type        = list(string)
  description = "NAME=value for all provisioners, e.g. https_proxy or PIP_INDEX_URL in a closed network."
  default     = []
}

variable "output" {
  type        = string
  description = "A folder of this machine for the manifests."
  default     = ".local/ami"
}

variable "kms_key_id" {
  type        = string
  description = "Key that encrypts the AMI. Empty: the account's key for EBS, with which it cannot be shared."
  default     = ""
}

variable "share_with" {
  type        = list(string)
  description = "Accounts that may launch it."
  default     = []
}

variable "copy_to" {
  type        = map(string)
  description = "Regions that it is copied to, each with the key that encrypts it there; alias/aws/ebs is the account's."
  default     = {}
}

variable "tags" {
  type        = map(string)
  description = "More tags of AMI and snapshots."
  default     = {}
}

variable "ssh_interface" {
  type        = string
  description = "The way to the machine that builds. session_manager needs no open port; others: public_ip, private_ip."
  default     = "session_manager"
}

variable "custom_endpoint" {
  type        = string
  description = "Another AWS than AWS."
  default     = ""
}

locals {
  # The agent's three needs, and nothing of the account: AmazonSSMManagedInstanceCore allows more.
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
  openmpi  = local.versions["openmpi${var.openmpi}_${var.openmpi_origin == "debian" ? "debian" : "source"}_version"]
  tags = merge(
    {
      "gpumpi:openmpi"         = var.openmpi
      "gpumpi:openmpi-version" = local.openmpi
      "gpumpi:skipped"         = join(" ", keys(var.skip))
      "gpumpi:source"          = "{{ .SourceAMIName }}"
    },
    var.tags,
  )

  # Run by a user who may become root; what the login's environment has (a proxy) stays.
  as_root = "chmod +x {{ .Path }}; sudo --preserve-env --set-home env {{ .Vars }} {{ .Path }}"

  prepare = [
    "mkdir -p /tmp/amis /tmp/cache/built",
    "if command -v cloud-init >/dev/null; then sudo cloud-init status --wait >/dev/null || true; fi",
  ]
}
