"""What is chosen and sought on the live page, in a real browser: what is said stays true when it is chosen anew."""

import re

import pytest


def test_why_a_search_failed_is_shown_until_another_has_not(stub, new_page, expect, troubles):
    page = new_page()
    page.goto(f"{stub.url}/#/categories/7")
    page.click("#merge:enabled")
    wrong = page.locator("dialog .wrong")
    stub.failing = {"/api/categories": "it is ill"}
    page.fill("#merge-search", "ill")
    expect(wrong).to_have_text("it is ill")
    stub.failing = {}
    page.fill("#merge-search", "well")
    expect(wrong).to_have_text("")
    troubles.clear()


def test_that_a_search_failed_which_nobody_waits_for_any_more_is_not_shown(stub, new_page, expect, troubles):
    held = []
    page = new_page()
    page.route(re.compile("search=old"), lambda route: held.append(route))  # noqa: PLW0108  # no built-in is taken
    page.goto(f"{stub.url}/#/categories/7")
    page.click("#merge:enabled")
    with page.expect_request(re.compile("search=old")):
        page.fill("#merge-search", "old")
    page.fill("#merge-search", "new")
    expect(page.locator("dialog .choices")).to_have_text("No other category is called that.")
    with page.expect_response(re.compile("search=old")) as answered:
        held[0].fulfill(status=503, json={"error": "it is ill"})
    answered.value.finished()
    page.evaluate("new Promise((done) => setTimeout(done, 100))")  # the script has read it by then
    expect(page.locator("dialog .wrong")).to_have_text("")
    troubles.clear()


@pytest.mark.parametrize("feed", ["none", "none,control", "toString,birth"])
def test_an_address_whose_feed_is_chosen_anew_says_nothing_else(stub, new_page, expect, feed):
    page = new_page()
    page.goto(f"{stub.url}/#/?feed={feed}")
    chips = page.get_by_role("group", name="Show").get_by_role("button")
    expect(chips).to_have_count(3)
    for one in chips.all():
        if one.get_attribute("aria-pressed") == "false":
            one.click()
    expect(page).not_to_have_url(re.compile("feed="))
    chips.first.click()
    expect(page).to_have_url(re.compile("feed=control(,|%2C)rejection$"))
