"""What may be wrong with a stack, by what it is about: each row is one mistake and the whole sentence it gets."""
