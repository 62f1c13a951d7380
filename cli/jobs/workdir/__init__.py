"""Copy a folder from this machine to a job, and delete the copy together with the job."""
