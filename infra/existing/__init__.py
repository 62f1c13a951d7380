"""A Kubernetes cluster that is there already, on premises or anywhere: `target: {kind: existing}`. Nothing here asks AWS."""
