"""The views of the live page in a real browser, before a server that says what a test wants said."""

import re

import msgspec
import pytest
from stub_page import STATE, born, card, category, merged, page_of, refusal, renamed, suggested

from browser import check_accessibility

TWO_TASKS = msgspec.structs.replace(
    STATE, universes=[msgspec.structs.replace(STATE.universes[0], task=task) for task in (0, 1)]
)
REVERSING = "a\u202eb\u2069\u202ec"
"""A label that would write what follows it from right to left, and ends an isolation around it."""
CONDITIONS = [
    ("away", "away", "A service is away"),
    ("restoring", "wait", "Restoring"),
    ("waiting", "wait", "Not ready yet"),
]
UNSEEN = "\u200b\u2800\u3164"


def until_asked(page, stub):
    """Wait for the control event that was sent."""
    page.wait_for_selector(".notice[data-state=sent]")
    [request] = stub.asked
    return request


def rename(page, name):
    page.click("#rename:enabled")
    page.fill("#label", name)
    page.keyboard.press("Enter")


def test_a_merge_takes_along_only_those_who_look_at_its_task(stub, new_page, expect):
    stub.state = TWO_TASKS
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7?task=0")
    page.wait_for_selector("#rename:enabled")

    stub.tell(1, merged(3, 7))
    stub.tell(1, renamed(7, "theirs"))
    stub.state = msgspec.structs.replace(TWO_TASKS, title="and all of it was heard")
    expect(page).to_have_title(re.compile("heard"))
    assert "/categories/7" in page.url

    stub.tell(0, merged(3, 7))
    expect(page).to_have_url(re.compile(r"/categories/3\?task=0"))


def test_the_feed_and_the_undo_are_of_one_task(stub, new_page, expect):
    stub.state = msgspec.structs.replace(TWO_TASKS, controls=2)
    stub.tell(0, renamed(7, "mine"))
    stub.tell(1, renamed(7, "theirs"))
    stub.tell(1, born(8))
    page = new_page()
    page.goto(f"{stub.url}/#/?task=0")
    expect(page.locator("#feed li[data-kind=control]")).to_have_count(1)
    expect(page.locator("#feed li[data-kind=birth]")).to_have_count(1)
    assert page.locator("#feed li[data-kind=birth]").get_attribute("data-category") == "7"
    page.click("#undo")
    expect(page.locator("dialog")).to_contain_text("renamed 7 to")
    expect(page.locator("dialog")).to_contain_text("mine")


@pytest.mark.parametrize("lost", [False, True], ids=["at once", "after the connection was lost"])
def test_a_refused_change_is_told(stub, new_page, expect, lost):
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    rename(page, "pallet")
    request = until_asked(page, stub)
    stub.connection += lost
    stub.tell(0, refusal(request))
    expect(page.locator(".notice[data-state=refused]")).to_contain_text("There is no category 7")
    check_accessibility(page)


def test_nobody_waits_for_ever_and_a_late_answer_is_told_all_the_same(stub, new_page, expect):
    page = new_page()
    page.clock.install()
    page.goto(f"{stub.url}/#/categories/7")
    rename(page, "pallet")
    request = until_asked(page, stub)
    page.clock.fast_forward(61_000)
    expect(page.locator(".notice[data-state=unanswered]")).to_contain_text("Look before you send it again")
    stub.tell(0, refusal(request))
    expect(page.locator(".notice[data-state=refused]")).to_contain_text("There is no category 7")


def test_a_category_that_is_gone_is_seldom_asked_for_and_back_at_once(stub, new_page, expect, troubles):
    page = new_page()
    page.clock.install()
    page.goto(f"{stub.url}/#/categories/9")
    expect(page.locator("#gone")).to_contain_text("There is no category 9")
    page.clock.fast_forward(10_000)
    stub.said["/api/categories/9"] = category(9)
    stub.state = msgspec.structs.replace(STATE, title="ten seconds later")
    expect(page).to_have_title(re.compile("later"))
    assert stub.got.count("/api/categories/9") == 1
    stub.tell(0, renamed(9, "back"))
    page.wait_for_selector("#rename:enabled")
    assert all("404" in one for one in troubles)
    troubles.clear()


def test_a_label_cannot_turn_the_words_around_it(stub, new_page, expect):
    stub.said["/api/suggestions"] = suggested("kept", REVERSING)
    page = new_page()
    page.goto(stub.url)
    suggestion = page.locator(".suggestion")
    suggestion.wait_for()
    places = [part.bounding_box() for part in suggestion.locator("a, span").all()]
    ends = [(place["x"], place["x"] + place["width"]) for place in places]
    assert ends == sorted(ends), "the one, the word between them, the other"
    assert ends[0][1] <= ends[1][1] <= ends[2][0] + 1

    suggestion.get_by_role("button").click()
    assert "“\u2068a\u202eb\u202ec\u2069” (2) with 2 events" in page.locator("dialog p").first.inner_text()
    check_accessibility(page)


def test_a_label_that_cannot_be_seen_can_be_clicked(stub, new_page, expect):
    stub.said["/api/categories"] = page_of(card(7, UNSEEN))
    stub.said["/api/categories/7"] = category(7, UNSEEN)
    page = new_page()
    page.goto(f"{stub.url}/#/categories")
    page.get_by_role("link", name="Category 7").click()
    expect(page.locator("#category-name")).to_have_text("Category 7")


def test_a_long_label_leaves_room_for_the_rest(stub, new_page):
    stub.said["/api/categories/7"] = category(7, "long " * 100)
    page = new_page(size=(360, 780))
    page.goto(f"{stub.url}/#/categories/7")
    page.wait_for_selector("#rename:enabled")
    assert page.locator("#category-name").bounding_box()["height"] < 120
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_category_of_one_event_says_why_there_is_no_plane(stub, new_page, expect):
    stub.said["/api/categories/7"] = category(7, events=1)
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    expect(page.locator(".plane-panel .empty")).to_have_text("One event is no plane yet.")
    check_accessibility(page)


def test_the_plane_is_as_large_as_what_became_of_a_category(stub, new_page, expect):
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    dots = page.locator("#plane .dot")
    expect(dots).to_have_count(2)
    one, other = (dots.nth(n).bounding_box() for n in (0, 1))
    assert abs(one["x"] - other["x"]) > 0.4 * page.locator("#plane").bounding_box()["width"]
    expect(page.get_by_text("where 9 of 10 next events")).to_be_visible()
    expect(page.get_by_text("what a new category begins with")).to_be_hidden()


def test_what_cannot_be_told_is_said_and_taken_back(stub, new_page, expect, troubles):
    stub.failing = {"/api/timeline": "the disk is full", "/api/categories": "the disk is full"}
    page = new_page()
    line = page.locator("#trouble")
    page.goto(stub.url)
    expect(line).to_have_text("The page cannot tell: the disk is full")
    for empty in ("Nothing has been read yet.", "No category has been discovered yet."):
        expect(page.get_by_text(empty).first).to_be_hidden()
    check_accessibility(page)
    for view in ("categories/7", "categories"):
        page.goto(f"{stub.url}/#/{view}")
        expect(line).to_have_text("The page cannot tell: the disk is full")
    stub.failing = {}
    stub.tell(0, renamed(7, "which makes the gallery ask again"))
    expect(line).to_be_empty()
    page.wait_for_selector(".card")
    assert all("503" in one for one in troubles)
    troubles.clear()


def test_how_it_is_follows_from_the_condition_and_not_from_the_words(stub, new_page, expect):
    page = new_page()
    page.goto(stub.url)
    for condition, mark, words in CONDITIONS:
        stub.state = msgspec.structs.replace(STATE, condition=condition, unready=["no away: , no restoring"])
        expect(page.locator("#status-text")).to_have_text(words)
        expect(page.locator("#status")).to_have_attribute("data-condition", mark)
        expect(page.locator("#status-reason")).to_have_text("no away: , no restoring")
    stub.state = STATE
    expect(page.locator("#status-text")).to_have_text("Running and well")
    expect(page.locator("#status-reason")).to_have_text("")


def test_after_the_token_one_is_in_the_view(stub, new_page, expect, troubles):
    stub.token = "secret"
    page = new_page()
    page.goto(f"{stub.url}/#/categories")
    page.fill("#token", "secret")
    expect(page.locator("#status-text")).to_have_text("A token is needed")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Categories")
    expect(page.locator("h1")).to_be_focused()
    troubles.clear()  # that a token was needed
