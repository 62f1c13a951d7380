"""`goodput`: how jobs spent their time."""
