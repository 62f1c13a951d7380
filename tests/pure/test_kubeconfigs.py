"""Kubeconfigs are read as kubectl reads them, and no message contains one of their secrets."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.kubernetes import kubeconfigs
from infra.kubernetes.kubeconfigs import Unusable

PEM = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"


def make_kubeconfig(
    name: str, *, current: str | None = None, server: str = "", user: Any = None, **context: Any
) -> dict[str, Any]:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server or f"https://{name}.example:1"}}],
        "users": [{"name": name, "user": {"token": f"token-of-{name}"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}}],
    }
    return content if current is None else {**content, "current-context": current}


def write_kubeconfig(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


@pytest.fixture
def write_kubeconfigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that writes kubeconfigs and lists them in KUBECONFIG."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def write_all(*contents: Any) -> list[Path]:
        files = [write_kubeconfig(tmp_path / f"{index}" / "config", content) for index, content in enumerate(contents)]
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
        return files

    return write_all


def read_token(connection: kubeconfigs.ApiConnection) -> str:
    return str(connection.client.configuration.api_key["BearerToken"])


# --- several files -----------------------------------------------------------------------------------------------------


def test_first_file_with_a_current_context_determines_the_context(write_kubeconfigs: Any) -> None:
    write_kubeconfigs(make_kubeconfig("a", current="a", namespace="team"), make_kubeconfig("b", current="b"))
    connection = kubeconfigs.load_connection(None, None)
    assert (connection.context, connection.namespace, connection.server) == ("a", "team", "https://a.example:1")


@pytest.mark.parametrize("first", [None, ""], ids=["no current context", "empty current context"])
def test_files_without_a_current_context_are_skipped(write_kubeconfigs: Any, first: str | None) -> None:
    write_kubeconfigs(make_kubeconfig("a", current=first), make_kubeconfig("b", current="b"), make_kubeconfig("c", current="c"))
    assert kubeconfigs.load_connection(None, None).context == "b"


def test_current_context_may_be_defined_in_a_later_file(write_kubeconfigs: Any) -> None:
    write_kubeconfigs({"kind": "Config", "current-context": "b"}, make_kubeconfig("a"), make_kubeconfig("b"))
    assert kubeconfigs.load_connection(None, None).server == "https://b.example:1"


def test_first_definition_of_a_name_wins_without_merging(write_kubeconfigs: Any) -> None:
    first = make_kubeconfig("a", current="a")
    del first["users"][0]["user"]["token"]
    write_kubeconfigs(first, make_kubeconfig("a", server="https://other.example:1", namespace="other"))
    connection = kubeconfigs.load_connection(None, None)
    assert (connection.server, connection.namespace) == ("https://a.example:1", None)
    assert not connection.has_credentials


def test_every_context_of_every_file_can_be_selected(write_kubeconfigs: Any) -> None:
    write_kubeconfigs(make_kubeconfig("a", current="a"), make_kubeconfig("b", current="b"))
    assert read_token(kubeconfigs.load_connection(None, "b")) == "Bearer token-of-b"
    assert kubeconfigs.list_contexts(None) == (["a", "b"], "a")


def test_context_may_use_cluster_and_user_from_other_files(write_kubeconfigs: Any) -> None:
    parts = make_kubeconfig("a", current="a")
    write_kubeconfigs(*({key: value, "kind": "Config"} for key, value in parts.items() if key not in ("apiVersion", "kind")))
    assert read_token(kubeconfigs.load_connection(None, None)) == "Bearer token-of-a"


def test_missing_files_and_empty_entries_are_skipped(
    write_kubeconfigs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = write_kubeconfigs(make_kubeconfig("a", current="a"))
    for value in (f"::{tmp_path}/none:{file}:", f"{file}/below-a-file:{file}", f"{file}:{file}"):
        monkeypatch.setenv("KUBECONFIG", value)
        assert kubeconfigs.load_connection(None, None).context == "a"


def test_error_lists_all_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", "/none/a::/none/b")
    with pytest.raises(Unusable, match=r"^the kubeconfigs /none/a and /none/b do not exist. Set --kubeconfig or KUBECONFIG"):
        kubeconfigs.load_connection(None, None)
    monkeypatch.setenv("KUBECONFIG", "")
    with pytest.raises(Unusable, match=f"^the kubeconfig {tmp_path}/.kube/config does not exist"):
        kubeconfigs.load_connection(None, None)


def test_an_unreadable_file_is_not_skipped(write_kubeconfigs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = write_kubeconfigs(make_kubeconfig("a", current="a"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}:{file}")
    with pytest.raises(Unusable, match=f"^{tmp_path} cannot be read: Is a directory"):
        kubeconfigs.load_connection(None, None)


def test_paths_are_relative_to_the_file_that_contains_them(write_kubeconfigs: Any, tmp_path: Path) -> None:
    first, second = make_kubeconfig("a", current="a"), make_kubeconfig("b")
    first["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    first["contexts"][0]["context"]["user"] = "b"
    second["users"][0]["user"] = {"client-certificate": "certs/b.crt", "client-key": "../keys/b.key"}
    write_kubeconfigs(first, second)
    for name in ("0/ca.crt", "1/certs/b.crt", "keys/b.key"):
        write_kubeconfig(tmp_path / name, PEM)
    content = kubeconfigs.kubeconfig_files.read_kubeconfigs(None).extract_context("a")
    assert content["clusters"][0]["cluster"]["certificate-authority"] == f"{tmp_path}/0/ca.crt"
    assert content["users"][0]["user"] == {
        "client-certificate": f"{tmp_path}/1/certs/b.crt",
        "client-key": f"{tmp_path}/keys/b.key",
    }


def test_exec_plugin_and_token_file_are_relative_to_their_kubeconfig(write_kubeconfigs: Any, tmp_path: Path) -> None:
    first, second, third = make_kubeconfig("a", current="a"), make_kubeconfig("b"), make_kubeconfig("c")
    first["contexts"][0]["context"]["user"] = "b"
    second["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "bin/plugin"}}
    third["users"][0]["user"] = {"tokenFile": "token"}
    write_kubeconfigs(first, second, third)
    status = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "of-plugin"}}
    write_kubeconfig(tmp_path / "1" / "bin" / "plugin", f"#!/bin/sh\necho '{json.dumps(status)}'\n").chmod(0o700)
    write_kubeconfig(tmp_path / "2" / "token", "of-file\n")
    assert read_token(kubeconfigs.load_connection(None, None)) == "Bearer of-plugin"
    assert read_token(kubeconfigs.load_connection(None, "c")) == "Bearer of-file"


def test_pulumi_gets_the_file_that_defines_the_context(write_kubeconfigs: Any) -> None:
    first, second = write_kubeconfigs(make_kubeconfig("a", current="a"), make_kubeconfig("b"))
    assert [kubeconfigs.find_context_file(None, name) for name in "ab"] == [str(first), str(second)]
    with pytest.raises(Unusable, match=r"has no context \"c\""):
        kubeconfigs.find_context_file(None, "c")


def test_context_spread_over_several_files_is_refused_for_pulumi(write_kubeconfigs: Any) -> None:
    first = make_kubeconfig("a", current="a")
    first["contexts"][0]["context"]["user"] = "b"
    write_kubeconfigs(first, make_kubeconfig("b"))
    with pytest.raises(Unusable, match=r"context \"a\" uses a cluster or user of another file in KUBECONFIG"):
        kubeconfigs.find_context_file(None, "a")


# --- a proxy -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(f"{self.path} {self.headers.get('proxy-authorization')}")
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}", requests
        server.shutdown()
        thread.join()


def test_requests_go_through_the_proxy_of_the_cluster(
    tmp_path: Path, proxy: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    address, requests = proxy
    content = make_kubeconfig("a", current="a", server="http://192.0.2.1:6443")
    content["clusters"][0]["cluster"]["proxy-url"] = f"http://me:p%40ss@{address}"
    kubeconfigs.load_connection(write_kubeconfig(tmp_path / "config", content), None).call("GET", "version")
    assert requests == ["http://192.0.2.1:6443/version Basic bWU6cEBzcw=="]


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1", "127.0.0.1:1", "http://", "http://u:hunter22@x:notaport", "ftp://x"])
def test_unusable_proxy_is_refused_without_showing_its_password(tmp_path: Path, url: str) -> None:
    content = make_kubeconfig("a", current="a")
    content["clusters"][0]["cluster"]["proxy-url"] = url
    with pytest.raises(Unusable, match=r"^the proxy-url of the cluster of context \"a\" ") as raised:
        kubeconfigs.load_connection(write_kubeconfig(tmp_path / "config", content), None)
    assert "hunter22" not in str(raised.value)


# --- secrets -----------------------------------------------------------------------------------------------------------

SECRET = "VERY-SECRET-VALUE"
USERS: dict[str, Any] = {
    "OIDC without an ID token": {
        "auth-provider": {"name": "oidc", "config": {"client-secret": SECRET, "refresh-token": SECRET, "client-id": "c"}}
    },
    "OIDC with an unusable ID token": {
        "auth-provider": {"name": "oidc", "config": {"id-token": f"a.{SECRET}.c", "client-secret": SECRET}}
    },
    "a provider that is a list": {"auth-provider": [SECRET]},
    "a provider whose config is a text": {"auth-provider": {"name": "oidc", "config": SECRET}},
    "a command of gcp": {
        "auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/false", "cmd-args": f"--password {SECRET}"}}
    },
    "a token that is a list": {"token": [SECRET]},
    "a password that is a mapping": {"username": "me", "password": {"x": SECRET}},
    "a password that is a number": {"username": "me", "password": 7},
    "a key that is not base64": {"client-certificate-data": "MA==", "client-key-data": SECRET + "!"},
    "a key in place of its path": {"client-certificate-data": "MA==", "client-key": f"-----BEGIN KEY-----\n{SECRET}\n"},
    "a token in place of its path": {"tokenFile": SECRET},
    "a plugin without a version": {"exec": {"command": "x", "env": [{"name": "A", "value": SECRET}]}},
    "a plugin whose variable has no name": {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "env": [{"value": SECRET}]}
    },
    "a plugin with variables as a mapping": {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x", "env": {"A": SECRET}}
    },
    "a plugin that prints its variable": {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh",
            "args": ["-c", "echo failed with $A >&2; exit 3"],
            "env": [{"name": "A", "value": SECRET}],
        }
    },
    "a plugin that prints its option": {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh",
            "args": ["-c", "echo failed with $2 >&2; exit 3", "x", "--client-secret", SECRET],
        }
    },
    "a token with a line break": {"token": f"{SECRET}\nx"},
    "a token that is not ASCII": {"token": f"{SECRET}é"},
    "a user that is a text": SECRET,
}


@pytest.mark.parametrize("case", USERS)
def test_error_messages_contain_no_user_secrets(tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture) -> None:
    file = write_kubeconfig(tmp_path / "config", make_kubeconfig("a", current="a", user=USERS[case]))
    try:
        kubeconfigs.load_connection(file, None)
    except Unusable as error:
        assert SECRET not in str(error) and len(str(error).splitlines()) == 1
    assert SECRET not in caplog.text


def test_missing_id_token_is_named_in_the_error(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path / "config", make_kubeconfig("a", current="a", user=USERS["OIDC without an ID token"]))
    with pytest.raises(
        Unusable, match=r'^the credentials of context "a" could not be loaded: auth-provider oidc has no id-token'
    ):
        kubeconfigs.load_connection(file, None)


def test_exec_plugin_message_is_shown(tmp_path: Path) -> None:
    user = USERS["a plugin that prints its variable"]
    with pytest.raises(Unusable, match=r"process returned 3. failed with \*\*\*$"):
        kubeconfigs.load_connection(write_kubeconfig(tmp_path / "config", make_kubeconfig("a", current="a", user=user)), None)


@pytest.mark.parametrize(
    "text",
    [
        f"users: [{{name: a, user: {{password: *{SECRET}}}}}]",
        f"users:\n- name: a\n  user: {{token: {SECRET}: x: y}}\n",
        f"password: !{SECRET} x",
        f"{SECRET}",
        f"- {SECRET}",
        f"users: {SECRET}",
        f"users: [{SECRET}]",
        f"users: [{{name: [{SECRET}], user: {{}}}}]",
        f'"{SECRET}\\q": 1',
        "\x00",
        "a: [",
        "current-context: [a]",
        "kind: Pod",
        "users: [{name: a}, {name: a}]",
        f"contexts: [{{name: a, context: {{namespace: [{SECRET}]}}}}]",
    ],
)
def test_invalid_kubeconfig_is_named_without_showing_its_content(tmp_path: Path, text: str) -> None:
    file = write_kubeconfig(tmp_path / "config", text)
    with pytest.raises(Unusable, match=f"^{file} is not a usable kubeconfig: ") as raised:
        kubeconfigs.load_connection(file, None)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("cluster", [None, ["a"], {"a": 1}, 1, "b"], ids=repr)
def test_a_context_without_a_cluster_is_refused(tmp_path: Path, cluster: Any) -> None:
    content = make_kubeconfig("a", current="a")
    content["contexts"][0]["context"]["cluster"] = cluster
    with pytest.raises(Unusable, match=r'^context "a" of .* cannot be used: it'):
        kubeconfigs.load_connection(write_kubeconfig(tmp_path / "config", content), None)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(SECRET) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5) | st.just(SECRET), inner, max_size=2),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *("token", "tokenFile", "username", "password", "client-key", "client-key-data", "client-certificate"),
        *("client-certificate-data", "auth-provider", "exec"),
    ]
)
PROVIDERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["oidc", "azure"]), "config": st.dictionaries(st.sampled_from(["id-token", "client-id"]), VALUES)}
)
PLUGINS = st.fixed_dictionaries(
    {"apiVersion": VALUES, "command": st.just("/nonexistent/plugin"), "args": VALUES, "env": VALUES},
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    user=st.dictionaries(FIELDS, VALUES | PROVIDERS | PLUGINS, max_size=3), cluster=st.dictionaries(FIELDS, VALUES, max_size=1)
)
def test_any_user_entry_is_loaded_or_refused_without_showing_secrets(tmp_path: Path, user: Any, cluster: Any) -> None:
    content = make_kubeconfig("a", current="a", user=user)
    content["clusters"][0]["cluster"] |= cluster
    file = write_kubeconfig(tmp_path / "config", content)
    try:
        headers: dict[str, str] = {}
        kubeconfigs.load_connection(file, None).client.update_params_for_auth(headers, [], ["BearerToken"])
        assert all(value.isprintable() for value in headers.values())
    except Unusable as error:
        assert SECRET not in str(error)


@pytest.mark.parametrize("scheme", ["https://", "HTTPS://", "ftp://", ""])
def test_password_in_server_address_is_refused_and_not_shown(tmp_path: Path, scheme: str) -> None:
    file = write_kubeconfig(tmp_path / "config", make_kubeconfig("a", current="a", server=f"{scheme}me:{SECRET}@10.0.0.1"))
    with pytest.raises(Unusable, match=r"contains credentials\. Move them to its user") as raised:
        kubeconfigs.load_connection(file, None)
    assert SECRET not in str(raised.value)
