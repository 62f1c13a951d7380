"""Generated text: random sentences. The text needs no download, and every rank can generate any part of it."""

import torch

WORDS = (
    ("the scheduler", "an engineer", "the operator", "a controller"),
    (" starts", " drains", " replaces", " measures"),
    (" one node", " two jobs", " every rank", " the queue"),
    (" at night.\n", " on Monday.\n", " without a reason.\n", " before the deadline.\n"),
)
"""A sentence consists of one entry from each list."""
CHARACTERS = sorted({character for entries in WORDS for entry in entries for character in entry})

_CODES = {character: code for code, character in enumerate(CHARACTERS)}
_SHORTEST = sum(min(map(len, entries)) for entries in WORDS)


def make_batch(number: int, length: int, seed: int) -> torch.Tensor:
    """Return random parts of the text: `number` rows of `length` characters. The same seed gives the same parts."""
    generator = torch.Generator().manual_seed(seed)
    return torch.tensor([_pick_random_part(length, generator) for _ in range(number)])


def _pick_random_part(length: int, generator: torch.Generator) -> list[int]:
    start = int(torch.randint(_SHORTEST, (), generator=generator))
    text = ""
    while len(text) < start + length:
        chosen = torch.randint(len(WORDS[0]), (len(WORDS),), generator=generator).tolist()
        text += "".join(entries[index] for entries, index in zip(WORDS, chosen, strict=True))
    return [_CODES[character] for character in text[start : start + length]]
