"""Turn settings and facts into specs for the components: all decisions are made here. Performs no I/O."""
