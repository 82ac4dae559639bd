"""What the page's picker of model and effort shows, and what the site lists of models: read into values, and compared.

Guarantees: pure; of the site's list only words of the usual form can be asked for; texts are compared without case and spacing, and in
whatever language they are. Formats: `picker()` of chatgpt.js; `GET /backend-api/models` (2023 .. 2026-10): `{models: [{slug, title,
thinking_efforts: [{thinking_effort, full_label, short_label}]}]}`, efforts in the picker's order. What is missing or of another type in the
site's list is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gptbridge.core.operation import choice


@dataclass(frozen=True, slots=True)
class Switch:
    """One row of the picker, or its slider, as `switchOf` in chatgpt.js tells it. at: where a mouse would point, CSS pixels. off: it cannot
    be chosen now. notice: what the page says about that. efforts: what opens a model's efforts."""

    element: Any
    at: tuple[float, ...]
    labels: tuple[str, ...]
    checked: bool
    off: bool
    notice: str
    slug: str | None = None
    efforts: Any = None


@dataclass(frozen=True, slots=True)
class Shown:
    """`picker()` of chatgpt.js. button: what opens it. more: what shows its models, where they are not to be seen yet. place: (least, now,
    greatest) of the slider."""

    button: Any
    more: Any
    models: tuple[Switch, ...]
    efforts: tuple[Switch, ...]
    slider: Switch | None
    place: tuple[int, int, int]
    dialogs: tuple[str, ...]

    @property
    def switches(self) -> tuple[Switch, ...]:
        return (*self.models, *self.efforts, *((self.slider,) if self.slider is not None else ()))

    @property
    def is_open(self) -> bool:
        return bool(self.switches) or self.more is not None

    @property
    def notices(self) -> list[str]:
        return [switch.notice for switch in self.switches if switch.notice]


@dataclass(frozen=True, slots=True)
class Offer:
    """A model that the site lists: its efforts in order, each a word and what the page may call it."""

    slug: str
    title: str
    efforts: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.efforts]


def read_offers(document: Mapping[str, Any]) -> list[Offer]:
    """The site's list of models. What is no word of the usual form cannot be asked for, and is left out."""
    found = []
    for model in _dicts(document.get("models")):
        efforts = [(str(one.get("thinking_effort")), tuple(str(one[name]) for name in ("full_label", "short_label") if one.get(name)))
                   for one in _dicts(model.get("thinking_efforts"))]
        if _is_word(model.get("slug")):
            found.append(Offer(str(model["slug"]), str(model.get("title") or ""), tuple(one for one in efforts if _is_word(one[0]))))
    return found


def _is_word(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(value) and choice(value) == value
    except ValueError:
        return False


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_shown(said: Mapping[str, Any]) -> Shown:
    def switch(one: Mapping[str, Any]) -> Switch:
        return Switch(one["element"], tuple(one["at"]), tuple(one["labels"]), one["checked"], one["off"], one["notice"], one.get("slug"),
                      one.get("efforts"))

    rows = [(one["kind"], switch(one)) for one in said["options"]]
    slider = said["slider"]
    place = (int(slider["min"]), int(slider["now"]), int(slider["max"])) if slider else (0, 0, 0)
    models, efforts = (tuple(row for kind, row in rows if kind == wanted) for wanted in ("model", "effort"))
    return Shown(said["button"], said["more"], models, efforts, switch(slider) if slider else None, place, tuple(said["dialogs"]))


def same(label: str, texts: Sequence[str]) -> bool:
    return bool(label) and _folded(label) in [_folded(text) for text in texts]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
