"""One test case per resource type: all its properties, and the effect of changing each of them."""
