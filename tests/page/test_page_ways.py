"""The ways of the live page in a real browser: addresses, connections that end, the focus, and what has to fit."""

import re

import msgspec
import pytest
from stub_page import STATE, card, category, near, page_of, renamed, suggested, suggestion, timeline, undone

from browser import check_accessibility

AWAY = "task 0: the broker at kafka-1.example:9092 does not answer, and neither does the one beside it"
SHORT = {
    0: "0",
    0.5: "0.5",
    1000: "1,000",
    9999: "9,999",
    10_000: "10 k",
    12_345: "12.3 k",
    999_499: "999 k",
    999_999: "1 M",
    1_234_567: "1.23 M",
    98_765_432: "98.8 M",
    999_500_000: "1 G",
    -1_234_567: "\u22121.23 M",
}


def with_state(stub, **changes):
    stub.state = msgspec.structs.replace(stub.state, **changes)


def with_category(stub, **changes):
    stub.said["/api/categories/7"] = msgspec.structs.replace(category(7), **changes)


def lose(page, stub):
    """Cut the connection, once there is one; until the server is well again it stays so."""
    page.evaluate("Math.random = () => 1000")  # it does not try again by itself, before it is told to
    with_state(stub, title=f"stream {stub.connection}")
    page.wait_for_function("title => document.title.endsWith(title)", arg=stub.state.title)
    stub.failing = {"/api/": "it is ill"}
    stub.connection += 1
    page.wait_for_selector("#lost")


def size_of(page, which):
    return page.evaluate(f"document.documentElement.scroll{which}")


def test_an_address_is_followed_though_only_its_parameters_change(stub, new_page, expect):
    page = new_page()
    page.goto(f"{stub.url}/#/categories?search=a&kind=known")
    search = page.locator("#search")
    expect(search).to_have_value("a")
    with page.expect_request(re.compile("search=zzz")):
        page.evaluate("location.hash = '#/categories?search=zzz'")
    expect(search).to_have_value("zzz")
    expect(page.locator("[name=kind]:checked")).to_have_value("all")
    page.click("#nav-categories")
    expect(search).to_have_value("")


def test_the_way_back_from_a_category_keeps_the_filter(stub, new_page, expect):
    page = new_page()
    page.goto(f"{stub.url}/#/categories?kind=born")
    page.fill("#search", "7")
    expect(page).to_have_url(re.compile("search=7"))
    page.click(".card-name")
    page.click("#back")
    expect(page.locator("#search")).to_have_value("7")
    expect(page.locator("[name=kind]:checked")).to_have_value("born")


@pytest.mark.parametrize("view", ["", "categories", "categories/7"])
def test_no_other_task_is_shown_instead_of_one_that_is_missing(stub, new_page, expect, view):
    page = new_page()
    page.goto(f"{stub.url}/#/{view}?task=1")
    expect(page.locator("h1")).to_have_text(re.compile("Task .?1.? is not here"))
    expect(page.locator("#rename, #undo:enabled")).to_have_count(0)
    check_accessibility(page)
    one = STATE.universes[0]
    with_state(stub, universes=[one, msgspec.structs.replace(one, task=1, categories=5)])
    expect(page.locator("h1")).not_to_contain_text("not here")
    expect(page).to_have_title(re.compile("^5 categories"))


def test_why_a_service_is_away_fits_on_a_phone(stub, new_page):
    with_state(stub, condition="away", unready=[AWAY])
    page = new_page(size=(390, 844))
    page.goto(stub.url)
    page.wait_for_selector("#status[data-condition=away]")
    page.wait_for_selector("#feed li")
    assert size_of(page, "Width") <= 390


def test_all_of_the_overview_is_on_the_wall_at_once(stub, new_page, troubles):
    shares = {"busy": 0.5, "backpressured": 0.2, "idle": 0.3}
    with_state(stub, stages=dict.fromkeys(("source", "decoder", "encoder", "head", "sink"), shares))
    stub.said["/api/timeline"] = timeline(9, margin=3.0)
    page = new_page(size=(1920, 1080))
    page.goto(stub.url)
    for part in ("#feed li", "#stages .bar", "[data-chart=margin]"):
        page.wait_for_selector(part)
    assert size_of(page, "Height") == 1080
    lose(page, stub)
    assert size_of(page, "Height") == 1080
    page.close()
    troubles.clear()


def test_without_a_connection_nothing_can_be_sent(stub, new_page, expect, troubles):
    with_category(stub, suggestions=[suggestion()])
    stub.said["/api/suggestions"] = suggested()
    with_state(stub, controls=1)
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    buttons = page.locator("#rename, #merge, #forget, .suggestion button, #undo")
    expect(page.locator("#rename")).to_be_enabled()
    for one in buttons.all():
        expect(one).to_be_enabled()
    lose(page, stub)
    for one in buttons.all():
        expect(one).to_be_disabled()
    stub.failing = {}
    page.click("#retry")
    expect(page.locator("#forget")).to_be_enabled()
    page.click("#nav-overview")
    merge = page.locator("#suggestions button")
    expect(merge).to_be_enabled()
    lose(page, stub)
    expect(merge).to_be_disabled()
    page.close()
    troubles.clear()


def test_an_end_that_was_announced_is_no_alarm(stub, new_page, expect, troubles):
    page = new_page()
    page.goto(stub.url)
    expect(page.locator("#status-text")).to_have_text("Running and well")
    with_state(stub, condition="stopping", unready=["stopping"])
    expect(page.locator("#status-text")).to_have_text("Stopping")
    page.route("**/api/**", lambda route: route.abort())
    stub.connection += 1
    expect(page.locator("#lost-words")).to_have_text("The run has ended.")
    expect(page.locator("#status")).to_have_attribute("data-condition", "stopped")
    page.close()
    troubles.clear()


def test_what_was_not_there_before_the_connection_was_lost_is_said_to_be_missing(stub, new_page, expect, troubles):
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    page.wait_for_selector("#rename:enabled")
    lose(page, stub)
    page.click("#nav-overview")
    expect(page.get_by_text("Without a connection there is nothing to show here.")).to_have_count(4)
    expect(page.get_by_text("Without a connection").last).to_be_visible()
    check_accessibility(page)
    stub.failing = {}
    page.click("#retry")
    expect(page.get_by_text("Nothing has been read yet.").first).to_be_visible()
    expect(page.get_by_text("Without a connection").first).to_be_hidden()
    page.close()
    troubles.clear()


def test_undo_is_offered_only_if_there_is_something_to_undo(stub, new_page, expect):
    page = new_page()
    page.goto(stub.url)
    expect(page.locator("#status-text")).to_have_text("Running and well")
    undo = page.locator("#undo")
    expect(undo).to_be_disabled()
    with_state(stub, controls=1)
    stub.tell(0, renamed(7, "pallet"))
    expect(undo).to_be_enabled()
    with_state(stub, controls=2)
    stub.tell(0, undone())
    expect(undo).to_be_disabled()


def test_what_is_typed_as_a_name_is_not_wiped_by_the_button_that_asked_for_it(stub, new_page, expect):
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    page.wait_for_selector("#rename:enabled")
    head = page.locator(".category-head")
    before = head.bounding_box()["height"]
    page.click("#rename")
    page.fill("#label", "pallet")
    expect(page.locator("#rename")).to_be_hidden()
    assert head.bounding_box()["height"] == pytest.approx(before, abs=8)
    expect(page.locator("#label")).to_have_value("pallet")
    page.keyboard.press("Escape")
    expect(page.locator("#rename")).to_be_focused()


def test_the_focus_stays_on_a_row_that_changes_and_moves(stub, new_page, expect):
    with_category(stub, nearest=[near(3, 5), near(4, 5)])
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    row = page.locator("tr[data-category='4']")
    row.locator("a").focus()
    with_category(stub, nearest=[near(4, 9), near(5, 5), near(3, 5)])
    stub.tell(0, renamed(8, "which makes the page ask again"))
    expect(row.locator("td").first).to_have_text("9")
    expect(row.locator("a")).to_be_focused()


def test_from_the_buttons_the_next_stop_is_a_member(stub, new_page, expect):
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    page.locator("#forget:enabled").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#plane .member").first).to_be_focused()


def test_the_focus_is_on_the_heading_once_the_category_behind_a_question_is_gone(stub, new_page, expect, troubles):
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    page.click("#merge:enabled")
    page.wait_for_selector("dialog")
    del stub.said["/api/categories/7"]
    stub.tell(0, renamed(8, "which makes the page ask again"))
    expect(page.locator("#gone")).to_contain_text("There is no category 7")
    page.keyboard.press("Escape")
    expect(page.locator("#gone h1")).to_be_focused()
    page.close()
    troubles.clear()


def test_only_a_few_new_rows_of_the_feed_are_seen_to_arrive(stub, new_page, expect):
    page = new_page(reduced_motion="reduce")  # or what arrives has soon done so
    page.goto(stub.url)
    rows = page.locator("#feed li")
    expect(rows).to_have_count(1)
    stub.said["/api/categories"] = page_of(card(8), card(7, "renamed"))
    stub.tell(0, renamed(7, "renamed"))
    expect(rows).to_have_count(3)
    expect(page.locator("#feed li[data-category='7']")).to_contain_text("renamed")
    expect(page.locator(".arriving[data-category='8']")).to_have_count(1)
    expect(page.locator(".arriving[data-category='7']")).to_have_count(0)
    stub.said["/api/categories"] = page_of(*(card(number) for number in range(20, 6, -1)))
    stub.tell(0, renamed(8, "which makes the page ask again"))
    expect(page.locator("#feed li[data-category='20']")).to_have_count(1)
    expect(page.locator(".arriving[data-category='20']")).to_have_count(0)


def test_merges_that_the_events_speak_against_are_folded_away(stub, new_page, expect):
    with_category(stub, suggestions=[suggestion(gain=-92.0)])
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    expect(page.locator(".merges .empty")).to_be_visible()
    expect(page.locator(".suggestion")).to_be_hidden()
    page.click("#merges-against summary")
    expect(page.locator(".suggestion")).to_contain_text("very strong evidence against")
    check_accessibility(page)


def test_where_nothing_is_near_one_is_asked_to_search(stub, new_page, expect):
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    page.click("#merge:enabled")
    choices = page.locator("dialog .choices")
    expect(choices).to_have_text("None is near: search for the one you mean.")
    page.fill("#merge-search", "7")
    expect(choices).to_have_text("No other category is called that.")


def test_where_there_are_no_margins_none_are_drawn(stub, new_page, expect):
    stub.said["/api/timeline"] = timeline(9)
    page = new_page()
    page.goto(stub.url)
    page.wait_for_selector("[data-chart=growth] .line")
    expect(page.locator(".margin .empty").first).to_have_text("There are no margins yet.")
    expect(page.locator("[data-chart=margin]")).to_be_hidden()


def test_figures_have_the_unit_that_makes_them_short(stub, new_page):
    page = new_page()
    page.goto(stub.url)
    short = page.evaluate(
        "async (all) => { const { short } = await import('/assets/format.js'); return all.map(short); }", list(SHORT)
    )
    assert short == [text.replace(" ", "\u00a0") for text in SHORT.values()]
