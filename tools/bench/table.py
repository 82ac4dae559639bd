"""What was measured: figure, relation, aim; the table at the end and the line of JSON."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    """`judged` is what the aim is about, where that is not the figure itself (a ratio, a difference)."""

    theme: str
    what: str
    value: float
    unit: str
    relation: str = ""
    aim: float | None = None
    aim_unit: str = ""
    judged: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.aim is None else (self.value if self.judged is None else self.judged) <= self.aim

    def line(self) -> str:
        aim = "" if self.aim is None else f"aim {self.aim:g} {self.aim_unit or self.unit}: {'met' if self.met else 'missed'}"
        return f"{self.what:<58} {shown(self.value):>8} {self.unit:<5} {self.relation:<46} {aim}".rstrip()


def shown(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


@dataclass
class Table:
    figures: list[Figure] = field(default_factory=list)
    theme: str = ""

    def add(self, what: str, value: float, unit: str, relation: str = "", aim: float | None = None, *, aim_unit: str = "",
            judged: float | None = None) -> None:
        self.figures.append(Figure(self.theme, what, value, unit, relation, aim, aim_unit, judged))

    def text(self) -> str:
        out, theme = [], None
        for figure in self.figures:
            if figure.theme != theme:
                theme = figure.theme
                out.append(f"\n{theme}")
            out.append("  " + figure.line())
        judged = [figure.met for figure in self.figures if figure.met is not None]
        out.append(f"\n{sum(judged)} of {len(judged)} aims met")
        return "\n".join(out)

    def facts(self) -> list[dict[str, object]]:
        return [{"theme": one.theme, "what": one.what.strip(), "value": round(one.value, 6), "unit": one.unit, "relation": one.relation,
                 "aim": one.aim, "judged": one.judged, "met": one.met} for one in self.figures]
