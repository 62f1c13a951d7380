"""Nothing that job users, images or nodes write can control the terminal in which a user runs a verb."""

import ast
import itertools
import json
import os
import pty
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.live import Live
from rich.text import Text

from cli import console, main, output
from cli.clusters.kubernetes_access import Access
from cli.errors import CommandError
from tests.pure.test_poisoned_commands import SPECS, STATUS, Cluster, make_foreign_job, make_poisoned_record
from tests.pure.test_poisoned_objects import make_full_record

CLI = Path(__file__).parents[2] / "cli"
HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b]0;t\x1b\\\x1b[2J\x1b[8m\x08\r\x7f\x9b2J\x9d52;c;eA==\x9c\u202eevil\u2066"
SURROGATE = "\ud89b"
COLOR = re.compile(r"\x1b\[[0-9;]*m")
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

Path_ = tuple[str | int, ...]


def capture_terminal(action: Callable[[], object]) -> str:
    """Return what an action sends to a terminal that is both standard output and standard error."""
    reader, writer = pty.openpty()
    received: list[bytes] = []

    def read_until_closed() -> None:
        try:
            while data := os.read(reader, 65536):
                received.append(data)
        except OSError:  # Linux reports the end of a terminal as an error
            return

    thread = threading.Thread(target=read_until_closed)
    thread.start()
    with (
        os.fdopen(writer, "w", encoding="utf-8", closefd=True) as stdout,
        os.fdopen(os.dup(writer), "w", encoding="utf-8", errors="backslashreplace") as stderr,
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        action()
    thread.join()
    os.close(reader)
    return b"".join(received).decode().replace("\r\n", "\n")  # the terminal driver adds the carriage returns


def run_in_terminal(monkeypatch: pytest.MonkeyPatch, cluster: Any, *arguments: str) -> str:
    """Run the program with a terminal; return what the terminal receives."""
    monkeypatch.setattr(Access, "connect", lambda _: cluster)
    monkeypatch.setattr(sys, "argv", ["cluster", *arguments])
    monkeypatch.setattr(main.gc, "set_threshold", lambda _: None)
    monkeypatch.setattr(main.atexit, "register", lambda _: None)
    console.print_progress_once.cache_clear()

    def run_program() -> None:
        with pytest.raises(SystemExit):
            main.main()

    return capture_terminal(run_program)


def list_text_paths(document: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of every text in a document."""
    if isinstance(document, str):
        yield path
    elif isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from list_text_paths(value, (*path, key))


def poison(document: Any, path: Path_) -> Any:
    """Return a copy of the document with malicious text in one place."""
    if not path:
        return document + HOSTILE
    first, *rest = path
    changed = document.copy()
    changed[first] = poison(document[first], tuple(rest))
    return changed


def assert_harmless(text: str) -> None:
    assert not FORBIDDEN.search(COLOR.sub("", text)), ascii(text)
    assert "\x1b[8m" not in text


RECORD = {**make_full_record(), "name": "train"}
JOBS = {kind: make_foreign_job(kind, SPECS[kind], STATUS) for kind in SPECS}
VERBS = (["jobs", "-A", "--all"], ["goodput"], ["logs", "train", "-n", "team-a", "--hang"])
JSON_VERBS = tuple([*verb, "--json"] for verb in VERBS)


@pytest.mark.parametrize("verb", [*VERBS, *JSON_VERBS], ids=" ".join)
def test_no_text_of_a_record_controls_the_terminal(monkeypatch: pytest.MonkeyPatch, verb: list[str]) -> None:
    visible = 0
    for path in list_text_paths(RECORD):
        cluster = Cluster(make_poisoned_record(json.dumps(poison(RECORD, path))))
        shown = run_in_terminal(monkeypatch, cluster, *verb)
        assert_harmless(shown)
        if "--json" in verb:
            document = "".join(line for line in shown.splitlines(keepends=True) if not line.startswith("cluster: "))
            assert json.loads(document)
        visible += r"\x1b]52" in shown
    assert visible or "--hang" not in verb or "--json" in verb, "stacks are shown"


@pytest.mark.parametrize("kind", sorted(JOBS))
def test_no_text_of_a_foreign_job_controls_the_terminal(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    visible = 0
    for path in list_text_paths(JOBS[kind]):
        shown = run_in_terminal(monkeypatch, Cluster(**{kind: [poison(JOBS[kind], path)]}), "jobs", "-A")
        assert_harmless(shown)
        visible += r"\x1b]52" in shown
    assert visible, "some fields are shown"


def test_error_messages_do_not_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Cluster):
        def list(self, kind: str, namespace: str | None = None, selector: Any = None, **more: Any) -> list[Any]:
            raise CommandError(f"the webhook answers {HOSTILE}{SURROGATE}")

    shown = run_in_terminal(monkeypatch, Failing(), "jobs", "-A")
    assert_harmless(shown)
    assert r"\x1b]52;c;ZXZpbA==\x07" in shown and r"\u202eevil" in shown and r"\ud89b" in shown


def test_unexpected_errors_do_not_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def show_traceback() -> None:
        monkeypatch.setattr(sys, "stderr", output.wrap_stderr(sys.stderr))
        sys.excepthook(ValueError, ValueError(HOSTILE + SURROGATE), None)
        sys.stderr.flush()

    assert_harmless(capture_terminal(show_traceback))


@given(text=st.text())
@example(text=HOSTILE + SURROGATE)
def test_every_way_to_print_escapes_control_characters(text: str) -> None:
    def print_everywhere() -> None:
        sys.stdout, sys.stderr = output.wrap_stdout(sys.stdout), output.wrap_stderr(sys.stderr)
        print(text)
        console.say(text)
        console.print_json({"text": text})
        console.make_console().print(text)
        console.make_console(stderr=True).print(Text(text, "red"), style="bold")
        console.make_console().print(console.Listing("name", "reason", rows=[(text, Text(text, "green"))]))
        sys.stdout.flush()

    shown = capture_terminal(print_everywhere)
    assert_harmless(shown)


def test_rich_styles_and_live_screens_are_preserved() -> None:
    def show_live_screen() -> None:
        sys.stdout = output.wrap_stdout(sys.stdout)
        screen = console.make_console()
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            live.update(Text(f"a{HOSTILE}", "red"), refresh=True)
            print(HOSTILE)
        sys.stdout.flush()

    shown = capture_terminal(show_live_screen)
    assert "\x1b[?1049h" in shown and "\x1b[31m" in shown and r"a\x1b]52;c;" in shown
    assert not re.search("\x1b\\]|[\x07\x08\x7f-\x9f]|\x1b\\[8m", shown)


LOG_LINE = f"\x1b[31mred\x1b[0m 10%\r20%\x1b[K{HOSTILE}"


def assert_only_colors_stay(shown: str) -> None:
    assert "\x1b[31mred\x1b[0m 10%\r20%\x1b[K" in shown
    assert_harmless(re.sub("\x1b\\[[0-9;]*[mK]|\r", "", shown))


def test_log_line_keeps_colors_but_nothing_else_on_a_terminal() -> None:
    def print_line() -> None:
        sys.stdout = output.wrap_stdout(sys.stdout)
        output.print_log_line(LOG_LINE, sys.stdout)

    shown = capture_terminal(print_line)
    assert_only_colors_stay(shown)
    assert shown.endswith("\x1b[0m\n"), "a color ends with its line"


@given(cuts=st.sets(st.integers(1, 120)))
def test_remote_output_keeps_colors_wherever_its_chunks_end(cuts: set[int]) -> None:
    data = f"é{LOG_LINE}".encode(errors="surrogatepass") + b" end"
    bounds = [0, *sorted(cuts), len(data)]

    def copy_chunks() -> None:
        sys.stdout = output.wrap_stdout(sys.stdout)
        remote = output.RemoteOutput(sys.stdout)
        for start, end in itertools.pairwise(bounds):
            remote.write(data[start:end])
        remote.flush()

    shown = capture_terminal(copy_chunks)
    assert shown.startswith("é")
    assert shown.endswith(" end")
    assert_only_colors_stay(shown)


def test_files_and_pipes_get_program_output_unchanged(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w", encoding="utf-8", newline="") as file:
        stream = output.wrap_stdout(file)
        output.print_log_line(LOG_LINE, stream)
        output.RemoteOutput(stream).write(b"\x1b]0;\xff")
        stream.flush()
    assert (tmp_path / "log").read_bytes() == f"{LOG_LINE}\n".encode() + b"\x1b]0;\xff"


BYPASSES = {
    "cli/output.py: .buffer": "the filter itself; writes bytes only to files and pipes",
    "cli/output.py: open_unfiltered": "program output, after its own filter",
    "cli/console.py: open_unfiltered": "the console filters what it styles",
    "cli/console.py: Console": "make_console is the only way to get a console",
    "cli/jobs/exec.py: .buffer": "an interactive session, as in `kubectl exec -it`: its program draws the screen",
}
"""Maps a module, and a function in it that could send text to a terminal without the filter, to the reason why this
is allowed."""
PROGRAMS_WITH_OWN_OUTPUT = {
    "cli/ec2/run.py: ssh": "an interactive session: its program draws the screen",
    "cli/stacks/pulumi_program.py: _run_process": "`pulumi destroy` at the end of `acceptance --destroy` shows its own progress",
    "cli/images/builders.py: _run_builder": "`image build` shows the output of the builder that the user chose",
    "cli/clusters/acceptance/ec2_nodes.py: follow": "only ssh's own messages; the script's stderr is captured",
    "cli/demo/ec2_demo.py: copy_programs": "only the local cloud's own tar, which writes nothing to stdout",
    "cli/nodes/prepare_node.py: command": "the provisioner installs packages on the user's own machine",
}
"""Maps functions that start programs which inherit the terminal to the reason why this is allowed."""
CAPTURED = ({"capture_output"}, {"stdout", "stderr"})


def list_bypasses(tree: ast.AST) -> Iterator[str]:
    """Yield the functions used in a module that can write to a terminal without the filter."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="buffer" | "__stdout__" | "__stderr__" | "write_unfiltered" as name):
                yield f".{name}"
            case ast.Call(func=ast.Name(id="input" | "Console" | "open_unfiltered" as name)):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="write" | "writev" | "system" | "execv" as name)):
                yield f"os.{name}"
            case ast.ClassDef(bases=bases) if any(isinstance(base, ast.Name) and base.id == "Console" for base in bases):
                yield "Console"
            case ast.Constant(value="/dev/tty" | "/dev/stdout" | "/dev/stderr" as name):
                yield name


def list_own_output(tree: ast.AST) -> Iterator[str]:
    """Yield the functions that start a program without capturing both its outputs."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="subprocess"), attr="run" | "Popen" | "call" | "check_call")):
                    options = {option.arg for option in node.keywords}
                    if not any(needed <= options for needed in CAPTURED):
                        yield function.name


def find_in_cli(search: Callable[[ast.AST], Iterator[str]]) -> set[str]:
    return {
        f"{path.relative_to(CLI.parent)}: {name}"
        for path in CLI.rglob("*.py")
        for name in search(ast.parse(path.read_text(encoding="utf-8")))
    }


def test_no_module_reaches_the_terminal_without_the_filter() -> None:
    assert find_in_cli(list_bypasses) - {"cli/output.py: .write_unfiltered"} == set(BYPASSES)


def test_only_listed_programs_inherit_the_terminal() -> None:
    assert find_in_cli(list_own_output) == set(PROGRAMS_WITH_OWN_OUTPUT)


@pytest.mark.parametrize(
    "source",
    ["sys.stdout.buffer.write(b'')", "input('?')", "os.write(1, b'')", "open('/dev/tty')", "Console().print()", "sys.__stdout__"],
)
def test_architecture_test_detects_output_without_the_filter(source: str) -> None:
    assert list(list_bypasses(ast.parse(source)))
