"""Make all decisions: turn settings and facts into specs for the components. Pure."""
