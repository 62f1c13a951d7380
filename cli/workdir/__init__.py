"""Sends a folder of this machine to a job, and removes it with the job."""
