"""Messages for values with the wrong type."""

import difflib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from infra.config.secrets import detect_secret_kind

_FORMS = {
    "bool": ("true", "false"),
    "int": ("a whole number",),
    "number": ("a number",),
    "text": ("text",),
    "list": ("a list",),
    "mapping": ("a mapping",),
}


def describe_types(forms: Collection[str]) -> list[str]:
    """Return the words that messages use for the accepted types."""
    return [word for form in _FORMS if form in forms for word in _FORMS[form]]


def describe_empty_value(forms: Sequence[str], *, required: bool) -> str:
    return f"is empty. Use {join_with_or(forms)}{'' if required else ', or remove the key'}."


def describe_missing_key(key: str, example: object) -> str:
    if example is None:
        return "is missing. Add it."
    return f"is missing. Add it, for example `{key}: {example}`."


def describe_unknown_key(key: str, choices: Sequence[str]) -> str:
    settings = sorted(set(choices))
    subject = "only setting here is" if len(settings) == 1 else "settings here are"
    hint = suggest_correction(key, settings) or f". The {subject} {join_with_and(settings)}."
    return f"is not a setting{hint}"


def describe_unknown_kind(kind: object, kinds: Sequence[str]) -> str:
    if kind is None:
        return f"is missing. Use {join_with_or(kinds)}."
    return f"{format_value(kind)} is not valid. Use {join_with_or(kinds)}{suggest_correction(str(kind), kinds) or '.'}"


def describe_wrong_value(
    value: object, expected: Collection[str], choices: Sequence[object], kinds: Sequence[str], *, key: str, example: object
) -> str:
    """Describe what is wrong with a value, given the `expected` types and the allowed `choices`."""
    forms = join_with_or([*map(str, choices), *describe_types(expected)])
    if exact := _describe_wrong_quotes(value, expected, key, example):
        return exact
    if choices and isinstance(value, str | int):
        hint = suggest_correction(value, map(str, choices)) if isinstance(value, str) else ""
        return f"{format_value(value)} is not valid. Use {forms}{hint or '.'}"
    if isinstance(value, Mapping | list | tuple):
        return f"is {format_value(value)}. Use {forms}."
    like = f", like {{kind: {value}}}" if value in kinds else ""
    return f"{format_value(value)} is {_get_type_name(value)}. Use {forms}{like}."


def describe_out_of_range(value: object, bounds: Mapping[str, float]) -> str:
    """Describe a number that is outside of the bounds, which have pydantic's names."""
    if "le" in bounds:
        return f"{value} is too large. Use at most {bounds['le']}."
    if isinstance(bounds.get("gt"), float):
        return f"{value} is too small. Use more than {bounds['gt']:g}."
    return f"{value} is too small. Use at least {bounds['ge'] if 'ge' in bounds else bounds['gt'] + 1}."


def _describe_wrong_quotes(value: object, expected: Collection[str], key: str, example: object) -> str | None:
    """Describe a string that should be a number or boolean, or the reverse; return None for other errors."""
    if "text" in expected and isinstance(value, bool):
        return f"{format_value(value)} is not text. Write it in quotes: {json.dumps(format_value(value))}"
    if "text" in expected and isinstance(value, int | float):
        subject = "the version" if "version" in key.lower() else "it"
        return f"{value} is a number. Write {subject} in quotes: {json.dumps(str(value if example is None else example))}"
    if "int" in expected and isinstance(value, float):
        return f"{value} is not a whole number"
    if _is_quoted(value, expected):
        return f"{format_value(value)} is text. Write it without quotes: {value}"
    return None


def _is_quoted(value: object, expected: Collection[str]) -> bool:
    """Return whether the value would be valid without its quotes."""
    return (
        ("int" in expected and _is_number(value))
        or ("number" in expected and _is_decimal(value))
        or ("bool" in expected and value in ("true", "false"))
    )


def _is_number(value: object) -> bool:
    return isinstance(value, str) and value.isdecimal()


def _is_decimal(value: object) -> bool:
    return isinstance(value, str) and value.count(".") <= 1 and _is_number(value.replace(".", ""))


def _get_type_name(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    return "text" if isinstance(value, str) else "a number"


LONGEST_QUOTE = 60

SIMILAR, TYPO = 0.6, 0.9
"""difflib ratios. Messages suggest names with a ratio of at least SIMILAR. If the best match has a ratio of at least
TYPO, they suggest only that match."""


def format_value(value: object) -> str:
    """Format a value for a message. Long strings are shortened, and secrets are never shown."""
    if isinstance(value, str):
        if detect_secret_kind(value):
            return "a secret"
        text = value if len(value) <= LONGEST_QUOTE else value[: LONGEST_QUOTE - 3] + "..."
        return json.dumps(text, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return json.dumps(value)


def join_with_or(choices: Iterable[str]) -> str:
    """Join with `or`: `a`, `a or b`, `a, b or c`."""
    return _join_choices(choices, "or")


def join_with_and(choices: Iterable[str]) -> str:
    """Join with `and`: `a`, `a and b`, `a, b and c`."""
    return _join_choices(choices, "and")


def _join_choices(choices: Iterable[str], last: str) -> str:
    words = list(choices) or ["none"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def suggest_correction(word: str, choices: Iterable[str], most: int = 1) -> str:
    """Return `. Did you mean x?`, or an empty string if no choice is similar."""
    near = find_similar(word, choices, most)
    return f". Did you mean {join_with_or(near)}?" if near else ""


def find_similar(word: str, choices: Iterable[str], most: int = 1) -> list[str]:
    """Return the choices most similar to the word, best first; if the word looks like a typo, only the best one."""
    by_lower = {choice.lower(): choice for choice in sorted(choices, reverse=True)}
    slips = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=TYPO)
    like = slips or difflib.get_close_matches(word.lower(), list(by_lower), n=most, cutoff=SIMILAR)
    return [by_lower[lower] for lower in like]
