# Send the copy of the output that log.sh makes to CloudWatch Logs. Credentials in the job's env are for the job, not for its log.
if command -v python3 > /dev/null; then
  rm -f "$GPUMPI_LOG"
  mkfifo "$GPUMPI_LOG"
  (
    trap '' TERM INT
    unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE
    exec python3 /tmp/send-log.py < "$GPUMPI_LOG"
  ) &
  sender=$!
else
  echo 'gpumpi: this log is not kept: the image has no python3, which platform.jobLogs needs' >&2
  GPUMPI_LOG=
fi
