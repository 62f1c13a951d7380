"""Measures the time from a fault under a running job to the job's next step."""
