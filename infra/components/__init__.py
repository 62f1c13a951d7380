"""One file = one component = one box of the README's picture. Components know neither settings nor facts."""
