# A pod whose image can never do what is asked of it ends with EX_CONFIG of sysexits.h; `submit` and `status` tell the reason.
refuse() {
  printf '%s\n' "$*; docs/jobs.md lists what an image must have" | tee /dev/termination-log >&2
  exit 78
}
