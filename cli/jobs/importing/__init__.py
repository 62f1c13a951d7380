"""`import`: turn jobs of other systems into job files, and list everything that could not be converted."""
