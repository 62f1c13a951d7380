# If the image can never run the job, exit with EX_CONFIG of sysexits.h. `submit` and `status` print the reason.
refuse() {
  printf '%s\n' "$*; docs/guides/images.md lists what an image must have" | tee /dev/termination-log >&2
  exit 78
}
