"""A bundle is what was written, byte for byte, or it is refused with the reason."""

import errno
import itertools
import os
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import bits, make_head

from speciate import bundle as bundles
from speciate.bundle import CARD, HEAD, LARGEST_MANIFEST, MANIFEST, UNKNOWN, Bundle, is_bundle, write_bundle
from speciate.errors import BundleError, ConfigError, OutputError
from speciate.sealed import digest, seal
from speciate_schemas import Card, SupportCard, Tally
from strategies import cards, said, words

CARD_OF_TESTS = Card(
    support=SupportCard(source={"plugin": "npz"}, events=8, classes={"a": 4, "b": 4}, sha256="0" * 64),
    training=None,
    estimated={"kappa": 0.5},
    estimated_frozen={},
    policy={"alpha": 1e-2},
    versions={"numpy": "2"},
    hardware={"cpus": "2"},
    created="then",
    seconds=1.25,
)
ENCODER = {"plugin": "trainee", "gain": 2.0}


def write(path, *, encoder=ENCODER, files=None, card=CARD_OF_TESTS, plugins=None):
    return write_bundle(
        path, encoder=encoder, files=files or {}, head=make_head().state(), card=card, plugins=plugins or {}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A bundle with two files of the encoder; tests that spoil it work on copies, or mend it."""
    folder = tmp_path_factory.mktemp("bundles")
    (folder / "scale.json").write_text("2.5")
    (folder / "offset.json").write_text("[1, 2, 3]")
    write(folder / "model", files={name: folder / f"{name}.json" for name in ("scale", "offset")})
    return folder / "model"


@pytest.fixture
def model(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "model"))


def forge(path, change):
    """Change a manifest as somebody would who knows how its own hash is made."""
    tree = msgspec.json.decode((path / MANIFEST).read_bytes())
    change(tree)
    data = msgspec.json.encode({**tree, "sha256": UNKNOWN})
    (path / MANIFEST).write_bytes(data.replace(UNKNOWN.encode(), digest(data).encode(), 1))


def forge_all(path, change):
    """As `forge`, with a fingerprint that fits."""

    def changed(tree):
        change(tree)
        parts = [tree[name] for name in ("encoder", "encoder_files", "dimension", "files")]
        tree["fingerprint"] = digest(msgspec.json.encode(parts, order="deterministic"))

    forge(path, changed)


def refused(path, *fragments, kind=BundleError):
    with pytest.raises(kind) as caught:
        Bundle.load(path)
    assert all(fragment in str(caught.value) for fragment in (str(path), *fragments)), caught.value


plain = st.dictionaries(words, st.booleans() | st.integers(-(2**63), 2**63 - 1) | words | st.none(), max_size=3)


@settings(max_examples=25, deadline=None)
@given(st.none() | plain, st.dictionaries(st.sampled_from("abc"), st.binary(max_size=40)), cards, said)
def test_what_is_loaded_is_what_was_written(encoder, contents, card, plugins):
    contents = {} if encoder is None else {f"file_{name}": data for name, data in contents.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for option, data in contents.items():
            (folder / option).write_bytes(data)
        files = {option: folder / option for option in contents}
        written = write(folder / "m", encoder=encoder, files=files, card=card, plugins=plugins)
        loaded = Bundle.load(folder / "m")
        assert loaded.manifest == written
        assert (loaded.manifest.encoder, loaded.manifest.card, loaded.manifest.plugins) == (encoder, card, plugins)
        assert bits(loaded.head_state()) == bits(make_head().state())
        section = loaded.encoder_section()
        if encoder is None:
            assert section is None
        else:
            found = {option: Path(section.pop(option)).read_bytes() for option in contents}
            assert (found, section) == (contents, encoder)


def test_the_same_model_is_the_same_bytes_but_for_the_card(whole, model, tmp_path):
    files = {name: model / f"encoder-{name}.json" for name in ("scale", "offset")}
    later = msgspec.structs.replace(CARD_OF_TESTS, created="later")
    again = write(tmp_path / "again", files=files, card=later)
    assert again.fingerprint == Bundle.load(whole).manifest.fingerprint
    for name in again.files:
        assert (tmp_path / "again" / name).read_bytes() == (whole / name).read_bytes()
    assert again.card.created == "later"


def test_every_part_of_a_model_shows_in_its_fingerprint(tmp_path):
    for name, text in (("one", "1"), ("other", "2")):
        (tmp_path / name).write_text(text)
    made = [
        write(tmp_path / f"m{number}", encoder=encoder, files=files).fingerprint
        for number, (encoder, files) in enumerate(
            [
                (None, {}),
                (ENCODER, {}),
                ({**ENCODER, "gain": 3.0}, {}),
                (ENCODER, {"scale": tmp_path / "one"}),
                (ENCODER, {"scale": tmp_path / "other"}),
                (ENCODER, {"offset": tmp_path / "one"}),
            ]
        )
    ]
    assert len(set(made)) == len(made)


VERIFIED = (MANIFEST, HEAD, "encoder-scale.json", "encoder-offset.json")


def test_all_but_the_card_is_verified(whole):
    assert {path.name for path in whole.iterdir()} == {*VERIFIED, CARD}


def spoilt(whole, name, data):
    """Load a bundle in which one file has other contents; it is whole again afterwards."""
    before = (whole / name).read_bytes()
    (whole / name).write_bytes(data)
    try:
        refused(whole, name)
    finally:
        (whole / name).write_bytes(before)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(VERIFIED), st.data())
def test_no_byte_can_be_another(whole, name, data):
    content = bytearray((whole / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[place]))
    spoilt(whole, name, bytes(content))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(VERIFIED), st.data())
def test_no_byte_can_be_missing_or_too_many(whole, name, data):
    content = (whole / name).read_bytes()
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    spoilt(whole, name, cut)
    spoilt(whole, name, content + data.draw(st.binary(min_size=1, max_size=3)))


@pytest.mark.parametrize("name", VERIFIED)
def test_no_file_can_be_missing(model, name):
    (model / name).unlink()
    refused(model, name, "No such file", kind=ConfigError if name == MANIFEST else BundleError)
    (model / name).mkdir()
    refused(model, name, kind=ConfigError if name == MANIFEST else BundleError)


def test_what_never_ends_is_not_read(model):
    (model / HEAD).unlink()
    (model / HEAD).symlink_to("/dev/zero")
    refused(model, HEAD, "0 bytes instead of")


def test_a_manifest_that_never_comes_is_not_waited_for(model):
    (model / MANIFEST).unlink()
    os.mkfifo(model / MANIFEST)
    refused(model, MANIFEST, "is no file", kind=ConfigError)


def test_the_card_is_for_people_and_may_be_edited(model):
    (model / CARD).write_text("our best model so far")
    before = Bundle.load(model).manifest
    (model / CARD).unlink()
    assert Bundle.load(model).manifest == before


@pytest.mark.parametrize("key", ["encoder", "encoder_files", "dimension", "files", "fingerprint"])
def test_a_changed_manifest_is_refused_even_with_its_own_hash_put_right(model, key):
    changes = {
        "encoder": {**ENCODER, "gain": 3.0},
        "encoder_files": {"scale": "encoder-offset.json", "offset": "encoder-scale.json"},
        "dimension": 4,
        "files": {HEAD: {"bytes": 1, "sha256": "1" * 64}},
        "fingerprint": "1" * 64,
    }
    forge(model, lambda tree: tree.update({key: changes[key]}))
    refused(model, MANIFEST, "fingerprint")


@pytest.mark.parametrize("tag", ["bundle.v2", "bundle", "head.v1", 1])
def test_another_version_is_refused(model, tag):
    forge_all(model, lambda tree: tree.update(type=tag))
    refused(model, MANIFEST, "not what this version writes")


@pytest.mark.parametrize(
    "name", ["../scale.json", "/etc/passwd", "a/b", "..", ".", ".hidden", "", "a\\b", "a\0", "x" * 101, "é", "a b"]
)
@pytest.mark.parametrize("place", ["files", "encoder_files"])
def test_a_name_that_is_not_plain_is_refused(model, name, place):
    value = {"bytes": 0, "sha256": "0" * 64} if place == "files" else name
    forge_all(model, lambda tree: tree[place].update({name if place == "files" else "scale": value}))
    refused(model, MANIFEST, "not what this version writes")


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (lambda tree: tree["files"].pop(HEAD), f"no hash of {HEAD}"),
        (lambda tree: tree["files"].pop("encoder-scale.json"), "no hash of encoder-scale.json"),
        (lambda tree: tree["encoder"].update(scale="elsewhere"), "contradicts itself about the encoder's scale"),
        (lambda tree: tree.update(encoder=None), "contradicts itself about the encoder's files"),
        (lambda tree: tree.update(dimension=4), "its head takes 3 features, its manifest says 4"),
        (lambda tree: tree.update(dimension=0), "`$.dimension`"),
        (lambda tree: tree.update(surprise=1), "`surprise`"),
        (lambda tree: tree.pop("card"), "`card`"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(model, change, fragment):
    forge_all(model, change)
    refused(model, fragment)


@pytest.mark.parametrize("content", [seal(Tally()), seal(make_head().state(), Tally()), b"", b"\x80\x04."])
def test_a_head_that_is_none_is_refused(model, content):
    (model / HEAD).write_bytes(content)
    sealed = {"bytes": len(content), "sha256": digest(content)}
    forge_all(model, lambda tree: tree["files"].update({HEAD: sealed}))
    refused(model, HEAD)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"encoder":' * 100_000, b"null"])
def test_a_manifest_that_is_none_is_refused(model, content):
    (model / MANIFEST).write_bytes(content)
    refused(model, MANIFEST, "fit the model again")


def test_a_manifest_that_would_fill_the_memory_is_not_even_read(model):
    with (model / MANIFEST).open("r+b") as file:
        file.truncate(LARGEST_MANIFEST + 1)
    refused(model, MANIFEST, f"more than {LARGEST_MANIFEST} bytes")


def test_what_is_no_bundle_is_told_so(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "file"):
        assert not is_bundle(path)
        refused(path, "is no model", "speciate fit", kind=ConfigError)


def test_a_bundle_is_one_whole_or_not(model):
    (model / HEAD).unlink()
    assert is_bundle(model)


def test_a_moved_bundle_names_its_files_where_they_are_now(model, tmp_path):
    before = Bundle.load(model)
    moved = Bundle.load(model.rename(tmp_path / "elsewhere"))
    assert moved.manifest == before.manifest
    for option, content in (("scale", "2.5"), ("offset", "[1, 2, 3]")):
        path = Path(moved.encoder_section()[option])
        assert path.parent == tmp_path / "elsewhere"
        assert path.read_text() == content


def test_whatever_the_encoders_files_were_called_they_are_kept_apart(tmp_path):
    """Two of the same name, names of our own files, and names that no manifest would take."""
    sources = [
        f"{folder}/{name}" for folder, name in itertools.product("ab", (HEAD, MANIFEST, "ein Netz (1).ön nx", "…"))
    ]
    for source in sources:
        (tmp_path / source).parent.mkdir(exist_ok=True)
        (tmp_path / source).write_text(source)
    files = {f"option_{number}": tmp_path / source for number, source in enumerate(sources)}
    write(tmp_path / "m", files=files)
    section = Bundle.load(tmp_path / "m").encoder_section()
    assert [Path(section[option]).read_text() for option in files] == sources
    suffixes = [Path(section[option]).suffix for option in files]
    assert suffixes == [".state", ".json", ".nnx", ""] * 2


@pytest.mark.parametrize("what", ["folder", "file", "link to nothing"])
def test_nothing_is_written_over(tmp_path, what):
    path = tmp_path / "m"
    {"folder": path.mkdir, "file": path.touch, "link to nothing": lambda: path.symlink_to("nowhere")}[what]()
    with pytest.raises(ConfigError, match="exists: choose another path"):
        write(path)
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


def test_what_a_crash_left_behind_is_in_nobodys_way(tmp_path):
    (tmp_path / "m.tmp").mkdir()
    (tmp_path / "m.tmp" / HEAD).touch()
    (tmp_path / "m.tmp" / "encoder-weights.safetensors").touch()
    write(tmp_path / "m")
    assert {path.name for path in (tmp_path / "m").iterdir()} == {MANIFEST, HEAD, CARD}
    assert not (tmp_path / "m.tmp").exists()


def test_a_folder_of_somebody_else_is_not_removed(tmp_path):
    (tmp_path / "m.tmp").mkdir()
    (tmp_path / "m.tmp" / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match=r"thesis\.txt in it"):
        write(tmp_path / "m")
    assert (tmp_path / "m.tmp" / "thesis.txt").exists()


@pytest.mark.parametrize("name", ["sync_file", "fsync_directory", "make_directory", "_seal_of"])
def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, name):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bundles, name, full)
    with pytest.raises(OutputError, match="No space left on device"):
        write(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_folders_above_are_made(tmp_path):
    assert write(tmp_path / "a" / "b" / "m") == Bundle.load(tmp_path / "a" / "b" / "m").manifest


def test_the_manifest_is_readable(whole):
    text = (whole / MANIFEST).read_text()
    assert text.count("\n") > 20
    assert text.startswith('{\n "sha256": "')
    assert msgspec.to_builtins(Bundle.load(whole).manifest) == msgspec.json.decode(text)
