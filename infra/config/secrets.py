"""What a secret looks like in plain text. Pure; used to refuse secrets in stack files and never to print one."""

import re

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY")),
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

# The whole value is 40 characters of base64: the form of an AWS secret access key. A hash has no upper case.
_AWS_SECRET = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9/+]{40}")

_SECRET_WORD = re.compile(r"(?:^|-)(?:password|passwd|secret|token)$")
_SECRET_COMPOUND = re.compile(r"(?:secretkey|secretaccesskey|privatekey|apikey)$")


def kind_of_secret(text: str) -> str | None:
    """What sort of secret the text holds, in words; None when it looks harmless."""
    for kind, pattern in _KINDS:
        if pattern.search(text):
            return kind
    if _AWS_SECRET.fullmatch(text.strip()):
        return "an AWS secret key"
    return None


def names_a_secret(key: str) -> bool:
    """Whether a value under this key would be a secret whatever it looks like."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_.]", "-", key).lower()
    return bool(_SECRET_WORD.search(words) or _SECRET_COMPOUND.search(words.replace("-", "")))
