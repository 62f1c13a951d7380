"""A layer contains exactly the changes to a root file system; the same content gives the same image, byte for byte."""

import json
import os
import tarfile
from pathlib import Path

import pytest

from localcloud.images import layers
from localcloud.images.archive import get_blob_path, list_layer_paths, read_manifest_digest, write_layout
from tests.images.conftest import needs_root


@pytest.fixture
def root_folder(tmp_path: Path) -> Path:
    """A root file system with files of every type."""
    root = tmp_path / "system"
    for folder in ("etc", "usr/bin", "var/log", "dev", "run/sshd", "home/user"):
        (root / folder).mkdir(parents=True)
    (root / "etc/passwd").write_text("root")
    (root / "usr/bin/program").write_text("#!/bin/sh\n")
    (root / "usr/bin/program").chmod(0o755)
    (root / "usr/bin/link").symlink_to("program")
    os.link(root / "usr/bin/program", root / "usr/bin/other-name")
    (root / "var/log/dpkg.log").write_text("today")
    (root / "dev/null").write_text("")
    return root


def list_names(layer: Path) -> set[str]:
    with tarfile.open(layer) as archive:
        return set(archive.getnames())


def create_layer(root: Path, target: Path, *commands: str) -> Path:
    """Run shell commands in a root file system and return a layer with their changes."""
    before = layers.take_snapshot(root)
    for command in commands:
        assert os.system(f"cd {root} && {command}") == 0
    layers.write_difference(root, before, target)
    return target


def test_a_layer_of_a_whole_root_omits_device_files_and_logs(root_folder: Path, tmp_path: Path) -> None:
    layers.write_difference(root_folder, {}, tmp_path / "layer.tar")
    members = list_names(tmp_path / "layer.tar")
    assert {"etc/passwd", "usr/bin/program", "usr/bin/link", "run/sshd", "var/log", "dev"} <= members
    assert not members & {"var/log/dpkg.log", "dev/null"}


def test_a_layer_contains_only_changed_files(root_folder: Path, tmp_path: Path) -> None:
    layer = create_layer(
        root_folder, tmp_path / "layer.tar", "echo more >> etc/passwd", "mkdir opt", "touch opt/new", "touch var/log/apt.log"
    )
    assert list_names(layer) == {"etc/passwd", "opt", "opt/new"}


def test_a_removed_folder_has_a_single_whiteout_entry(root_folder: Path, tmp_path: Path) -> None:
    assert list_names(create_layer(root_folder, tmp_path / "layer.tar", "rm -r usr", "rm etc/passwd")) == {
        ".wh.usr",
        "etc/.wh.passwd",
    }


def test_a_folder_replaced_by_a_symlink_needs_no_whiteouts_for_its_files(root_folder: Path, tmp_path: Path) -> None:
    assert list_names(create_layer(root_folder, tmp_path / "layer.tar", "mv usr/bin bin", "ln -s ../bin usr/bin")) >= {
        "usr/bin",
        "bin/program",
    }
    assert not any(".wh." in name for name in list_names(tmp_path / "layer.tar"))


def test_a_changed_file_mode_counts_as_a_change(root_folder: Path, tmp_path: Path) -> None:
    layer = create_layer(root_folder, tmp_path / "layer.tar", "chmod 0700 home/user", "chmod 0600 etc/passwd")
    assert list_names(layer) == {"home/user", "etc/passwd"}


@needs_root
def test_unpacking_all_layers_in_order_restores_the_root_file_system(root_folder: Path, tmp_path: Path) -> None:
    layers.write_difference(root_folder, {}, tmp_path / "0.tar")
    create_layer(root_folder, tmp_path / "1.tar", "chown 1000:1000 home/user", "rm usr/bin/link", "rm -r etc", "echo x > etc")
    create_layer(
        root_folder, tmp_path / "2.tar", "rm etc", "mkdir etc", "echo y > etc/group", "ln -sf ../home usr/bin/other-name"
    )
    again = tmp_path / "again"
    for number in range(3):
        layers.apply_layer(tmp_path / f"{number}.tar", again)
    assert sorted(layers.take_snapshot(again)) == sorted(layers.take_snapshot(root_folder))
    assert (again / "home/user").stat().st_uid == 1000
    assert (again / "etc/group").read_text() == "y\n"
    assert (again / "usr/bin/program").read_text() == "#!/bin/sh\n", "the symlink must replace only one hard link"


def test_an_upper_layer_with_files_keeps_the_owners_of_folders(root_folder: Path, tmp_path: Path) -> None:
    layers.write_files({"home/user/pi": (root_folder / "usr/bin/program", 0o755)}, tmp_path / "layer.tar")
    assert list_names(tmp_path / "layer.tar") == {"home/user/pi"}


def test_the_same_content_gives_an_identical_layer(root_folder: Path, tmp_path: Path) -> None:
    digests = set()
    for number in range(2):
        layer, layout = tmp_path / f"{number}.tar", tmp_path / f"layout-{number}"
        layers.write_difference(root_folder, {}, layer)
        write_layout(layout, [layer], {"User": "1000"}, "amd64")
        digests.add(read_manifest_digest(layout))
    assert len(digests) == 1


def test_every_blob_is_named_by_its_digest(root_folder: Path, tmp_path: Path) -> None:
    layers.write_difference(root_folder, {}, tmp_path / "layer.tar")
    write_layout(tmp_path / "layout", [tmp_path / "layer.tar"], {"User": "1000"}, "amd64")
    assert (
        os.system(
            f'cd {tmp_path}/layout/blobs/sha256 && for blob in *; do echo "$blob  $blob"; done | sha256sum --check --status'
        )
        == 0
    )
    manifest = json.loads(get_blob_path(tmp_path / "layout", read_manifest_digest(tmp_path / "layout")).read_text())
    config = json.loads(get_blob_path(tmp_path / "layout", manifest["config"]["digest"]).read_text())
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]], "layers are not compressed"
    assert (config["config"]["User"], config["os"], config["architecture"]) == ("1000", "linux", "amd64")
    (layer,) = list_layer_paths(tmp_path / "layout")
    assert layer.samefile(tmp_path / "layer.tar"), "images share layer files instead of copying them"
