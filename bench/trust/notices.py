"""Surface: notices of compromised EC2 nodes -> the files of SSH and mpiexec on all other nodes."""

import hashlib
import io
import json
import sys
from random import Random
from typing import Any, Final

from bench.trust.inputs import draw_document_text, draw_text
from bench.trust.judge import Judge
from localcloud.processes import ROOT

sys.path.insert(0, str(ROOT / "amis" / "join"))  # the service is a program of its own

KEY: Final = "ssh-ed25519 " + "A" * 68
ROLE: Final = "AROAWORKER"
HONEST, HOSTILE = "i-honest", "i-hostile"
ADDRESSES: Final = {HONEST: "10.0.0.5", HOSTILE: "10.0.0.6"}
VALID: Final = {
    "version": 1,
    "hostname": "ip-10-0-0-6",
    "address": "10.0.0.6",
    "slots": 8,
    "idle_slots": 0,
    "host_keys": [KEY],
    "user_key": KEY,
}


class S3:
    """Bucket with one object per key."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.exceptions = type("Exceptions", (), {"ClientError": KeyError})

    def get_paginator(self, _: str) -> "S3":
        return self

    def paginate(self, **_: Any) -> list[Any]:
        return [
            {
                "Contents": [
                    {"Key": key, "ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'}
                    for key, body in self.contents.items()
                ]
            }
        ]

    def get_object(self, Key: str, **_: Any) -> Any:
        body = self.contents[Key]
        return {"Body": io.BytesIO(body), "ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'}


def draw_notice(random: Random) -> bytes:
    """Return what a compromised node may publish."""
    document: dict[str, Any] = dict(VALID)
    for _ in range(random.randrange(1, 3)):
        key = random.choice(sorted(VALID))
        match random.randrange(5):
            case 0:
                document[key] = draw_text(random)
            case 1 if isinstance(document[key], str):
                document[key] += random.choice(
                    ("\n10.0.0.5 master", "\nHost *", ' from="*"', ",master", "\r", "\x00", " x", "\u0660")
                )
            case 2 if key == "host_keys":
                document[key] = [KEY] * random.randrange(9) + [KEY + random.choice(("\n", " x", "\n* " + KEY))]
            case 3:
                document["hostname"] = random.choice(("master", "ip-10-0-0-5", "localhost", "ip-10-0-0-6\n", "x" * 64))
            case _:
                document["address"] = random.choice(
                    ("10.0.0.5", "127.0.0.1", "999.1.1.1", "10.0.0.6 ", "\u0661\u0660.0.0.6", "0.0.0.0")
                )
    text = json.dumps(document) if random.randrange(3) else draw_document_text(random, document)
    return text.encode(errors="surrogatepass") + random.choice((b"", b"", b"", b"\xff", b" " * 20_000))


def try_notices(judge: Judge, random: Random, count: int) -> None:
    from gpumpi_join import bucket, members, ssh_files
    from gpumpi_join.cluster_file import ClusterFile
    from gpumpi_join.notice import Notice

    cluster: Any = type(
        "Cluster", (ClusterFile,), {"__init__": lambda self: None, "worker_role_id": ROLE, "master_role_id": "AROAMASTER"}
    )()
    nodes = {
        name: members.Member(name, members.WORKER, address, f"ip-{address.replace('.', '-')}", (address,), "2026-01-01")
        for name, address in ADDRESSES.items()
    }
    paths = {name: bucket.build_notice_key(bucket.build_own_s3_prefix(f"{ROLE}:{name}")) for name in nodes}
    honest = Notice(
        **{
            **{key: value for key, value in VALID.items() if key != "version"},
            "hostname": "ip-10-0-0-5",
            "address": "10.0.0.5",
            "host_keys": (KEY,),
        }
    )  # type: ignore[arg-type]
    for _ in range(count):
        content = draw_notice(random)
        s3 = S3({paths[HONEST]: honest.to_json().encode(), paths[HOSTILE]: content})
        with judge.attempt():
            trusted, _ = bucket.Bucket(s3, "bucket").read_notices(cluster, nodes)
            judge.require(trusted.get(HONEST) == honest, "lost", "the honest node is not trusted")
            listed = [ssh_files.Node(name, False, notice, nodes[name].addresses) for name, notice in trusted.items()]
            judge_files(judge, content, listed)


def judge_files(judge: Judge, content: bytes, listed: list[Any]) -> None:
    """Report lines that a notice adds for other names, addresses or options than those of its own node."""
    from gpumpi_join import ssh_files

    for line in ssh_files.render_hosts(listed).splitlines():
        judge.require(line in ("10.0.0.5 ip-10-0-0-5", "10.0.0.6 ip-10-0-0-6"), "crossed", f"{content[:200]!r}: hosts {line!r}")
    for line in ssh_files.render_known_hosts(listed).splitlines():
        names = line.split(" ")[0]
        is_own = names in ("ip-10-0-0-5,10.0.0.5", "ip-10-0-0-6,10.0.0.6") and len(line.split(" ")) == 3
        judge.require(is_own, "crossed", f"{content[:200]!r}: known_hosts {line!r}")
    for line in ssh_files.render_authorized_keys(listed).splitlines():
        is_own = line.startswith(('from="10.0.0.5",no-agent-forwarding,', 'from="10.0.0.6",no-agent-forwarding,'))
        judge.require(is_own and len(line.split(" ")) == 4, "executed", f"{content[:200]!r}: authorized_keys {line!r}")
    for line in ssh_files.render_hostfile(listed).splitlines():
        judge.require(line.split(" ")[0] in ADDRESSES.values(), "crossed", f"{content[:200]!r}: hostfile {line!r}")
