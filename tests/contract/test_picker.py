"""Model and effort by the page's own picker: chosen, read back and sent, or refused with the page's words (SI-05, SI-06, case 11)."""

from __future__ import annotations

import pytest

from gptbridge.core.errors import Failure
from tests.contract.conftest import Pair, Window


def refused(window: Window, model: str | None, effort: str | None = None) -> Failure:
    with pytest.raises(Failure) as why:
        window.page.choose(model, effort)
    assert window.sends == [] and "nothing was sent" in why.value.message
    return why.value


def test_what_is_chosen_is_what_the_page_asks_for(window: Window) -> None:
    window.at()
    before = window.page.facts().choice
    window.page.choose("gpt-5-5-thinking", "extended")
    assert window.page.facts().choice not in ("", before)
    held = window.hold("think of it")
    assert (held.model, held.effort) == ("gpt-5-5-thinking", "extended") and window.gate.refuse(held)


def test_a_model_alone_and_an_effort_alone(window: Window) -> None:
    window.at()
    window.page.choose("gpt-5-5-pro", None)
    window.page.choose(None, "extended")
    window.page.choose("gpt-5-5-pro", "extended")  # chosen already
    held = window.hold()
    assert (held.model, held.effort) == ("gpt-5-5-pro", "extended") and window.gate.refuse(held)


def test_labels_of_another_language_do_not_matter(pair: Pair) -> None:
    for language in ("es", "de"):  # one calls every effort otherwise than the site's list, the other one of two
        window = pair.open()
        window.on("localised", language=language)
        window.at().page.choose("gpt-5-5-thinking", "extended")
        held = window.hold()
        assert (held.model, held.effort) == ("gpt-5-5-thinking", "extended") and window.gate.refuse(held)


def test_what_is_not_offered_is_refused_and_what_is_offered_is_named(window: Window) -> None:
    window.on("model-absent", model="gpt-5-5-pro")
    window.at()
    why = refused(window, "gpt-5-5-pro")
    assert why.slug == "bad-input" and why.hint == "it offers: gpt-5-5, gpt-5-5-thinking"
    why = refused(window, "gpt-5-5-thinking", "heavy")
    assert why.slug == "bad-input" and why.hint == "it has: standard, extended"
    why = refused(window, "gpt-5-5", "extended")
    assert why.slug == "bad-input" and "--effort" in why.hint


def test_a_model_or_effort_that_is_switched_off_is_not_pressed_and_the_page_says_why(window: Window) -> None:
    window.on("picker-limit", what="gpt-5-5-pro", notice="Try again after 7:30 PM.")
    why = refused(window.at(), "gpt-5-5-pro")
    assert why.slug == "rate-limited" and "the page says: Try again after 7:30 PM." in why.message


def test_an_effort_that_is_switched_off(pair: Pair) -> None:
    window = pair.open()
    window.on("picker-limit", what="extended", notice="Later.")
    why = refused(window.at(), "gpt-5-5-thinking", "extended")
    if pair.generation == 1:
        assert why.slug == "rate-limited" and "Later." in why.message
    else:
        assert why.slug == "site-changed"  # a slider that stays where it is says nothing


def test_a_locked_model_is_refused_with_the_words_of_its_dialog(window: Window) -> None:
    window.on("picker-locked", what="gpt-5-5-pro", notice="Upgrade your plan.")
    why = refused(window.at(), "gpt-5-5-pro")
    assert why.slug == "needs-human" and "Upgrade your plan." in why.message


@pytest.mark.parametrize("what", ["gpt-5-5-pro", "extended"])
def test_a_picker_that_lacks_what_the_site_offers(window: Window, what: str) -> None:
    window.on("picker-lacks", what=what)
    assert refused(window.at(), "gpt-5-5-pro", "extended").slug == "site-changed"


def test_a_picker_that_takes_a_choice_back(window: Window) -> None:
    window.on("picker-reverts", at="choice")
    assert refused(window.at(), "gpt-5-5-pro").slug == "site-changed"


def test_a_choice_that_is_taken_back_later_shows(window: Window) -> None:
    window.on("picker-reverts", at="paste")
    window.at().page.choose("gpt-5-5-pro", None)
    chosen = window.page.facts().choice
    window.page.type("Hello")
    assert window.page.facts().choice != chosen


def test_another_model_than_chosen_is_in_the_request_and_the_page_says_so(window: Window) -> None:
    window.at().page.choose("gpt-5-5-pro", None)
    window.on("model-replaced", model="gpt-5-5", notice="Another one answers.")
    held = window.hold()
    assert held.model == "gpt-5-5" and window.page.facts().notice == "Another one answers." and window.gate.refuse(held)
