# Run a command only in the first pod of a job. The other pods continue at once, and wait for the first pod later.
set -u
[ "$JOB_COMPLETION_INDEX" = 0 ] || exit 0
run "$@"
exit "$code"
