"""Measure the time from a fault during a job to the job's next step."""
