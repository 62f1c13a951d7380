"""`scripts/cluster plan`: what `pulumi up` will do, whether AWS allows it, and what it costs."""
