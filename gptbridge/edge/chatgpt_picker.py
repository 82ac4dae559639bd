"""How the page's own picker of model and effort is used: which of its rows is meant by a word of the site, and how a choice is read back.

Guarantees: what was asked for stands there as chosen when `choose` returns, else it raises; nothing but the picker is pressed, and no row
that the page has switched off. Rows are known by the slug in their hooks; where they have none, by the site's own list of models, whose
labels are in the page's language; and where even those differ, by their order, for which the held request is the judge. No word of any
language is known here. Touches what its `Hands` touch. Fails towards refusal.

Sources: the web client's picker as seen 2025-11 .. 2026-09.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from gptbridge.core.errors import Failure
from gptbridge.edge.chatgpt_choices import Offer, Shown, Switch, read_offers, read_shown, same

OPEN_S = 5.0  # for a menu to come
TAKEN_S = 3.0  # for a row that was pressed to show as chosen, or its menu to go
NOTICE_S = 1.0  # for the page to explain a row that is switched off
POLL_S = 0.05
LISTED = 12
LOOK_AT_PAGE = "look at the page: ask-gpt login"


class Hands(Protocol):
    """What the picker is used with."""

    def look(self) -> Mapping[str, Any]:
        """`picker()` of chatgpt.js."""
        ...

    def press(self, element: Any) -> None: ...
    def point(self, at: Sequence[float]) -> None: ...
    def key(self, name: str) -> None: ...
    def focus(self, element: Any) -> None: ...
    def models(self) -> Mapping[str, Any]:
        """The site's own list of models."""
        ...

    def pause(self, seconds: float) -> float:
        """Sleep, and the time after it, in seconds."""
        ...


def choose(hands: Hands, model: str | None, effort: str | None) -> None:
    """See `Page.choose`."""
    picker = _Picker(hands)
    if model is not None:
        picker.take_model(model)
    if effort is not None:
        picker.take_effort(effort, model)
    picker.close()


class _Picker:
    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._listed: list[Offer] | None = None

    # The model

    def take_model(self, slug: str) -> None:
        row = self._model_row(self._models(), slug)
        if row.checked:
            return
        self._pressed(row, f"model {slug}")
        if not self._model_row(self._models(), slug).checked:
            raise _kept_not(f"model {slug}")

    def _models(self) -> Shown:
        shown = self._opened()
        if not shown.models and shown.more is not None:
            self._hands.press(shown.more)
            shown = self._until(lambda now: bool(now.models), OPEN_S, "the page's picker did not show its models")
        return shown

    def _model_row(self, shown: Shown, slug: str) -> Switch:
        found = [row for row in shown.models if row.slug == slug]
        offer = next((one for one in self.offers if one.slug == slug), None) if not found else None
        if offer is not None:
            found = [row for row in shown.models if not row.slug and same(offer.title, row.labels)]
        if len(found) == 1:
            return found[0]
        if found or offer is not None:
            raise Failure("site-changed", f"the page's picker shows {'several rows' if found else 'no row'} for model {slug}; "
                          "nothing was sent", "ask-gpt may need an update for the site")
        raise Failure("bad-input", f"the site offers no model {slug} to this account; nothing was sent",
                      _one_of("it offers", [one.slug for one in self.offers]))

    # The effort

    def take_effort(self, word: str, model: str | None) -> None:
        shown = self._models()
        offer = self._current(shown, model)
        if word not in offer.words:
            raise Failure("bad-input", f"model {offer.slug} has no effort {word}; nothing was sent",
                          _one_of("it has", offer.words) if offer.words else "leave it away (--effort ''), or ask for another model")
        if not any(row.checked and row.efforts is not None for row in shown.models):
            self.close()  # they may stand beside the models, not behind one of them
            shown = self._opened()
        if shown.slider is not None:
            self._slide(word, offer)
        else:
            row = self._effort_row(self._efforts(shown, offer), word, offer)
            if row.checked:
                return
            self._pressed(row, f"effort {word}")
            if not self._effort_row(self._efforts(self._opened(), offer), word, offer).checked:
                raise _kept_not(f"effort {word}")
        if model is not None:  # the choice of an effort may take the model with it
            self.close()
            if not self._model_row(self._models(), model).checked:
                raise _kept_not(f"model {model}")

    def _current(self, shown: Shown, model: str | None) -> Offer:
        """What the site lists of the model that is chosen."""
        chosen = [row for row in shown.models if row.checked]
        slug = model or (chosen[0].slug if len(chosen) == 1 else None)
        found = [one for one in self.offers if (one.slug == slug if slug else bool(chosen) and same(one.title, chosen[0].labels))]
        if len(found) != 1:
            raise Failure("site-changed", "the site does not say which efforts there are for the chosen model; nothing was sent",
                          "ask for the model, too, or leave the effort away (--effort '')")
        return found[0]

    def _efforts(self, shown: Shown, offer: Offer) -> tuple[Switch, ...]:
        """The rows of efforts, opened below the chosen model where they do not stand open."""
        if not shown.efforts:
            found = [row for row in shown.models if row.checked and row.efforts is not None]
            if len(found) != 1:
                raise Failure("site-changed", f"the page's picker shows no efforts for model {offer.slug}; nothing was sent",
                              "ask-gpt may need an update for the site")
            self._hands.press(found[0].efforts)
            shown = self._until(lambda now: bool(now.efforts), OPEN_S, "the page's picker did not show its efforts")
        return shown.efforts

    def _effort_row(self, rows: Sequence[Switch], word: str, offer: Offer) -> Switch:
        labels = dict(offer.efforts)
        named = [[word for word, known in offer.efforts if any(same(label, row.labels) for label in known)] for row in rows]
        found = [row for row, words in zip(rows, named, strict=True) if words == [word]]
        if not found and len(rows) == len(labels) and all(words in ([], [other]) for words, other in zip(named, labels, strict=True)):
            found = [rows[offer.words.index(word)]]  # labels of another language: by order; the held request has the last word
        if len(found) != 1:
            raise Failure("site-changed", f"the page's picker shows no row for effort {word}; nothing was sent",
                          "ask-gpt may need an update for the site")
        return found[0]

    def _slide(self, word: str, offer: Offer) -> None:
        """By the keys that the slider's own role promises, one step at a time, each read back."""
        wanted = offer.words.index(word)
        while True:
            shown = self._look()
            least, now, greatest = shown.place
            if shown.slider is None or greatest - least + 1 != len(offer.words):
                raise Failure("site-changed", f"the page's slider of efforts has another length than model {offer.slug} has efforts; "
                              "nothing was sent", "ask-gpt may need an update for the site")
            if now - least == wanted:
                return
            if shown.slider.off:
                raise self._off(shown.slider, f"effort {word}")
            self._hands.focus(shown.slider.element)
            self._hands.key("ArrowRight" if now - least < wanted else "ArrowLeft")
            if not self._waited(partial(_moved, now), TAKEN_S):
                raise _kept_not(f"effort {word}")

    # Pressing and looking

    def _look(self) -> Shown:
        return read_shown(self._hands.look())

    def _opened(self) -> Shown:
        shown = self._look()
        if not shown.is_open:
            if shown.button is None:
                raise Failure("site-changed", "the page shows no picker of model and effort; nothing was sent", LOOK_AT_PAGE)
            self._hands.press(shown.button)
        return self._until(lambda now: now.is_open, OPEN_S, "the page's picker of model and effort did not open")

    def _pressed(self, row: Switch, what: str) -> None:
        """One press on a row that may be pressed; then its menu is gone, or it shows as chosen."""
        if row.off:
            raise self._off(row, what)
        before = self._look().dialogs
        self._hands.press(row.element)

        def settled(shown: Shown) -> bool:
            return not shown.is_open or shown.dialogs != before or any(one.checked for one in shown.switches if one.at == row.at)

        shown = self._until(settled, TAKEN_S, f"the page did not take {what}")
        asked = [text for text in shown.dialogs if text not in before]
        if asked:
            raise Failure("needs-human", f"the page does not choose {what} but says: {_short(asked[0])}; nothing was sent",
                          "look at the page: ask-gpt login; or ask for another one")

    def _off(self, row: Switch, what: str) -> Failure:
        """Quota used up, mostly; the page explains it to whoever points there."""
        self._hands.point(row.at)
        explained = self._waited(lambda shown: bool(shown.notices), NOTICE_S)
        said = f"; the page says: {_short(explained.notices[0])}" if explained else ""
        return Failure("rate-limited", f"the page does not let {what} be chosen now{said}; nothing was sent", "wait, or ask for another")

    def close(self) -> None:
        """Every menu; the focus is in the innermost."""
        for _ in range(4):
            if not self._look().is_open:
                return
            self._hands.key("Escape")
            self._hands.pause(POLL_S)
        raise Failure("site-changed", "the page's picker did not close; nothing was sent", LOOK_AT_PAGE)

    def _until(self, true: Callable[[Shown], bool], seconds: float, what: str) -> Shown:
        shown = self._waited(true, seconds)
        if shown is None:
            raise Failure("site-changed", f"{what}; nothing was sent", LOOK_AT_PAGE)
        return shown

    def _waited(self, true: Callable[[Shown], bool], seconds: float) -> Shown | None:
        """What is shown once it is so, and stands still: a row that moves cannot be pressed. None: it did not become so in time."""
        end = self._hands.pause(0.0) + seconds
        before: list[tuple[float, ...]] | None = None
        while True:
            shown = self._look()
            places = [switch.at for switch in shown.switches]
            if true(shown) and places == before:
                return shown
            before = places
            if self._hands.pause(POLL_S) > end:
                return None

    @property
    def offers(self) -> list[Offer]:
        if self._listed is None:
            self._listed = read_offers(self._hands.models())
        return self._listed


def _moved(before: int, shown: Shown) -> bool:
    return shown.slider is not None and shown.place[1] != before


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


def _one_of(what: str, words: Sequence[str]) -> str:
    return f"{what}: {', '.join(words[:LISTED]) or 'none'}{' ...' if len(words) > LISTED else ''}"


def _kept_not(what: str) -> Failure:
    return Failure("site-changed", f"the page did not keep {what} as chosen; nothing was sent", LOOK_AT_PAGE)
