# Run a command only in the first pod of a job. The other pods continue at once, and wait for the first pod later.
set -eu
[ "$JOB_COMPLETION_INDEX" = 0 ] || exit 0
exec "$@"
