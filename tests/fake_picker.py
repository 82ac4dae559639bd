"""The practice page's picker of model and effort without a browser: the same rows, the same scenarios, pressed by the same calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Scenarios = dict[str, dict[str, Any]]
ROW = 40.0  # height of a row: pointing at one is told by its place


@dataclass
class Press:
    """An element of the picker."""

    click: Callable[[], None]


class FakePicker:
    """`models` reads the site's list, `scenarios` what is on now."""

    def __init__(self, models: Callable[[], list[dict[str, Any]]], scenarios: Callable[[], Scenarios]) -> None:
        self._models, self._scenarios = models, scenarios
        self.model, self.effort = "gpt-5-5", "standard"
        self.presses: list[str] = []
        self._open: str | None = None  # "models", or the model whose efforts are shown
        self._dialogs: list[str] = []
        self._pointed: float | None = None
        self._before: tuple[str, str] | None = None

    @property
    def label(self) -> str:
        return f"{self.model} {self.effort}"

    def asked(self) -> tuple[str, str, str | None]:
        """(model, effort) of the next request, and what the page says about that."""
        other = self._scenarios().get("model-replaced")
        if other is None:
            return self.model, self.effort, None
        return other["model"] or self.model, other["effort"] or self.effort, other["notice"]

    def shown(self) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        if self._open == "models":
            for one in self._models():
                slug, efforts = one["slug"], one["thinking_efforts"]
                press = Press(lambda slug=slug: self._show(slug)) if efforts else None  # type: ignore[misc]
                rows.append(self._row(slug, one["title"], slug == self.model, len(rows), model=slug) | {"slug": slug, "efforts": press})
        elif self._open is not None:
            listed = next(one for one in self._models() if one["slug"] == self._open)["thinking_efforts"]
            translated = "localised" in self._scenarios()
            for effort in listed:
                word = effort["thinking_effort"]
                label = f"<{word[::-1]}>" if translated and word != "standard" else effort["full_label"]
                rows.append(self._row(word, label, word == self.effort, len(rows), effort=word) | {"slug": None, "efforts": None})
        lacking = self._scenarios().get("picker-lacks", {}).get("what")
        return {"button": Press(self._toggle), "more": None, "slider": None, "dialogs": list(self._dialogs),
                "options": [row for row in rows if row["labels"][-1] != lacking]}

    def _row(self, what: str, label: str, checked: bool, number: int, **chosen: str) -> dict[str, Any]:
        scenarios, place = self._scenarios(), [100.0, number * ROW]
        limit, lock = scenarios.get("picker-limit", {}), scenarios.get("picker-locked", {})
        off = limit.get("what") == what

        def press() -> None:
            self.presses.append(what)
            if off:
                return
            self._open = None
            if lock.get("what") == what:
                self._dialogs.append(lock["notice"])
                return
            self._choose(**chosen)

        return {"element": Press(press), "at": place, "labels": [label, what], "checked": checked, "off": off,
                "kind": "model" if "model" in chosen else "effort", "notice": limit["notice"] if off and self._pointed == place[1] else ""}

    def _choose(self, model: str | None = None, effort: str | None = None) -> None:
        before = self.model, self.effort
        if model is not None:
            words = [e["thinking_effort"] for one in self._models() if one["slug"] == model for e in one["thinking_efforts"]]
            self.model, self.effort = model, self.effort if self.effort in words else "standard"
        if effort is not None:
            self.effort = effort
        reverts = self._scenarios().get("picker-reverts", {}).get("at")
        if reverts == "choice":
            self.model, self.effort = before
        self._before = before if reverts == "paste" else None

    def pasted(self) -> None:
        if self._before is not None:
            (self.model, self.effort), self._before = self._before, None

    def _toggle(self) -> None:
        assert not self._dialogs, "a dialog lies over the page"
        self._open = None if self._open else "models"

    def _show(self, slug: str) -> None:
        self._open = slug

    def point(self, y: float) -> None:
        self._pointed = y

    def escape(self) -> None:
        self._open = None
