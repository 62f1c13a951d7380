"""Detect secrets in plain text. Stack files that contain a secret are rejected, and messages never quote secrets."""

import re
from collections.abc import Iterator, Mapping

from infra.config.problems import Problem, format_path

_IN_ENV = "revoke it, put a new one into a Kubernetes Secret, and reference it in secretEnv"

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY")),
    # Private key without its header line: OpenSSH's format, or PKCS #1 and #8
    ("a private key", re.compile(r"b3BlbnNzaC1rZXkt|\A\s*(?:MII[A-Za-z0-9+/]{60}|MC4CAQAwBQYDK2Vw|MHcCAQEEI|MIG[A-Za-z0-9]AgE)")),
    ("a URL with a password", re.compile(r"\b[a-z][a-z0-9+.-]*://[^/\s:@]*:(?!\$)[^/\s@]+@", re.IGNORECASE)),
    ("an AWS access key", re.compile(r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z2-7]{16}(?![A-Z0-9])")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})")),
    ("a GitLab token", re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}")),
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}")),
    ("a Slack token", re.compile(r"\bxox[abeprs]-[A-Za-z0-9-]{10,}")),
    ("a Pulumi token", re.compile(r"\bpul-[a-f0-9]{40}\b")),
    ("a Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}\b")),
    ("an API key", re.compile(r"\bsk-[A-Za-z0-9_-]{20,}")),
    ("a signed token", re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.")),
)

# AWS secret access keys are 40 characters of base64. Unlike these keys, hexadecimal hashes are not in mixed case.
_AWS_SECRET = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9/+]{40}")

_SECRET_WORD = re.compile(r"(?:^|-)(?:secret|token|pwd)$|(?<!by)(?<!com)(?<!sur)pass(?!ed|es|ing|ive|age|enger|thr|ion)")
_SECRET_COMPOUND = re.compile(r"(?:secretkey|secretaccesskey|privatekey|apikey)$")
_KEY_OF = re.compile(r"-key$")
_HARMLESS_KEY_OF = re.compile(r"(?:^|-)(?:public|primary|foreign|partition|sort|cache|group|dict|json|state|topology)-key$")
_SETTING = re.compile(r"true|false|yes|no|on|off|[0-9]{1,3}|[0-9]*\.[0-9]+", re.IGNORECASE)


def detect_secret_kind(text: str) -> str | None:
    """Return the kind of secret that the text contains; None if it looks harmless."""
    for kind, pattern in _KINDS:
        if pattern.search(text):
            return kind
    if _AWS_SECRET.fullmatch(text.strip()):
        return "an AWS secret key"
    return None


def is_secret_key(key: str, value: str) -> bool:
    """Return whether the key implies a secret: `HF_TOKEN`, `*_KEY`, `*PASS*`, `*_PWD`.

    Flags, numbers with up to three digits, and decimal fractions are never secrets.
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_.]", "-", key).lower()
    if _SETTING.fullmatch(value.strip()):
        return False
    if _SECRET_WORD.search(words) or _SECRET_COMPOUND.search(words.replace("-", "")):
        return True
    return bool(_KEY_OF.search(words) and not _HARMLESS_KEY_OF.search(words))


def find_secrets(values: object, path: tuple[str | int, ...] = (), remedy: str = "remove it and revoke it") -> Iterator[Problem]:
    """Yield a problem for every plain-text secret in the values."""
    for location, value in _iterate_leaves(values, path):
        if not isinstance(value, str) or not value:
            continue
        kind = detect_secret_kind(value)
        if kind is None and isinstance(location[-1], str) and is_secret_key(location[-1], value):
            kind = "a secret (judging by the key's name)"
        if kind:
            fix = _IN_ENV if len(location) > 1 and location[-2] == "env" else remedy
            yield Problem(
                format_path(location), f"holds {kind} in plain text, and everyone who can read the file can see it; {fix}"
            )


def _iterate_leaves(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _iterate_leaves(inner, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _iterate_leaves(inner, (*path, index))
    elif path:
        yield path, value
