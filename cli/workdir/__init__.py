"""Send a folder on this machine to a job, and remove it with the job."""
