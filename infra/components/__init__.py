"""One file per component, one component per box of the README's picture. Components know neither settings nor facts."""
