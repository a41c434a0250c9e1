"""Pictures of exemplars: a browser keeps them, and they go with their category."""

import pytest
from open_pages import RunningPage, ShownPage, image_tree, stopped_of, told

from speciate_schemas.page import CategoryPage

pytestmark = pytest.mark.usefixtures("_patient")


def test_images_have_pictures_that_a_browser_keeps(tmp_path):
    tree = image_tree(tmp_path)
    with RunningPage(tree) as live:
        live.answered(24)
        live_pictures = pictures(live)
    with ShownPage(stopped_of(tree)) as stopped:
        assert pictures(stopped) == live_pictures
    assert len(live_pictures) > 6


def pictures(page):
    found = {}
    for card in told(page, "/api/categories", CategoryPage).categories:
        for exemplar in card.exemplars:
            answer = page.client.get(exemplar.thumbnail)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "immutable" in answer.headers["cache-control"]
            assert answer.content.startswith(b"\xff\xd8\xff")
            plain = page.client.get(f"/api/thumbnails/{card.id}/{exemplar.sequence}")
            assert (plain.content, plain.headers["cache-control"]) == (answer.content, "no-store")
            found[exemplar.id] = answer.content
    assert page.client.get("/api/thumbnails/0/999999").status_code == 404
    return found


def test_a_picture_is_its_category_s_and_goes_with_it(tmp_path):
    with RunningPage(image_tree(tmp_path)) as live:
        live.answered(24)
        first, second = told(live, "/api/categories", CategoryPage, sort="id", order="asc").categories[:2]
        address = first.exemplars[0].thumbnail
        another = address.replace(f"/{first.id}/", f"/{second.id}/")
        assert (live.client.get(address).status_code, live.client.get(another).status_code) == (200, 404)
        control = {"type": "forget.v1", "id": "f", "category": first.id}
        assert live.client.post("/api/control", json={"control": control}).status_code == 202
        live.until(lambda: live.client.get(address).status_code == 404)
        assert live.client.get(second.exemplars[0].thumbnail).status_code == 200
