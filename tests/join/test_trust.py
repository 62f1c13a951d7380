"""A node trusts only the SSH keys of cluster members."""

import json
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from gpumpi_join.bucket import build_notice_key
from gpumpi_join.members import parse_member
from gpumpi_join.notice import MAX_BYTES, BadNotice, Notice
from gpumpi_join.ssh_files import Node, render_authorized_keys
from hypothesis import given
from hypothesis import strategies as st

from tests.join.world import BUCKET, World, make_public_key


def test_all_nodes_trust_the_keys_of_all_members(world: World) -> None:
    master, *workers = world.start_head_node(), *world.scale(2)
    world.run_two_rounds(master, *workers)
    for host in (master, *workers):
        for other in (master, *workers):
            notice = other.service.notice
            assert notice.user_key in host.read("authorized_keys")
            assert f"{notice.hostname},{notice.address}" in host.read("known_hosts")
            assert notice.host_keys[0] in host.read("known_hosts")


def test_the_head_node_is_also_known_by_the_host_name_master(world: World) -> None:
    master, worker = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master, worker)
    assert f"{master.address} {master.service.notice.hostname} master\n" in worker.read("hosts")
    assert f"{master.service.notice.hostname},{master.address},master ssh-ed25519" in worker.read("known_hosts")


@pytest.mark.parametrize("role", ["stranger", "worker", "master"])
def test_an_instance_outside_the_group_is_not_trusted_regardless_of_its_role(world: World, role: str) -> None:
    master, worker = world.start_head_node(), *world.scale(1)
    stranger = world.start_outside_host(role)
    world.run_two_rounds(stranger, master, worker)
    for host in (master, worker):
        assert stranger.service.notice.user_key not in host.read("authorized_keys")
        assert stranger.address not in host.read("hostfile") + host.read("known_hosts") + host.read("hosts")


def test_a_node_that_claims_the_address_of_another_node_is_not_trusted(world: World) -> None:
    master, first, second = world.start_head_node(), *world.scale(2)
    first.service.notice = replace(first.service.notice, address=second.address)
    world.run_two_rounds(master, first, second)
    assert first.service.notice.user_key not in master.read("authorized_keys")
    assert second.service.notice.user_key in master.read("authorized_keys")


@pytest.mark.parametrize("claim", ["master", "localhost", "storage", "the name of another node"])
def test_a_node_that_claims_another_name_is_not_trusted(world: World, caplog: pytest.LogCaptureFixture, claim: str) -> None:
    master, first, second = world.start_head_node(), *world.scale(2)
    name = second.service.notice.hostname if claim.startswith("the name") else claim
    first.service.notice = replace(first.service.notice, hostname=name)
    world.run_two_rounds(master, first, second)
    for host in (master, second):
        assert first.service.notice.user_key not in host.read("authorized_keys")
        assert first.address not in host.read("hosts") + host.read("known_hosts") + host.read("hostfile")
        assert second.address in host.read("hosts")
    assert f"it claims host name {name}; EC2 reports ip-" in caplog.text


def test_a_trusted_node_keeps_its_name_when_it_later_claims_another_one(world: World) -> None:
    master, worker = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master, worker)
    before = master.read("hosts")
    worker.service.notice = replace(worker.service.notice, hostname="storage")
    world.run_two_rounds(worker, master)
    assert master.read("hosts") == before


def test_a_remembered_notice_with_another_name_is_not_trusted_after_a_restart(world: World) -> None:
    """An earlier version of the service stored notices without comparing their names."""
    master, worker = world.start_head_node(), *world.scale(1)
    stored = {"master": False, "notice": replace(worker.service.notice, hostname="storage").to_json()}
    master.paths.state.write_text(json.dumps({worker.instance_id: stored}))
    world.restart(master).step()
    assert worker.address not in master.read("hosts")


def test_a_key_is_accepted_only_from_the_addresses_of_its_node(world: World) -> None:
    master, worker = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master, worker)
    for host in (master, worker):
        lines = host.read("authorized_keys").splitlines()
        assert [line.split(",")[0] for line in lines] == [f'from="{node.address}"' for node in (master, worker)]


def test_a_node_with_several_interfaces_may_connect_from_each_of_them() -> None:
    """Linux may send from the address of any interface in the subnet, for example of an EFA interface."""
    described = {
        "InstanceId": "i-1",
        "LaunchTime": "now",
        "PrivateIpAddress": "10.0.0.5",
        "PrivateDnsName": "ip-10-0-0-5.us-west-2.compute.internal",
        "NetworkInterfaces": [
            {"PrivateIpAddresses": [{"PrivateIpAddress": "10.0.0.5"}]},
            {"PrivateIpAddresses": [{"PrivateIpAddress": "10.0.0.6"}, {"PrivateIpAddress": "10.0.0.7"}]},
            {},  # an EFA-only interface has no address
        ],
    }
    member = parse_member(described, "worker")
    assert member is not None and member.hostname == "ip-10-0-0-5"
    lines = render_authorized_keys([Node("i-1", False, GOOD, member.addresses)])
    assert lines.startswith('from="10.0.0.5,10.0.0.6,10.0.0.7",no-agent-forwarding')


@pytest.mark.parametrize(
    "text",
    [b"[" * 16_000, b'{"a":' * 3_000, b"\xff" * 500, b"1" * 16_000],
    ids=["nested lists", "nested objects", "no text", "a long number"],
)
def test_a_notice_of_a_hostile_node_is_rejected_without_affecting_others(world: World, text: bytes) -> None:
    master, first, second = world.start_head_node(), *world.scale(2)
    first.s3.put_object(Bucket=BUCKET, Key=build_notice_key(first.folder), Body=text)
    world.run_two_rounds(second, master)
    assert second.address in master.read("hostfile")


def test_at_most_one_byte_more_than_the_limit_is_read_from_an_object(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    master, first = world.start_head_node(), *world.scale(1)
    first.s3.put_object(Bucket=BUCKET, Key=build_notice_key(first.folder), Body=b" " * (1 << 20))
    sizes: list[int | None] = []
    read = StreamingBody.read

    def record_read(self: StreamingBody, amt: int | None = None) -> bytes:
        sizes.append(amt)
        return read(self, amt)

    monkeypatch.setattr(StreamingBody, "read", record_read)
    world.run_two_rounds(master)
    assert sizes and set(sizes) == {MAX_BYTES + 1}


def test_a_node_cannot_write_the_notice_of_another_node(world: World) -> None:
    first, second = world.scale(2)
    with pytest.raises(ClientError, match="AccessDenied"):
        first.s3.put_object(Bucket=BUCKET, Key=build_notice_key(second.folder), Body=b"mine")


def test_an_instance_with_the_tags_but_not_the_role_of_the_head_node_is_not_trusted(world: World) -> None:
    """Permission to create tags is enough to copy the head node's tags, but using the head node's role requires iam:PassRole."""
    master, worker = world.start_head_node(), *world.scale(1)
    world.run_two_rounds(master, worker)
    tags = [{"Key": "gpumpi:stack", "Value": "mnist"}, {"Key": "gpumpi:role", "Value": "master"}]
    stranger = world.start_outside_host()
    world.client("ec2").create_tags(Resources=[stranger.instance_id], Tags=tags)
    world.run_two_rounds(stranger, worker)
    assert stranger.service.notice.user_key not in worker.read("authorized_keys")


@pytest.mark.mission("C", "key bucket")
def test_the_bucket_contains_only_notices_and_no_private_key(world: World) -> None:
    master, *workers = world.start_head_node(), *world.scale(2)
    world.run_two_rounds(master, *workers)
    s3 = world.client("s3")
    keys = [notice["Key"] for notice in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert sorted(keys) == sorted(build_notice_key(host.folder) for host in (master, *workers))
    for name in keys:
        assert b"PRIVATE" not in s3.get_object(Bucket=BUCKET, Key=name)["Body"].read()


GOOD = Notice("ip-10-0-0-5", "10.0.0.5", 8, 2, (make_public_key("A"),), make_public_key("b"))


def test_a_notice_survives_serialization_and_parsing() -> None:
    assert Notice.parse(GOOD.to_json().encode()) == GOOD


@pytest.mark.parametrize(
    "change",
    [
        {"user_key": f"{make_public_key('a')}\nssh-ed25519 {'A' * 68}"},
        {"user_key": f'command="sh" {make_public_key("a")}'},
        {"user_key": f"{make_public_key('a')} comment"},
        {"host_keys": []},
        {"host_keys": [f"{make_public_key('a')}\n* {make_public_key('b')}"]},
        {"hostname": "a b"},
        {"hostname": "master\n10.0.0.1 other"},
        {"address": "10.0.0.5 evil"},
        {"address": "::1"},
        {"slots": -1},
        {"slots": 10_000},
        {"slots": True},
        {"slots": "8"},
        {"version": 2},
        {"more": 1},
    ],
)
def test_a_notice_that_could_inject_lines_or_options_is_rejected(change: dict[str, object]) -> None:
    with pytest.raises(BadNotice):
        Notice.parse(json.dumps({**json.loads(GOOD.to_json()), **change}).encode())


@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_crash_the_notice_parser(text: bytes) -> None:
    with pytest.raises(BadNotice):
        Notice.parse(text)


def test_a_member_that_publishes_an_invalid_notice_does_not_affect_others(world: World) -> None:
    master, first, second = world.start_head_node(), *world.scale(2)
    world.run_two_rounds(master, second)
    first.s3.put_object(Bucket=BUCKET, Key=build_notice_key(first.folder), Body=b"[" * 20_000)
    master.service.step()
    assert second.address in master.read("hostfile")
