"""One file per component, and one component per box in the README's diagram. Components do not read settings or facts."""
