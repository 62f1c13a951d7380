"""`import`: turn jobs of other systems into job files, and name everything that could not be kept."""
