"""One file per component, one component per box in the README's diagram. Components do not read settings or facts."""
