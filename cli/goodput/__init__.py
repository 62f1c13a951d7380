"""`goodput`: where the time of jobs went."""
