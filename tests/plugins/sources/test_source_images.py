"""Folders of images: order, names, labels, files that cannot be read."""

import asyncio
import os
from pathlib import Path

import pytest

from speciate.conformance import check_source
from speciate.errors import DecodeError, SourceError, TooLargeError
from speciate_plugins.sources import images
from speciate_plugins.sources.images import ImagesOptions, ImagesSource


@pytest.fixture
def folder(tmp_path) -> Path:
    root = tmp_path / "data"
    for name in ("b/2.JPG", "b/10.png", "a/deep/x.webp", "top.gif", "a/notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def source(*paths: Path | str, **options) -> ImagesSource:
    return ImagesSource(ImagesOptions(paths=[str(path) for path in paths], **options))


async def test_it_keeps_the_laws(folder, monkeypatch) -> None:
    (folder / "b" / "gone.png").symlink_to("nowhere")
    await check_source(lambda: source(folder, folder / "b"))
    monkeypatch.setattr(images, "BATCH_BYTES", 1)
    await check_source(lambda: source(folder))


async def test_a_folder_is_read_with_all_below_it(folder, read_all) -> None:
    records = await read_all(source(folder))
    assert [record.event.id for record in records] == ["a/deep/x.webp", "b/10.png", "b/2.JPG", "top.gif"]
    assert [record.event.label for record in records] == ["deep", "b", "b", "data"]
    assert [record.event.media_type for record in records] == ["image/webp", "image/png", "image/jpeg", "image/gif"]
    assert {record.event.stream for record in records} == {"data"}
    assert bytes(records[2].event.image) == b"b/2.JPG" == bytes(records[2].original)
    assert records[2].origin == str(folder / "b/2.JPG")
    assert records[2].position == (2, str(folder / "b/2.JPG"), 1)


async def test_links_are_followed_under_their_own_names_and_never_in_circles(folder, read_all) -> None:
    (folder / "linked").symlink_to(folder / "b")
    (folder / "b" / "again").symlink_to(folder)
    (folder / "b" / "self").symlink_to(folder / "b")
    records = await read_all(source(folder))
    found = {record.event.id: record.event.label for record in records}
    assert found == {
        "a/deep/x.webp": "deep",
        "b/10.png": "b",
        "b/2.JPG": "b",
        "linked/10.png": "linked",
        "linked/2.JPG": "linked",
        "top.gif": "data",
    }


async def test_classes_at_different_depths_are_told(folder, caplog) -> None:
    await source(folder / "b").open(None, 0)
    await source(folder, labels="none").open(None, 0)
    assert "different depths" not in caplog.text
    await source(folder).open(None, 0)
    assert "images lie at different depths" in caplog.text


async def test_options_change_names(folder, read_all) -> None:
    records = await read_all(source(folder / "b", folder / "a", suffixes=[".txt", ".png"], labels="none", stream="s"))
    assert [(record.event.id, record.event.label) for record in records] == [("10.png", None), ("notes.txt", None)]
    assert {record.event.stream for record in records} == {"s"}
    assert records[1].event.media_type == ""


async def test_globs_and_single_files(folder, read_all) -> None:
    records = await read_all(source(folder / "b" / "*", folder / "top.gif", folder / "**"))
    names = [(record.event.id, record.event.stream) for record in records]
    assert names[:3] == [("10.png", "b"), ("2.JPG", "b"), ("top.gif", "data")]
    assert [name for name, _ in names[3:]] == ["a/deep/x.webp", "b/10.png", "b/2.JPG", "top.gif"]


async def test_the_present_folder_has_a_name(folder, read_all, monkeypatch) -> None:
    monkeypatch.chdir(folder / "b")
    records = await read_all(source("."))
    assert [(record.event.id, record.event.label, record.event.stream) for record in records] == [
        ("10.png", "b", "b"),
        ("2.JPG", "b", "b"),
    ]


async def test_an_unreadable_file_is_rejected_and_the_others_come(folder, read_all, monkeypatch) -> None:
    (folder / "b" / "gone.png").symlink_to("nowhere")
    monkeypatch.setattr(images, "FILE_BYTES", 8)
    records = await read_all(source(folder))
    kinds = {Path(record.origin).name: type(record.error) for record in records}
    assert kinds["gone.png"] is DecodeError
    assert kinds["x.webp"] is TooLargeError
    assert kinds["2.JPG"] is type(None)
    assert all(bytes(record.original) == b"" for record in records if record.error)


async def test_a_name_too_long_to_be_an_id_is_rejected(tmp_path, read_all) -> None:
    deep = tmp_path / "/".join(["d" * 200] * 3)
    deep.mkdir(parents=True)
    (deep / "x.png").write_bytes(b"x")
    (record,) = await read_all(source(tmp_path))
    assert isinstance(record.error, DecodeError)
    assert bytes(record.original) == b"x"


async def test_names_that_are_no_utf8_are_spelt_out(tmp_path, read_all) -> None:
    (tmp_path / os.fsdecode(b"\xff.png")).write_bytes(b"x")
    (record,) = await read_all(source(tmp_path))
    assert record.event.id == "\\xff.png"


async def test_nothing_to_read_is_an_error(tmp_path) -> None:
    for pattern in (tmp_path / "missing", tmp_path / "*.png"):
        with pytest.raises(SourceError, match="no file matches"):
            await source(pattern).open(None, 0)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(SourceError, match=rf"'{tmp_path}' holds no image: none of its files ends in .*\.jpg.*suffixes"):
        await source(tmp_path).open(None, 0)
    with pytest.raises(SourceError, match=r"notes.txt' is no image: its name ends in none of .*\.jpg.*suffixes"):
        await source(tmp_path / "notes.txt").open(None, 0)


async def test_resume_notices_a_changed_list(folder) -> None:
    (folder / "a" / "new.png").write_bytes(b"new")
    with pytest.raises(SourceError, match=r"file number 1 was '.*10.png' and is now '.*new.png'"):
        await source(folder).open((1, str(folder / "b/10.png"), 1), 2)
    one = source(folder)
    await one.open((1, str(folder / "a/new.png"), 1), 2)
    assert one.progress() == (2, 5, "files")
    await one.close()


async def test_a_pipe_among_the_files_is_rejected_and_not_waited_for(folder, read_all) -> None:
    os.mkfifo(folder / "b" / "11.png")
    records = await asyncio.wait_for(read_all(source(folder)), 30)
    assert [Path(record.origin).name for record in records if record.error] == ["11.png"]
    assert len(records) == 5
    assert "11.png is no regular file" in str(records[2].error)
