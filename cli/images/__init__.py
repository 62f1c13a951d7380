"""`image`: build the job images of `images/` and push them to a registry."""
