# Print the step that a rank writes to a file: the last number in it, as soon as it changes. The file may be left over
# from an earlier attempt, so its first content does not count. With torchrun, only the pod of rank 0 prints.
if [ "${JOB_COMPLETION_INDEX:-0}" = 0 ]; then
  (
    trap 'exit 0' TERM INT
    step_in_file() {
      awk '{ while (match($0, /[0-9]+/)) { step = substr($0, RSTART, RLENGTH); $0 = substr($0, RSTART + RLENGTH) } }
        END { print step }' "$GPUMPI_PROGRESS_FILE" 2> /dev/null
    }
    known=$(step_in_file)
    while sleep 2; do
      step=$(step_in_file)
      if [ -n "$step" ] && [ "$step" != "$known" ]; then
        echo "gpumpi-progress step=$step"
        known=$step
      fi
    done
  ) &
fi
