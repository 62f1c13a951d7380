"""The sampling script finds only prose and draws the same sentences for the same seed."""

import ast
from textwrap import dedent

import pytest

from tests.docs import sample_sentences
from tests.docs.sample_sentences import COUNT, GENERATED, Sentence, draw_sentences, extract_sentences, read_all_sentences

PYTHON = dedent(
    '''
    """The first sentence of the module.

    A second one, over
    two lines. And a third one here.

        an indented example is not a sentence
    """

    LIMIT = 3  # a comment with enough words
    """This text documents the constant above."""
    NAME = "not-a-sentence"
    PATTERN = "[a-z]+ (?:x|y)* {0} %s \\n"


    def refuse(path: str) -> str:
        # A comment
        # on two lines.
        return f"{path}: is not a regular file. " "Choose another file that exists."
    '''
).lstrip()


def test_sentences_are_found_in_python_docstrings_comments_and_messages() -> None:
    ast.parse(PYTHON)
    assert {(sentence.kind, sentence.line, sentence.text) for sentence in extract_sentences("cli/any.py", PYTHON)} == {
        ("docstring", 1, "The first sentence of the module."),
        ("docstring", 3, "A second one, over two lines."),
        ("docstring", 4, "And a third one here."),
        ("docstring", 10, "This text documents the constant above."),
        ("comment", 9, "a comment with enough words"),
        ("comment", 16, "A comment on two lines."),
        ("message", 18, "{path}: is not a regular file."),
        ("message", 18, "Choose another file that exists."),
    }


def test_sentences_are_found_in_paragraphs_lists_and_tables_of_a_document() -> None:
    page = dedent(
        """
        # A heading is not a sentence

        One paragraph, over
        two lines. Its second sentence here.

        - An item of a list.
          It goes on here.

        | do | which means something |
        |---|---|
        | `x` | a cell with enough words |

        ```sh
        echo this is not a sentence
        ```

        <!-- begin of the table -->
        | a generated cell with enough words |
        <!-- end of the table -->
        """
    )
    assert [(sentence.line, sentence.text) for sentence in extract_sentences("docs/any.md", page)] == [
        (4, "One paragraph, over two lines."),
        (5, "Its second sentence here."),
        (7, "An item of a list."),
        (8, "It goes on here."),
        (12, "a cell with enough words"),
    ]


def test_sentences_are_found_in_shell_script_comments() -> None:
    text = "#!/bin/sh\n# Comments over\n# two lines.\necho this is no comment\nexit 1 # because it must end here\n"
    assert [sentence.text for sentence in extract_sentences("any.sh", text)] == [
        "Comments over two lines.",
        "because it must end here",
    ]


@pytest.fixture(scope="module")
def all_sentences() -> list[Sentence]:
    return read_all_sentences()


def test_a_hundred_different_sentences_are_sampled_from_handwritten_files(all_sentences: list[Sentence]) -> None:
    drawn = draw_sentences("any seed")
    assert len(set(drawn)) == COUNT and set(drawn) <= set(all_sentences)
    assert [
        sentence for sentence in all_sentences if sentence.path.startswith(GENERATED) or sentence.path.endswith(".lock")
    ] == []
    assert {sentence.kind for sentence in all_sentences} == {"docstring", "comment", "message", "document"}


def test_the_same_seed_samples_the_same_sentences(all_sentences: list[Sentence]) -> None:
    assert draw_sentences("one") == draw_sentences("one") != draw_sentences("other")


def test_the_default_seed_is_the_commit_hash() -> None:
    assert len(sample_sentences.read_commit_hash()) == 40
