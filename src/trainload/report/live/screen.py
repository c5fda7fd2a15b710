"""The live screen of one run: curves, layers, figures, and keys that ask something of the run.

Draws the views that it is given once a second and passes keys on; a screen that goes away leaves
the run alone. Only here and beside it is textual imported.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from typing import ClassVar, Protocol

from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from trainload.analyse.live import LiveChart, LiveView
from trainload.report.live import wording
from trainload.report.live.chart import COLOURS, Row, render_chart
from trainload.report.wording import clean_text
from trainload.units import render_percent, render_seconds

REFRESH_S = 1.0
SURE_S = 5.0
"""Within which the end of a run has to be confirmed."""
CHARTS_EVERY = 2
"""Looks between two drawings of the charts: they are most of the work."""
_MOST_WORDS = 120
_PLAIN = ""
"""The colour of plain text."""


class LiveSource(Protocol):
    """Where views come from and commands go to."""

    def view(self) -> LiveView:
        """The run now."""

    def command(self, verb: str, *, words: str = "", t_s: float | None = None) -> str:
        """Ask something of the run; what became of it, in words. May wait for the answer."""


class ChartBox(Widget):
    """One chart in its frame; its lines are made anew only where its points or its size changed.

    Drawn by the line: a text of as many colours would be taken apart by textual each time.
    """

    def __init__(self, name: str) -> None:
        super().__init__(id=f"chart-{name}", classes="chart")
        self.border_title = wording.TITLES[name]
        self._chart: LiveChart | None = None
        self._strips: list[Strip] = []
        self._drawn: object = None

    def show(self, chart: LiveChart) -> None:
        """Take the chart of a new view."""
        if chart != self._chart:
            self._chart = chart
            self._drawn = None
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the legend or of the chart."""
        size = self.content_size
        base = self.rich_style
        if self._drawn != (size, base):
            self._drawn = size, base
            rows = [] if self._chart is None else _chart_rows(self._chart, size.width, size.height)
            self._strips = [_strip(row, size.width, base) for row in rows]
        return self._strips[y] if y < len(self._strips) else Strip.blank(size.width, base)


def _chart_rows(chart: LiveChart, width: int, height: int) -> list[Row]:
    """The legend, and the lines below it; why there are none."""
    if not any(one.points for one in chart.series):
        words = textwrap.wrap(wording.render_empty(chart), max(1, width))
        return [[(line, None)] for line in words]
    legend: Row = []
    for number, label in enumerate(wording.render_legend(chart)):
        legend.append(("● ", COLOURS[number % len(COLOURS)]))
        legend.append((label + "  ", _PLAIN))
    column = chart.series[0].column
    drawn = render_chart(
        [one.points for one in chart.series],
        (width, height - 1),
        render=lambda value: wording.render_figure(column, value),
        top=chart.top,
        limits=sorted({one.limit for one in chart.series if one.limit is not None}),
    )
    return [legend, *drawn]


def _strip(row: Row, width: int, base: Style) -> Strip:
    styles = {None: base + Style(dim=True), _PLAIN: base}
    pieces = [
        Segment(text, styles.get(colour) or base + Style(color=colour)) for text, colour in row
    ]
    return Strip(pieces).adjust_cell_length(width, base)


class LiveScreen(App[None]):
    """The app; `attached` to a run of its terminal it ends with it, and Ctrl-C ends the run."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    #head { height: 3; padding: 0 1; }
    #charts { layout: grid; grid-size: 3 2; height: 1fr; min-height: 14; }
    #charts.narrow { grid-size: 2 3; }
    .chart { border: round $panel-lighten-2; padding: 0 1; }
    #below { height: 12; }
    #layers { width: 2fr; height: 100%; border: round $panel-lighten-2; padding: 0 1; }
    #notes { width: 1fr; height: 100%; border: round $panel-lighten-2; padding: 0 1; }
    #words { display: none; height: 3; }
    #words.asked { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "end", "end the run well"),
        Binding("y", "confirm", "", show=False),
        Binding("t", "trace", "trace a window now"),
        Binding("m", "mark", "mark this moment"),
        Binding("q", "quit", "leave (the run goes on)"),
        Binding("ctrl+c", "leave", "leave", show=False, priority=True),
        Binding("escape", "forget", "", show=False),
    ]
    _CHARTS = ("loss", "throughput", "load", "memory", "gpu_memory", "power")

    def __init__(self, source: LiveSource, *, attached: bool = False, told: str = "") -> None:
        super().__init__()
        self._source = source
        self._attached = attached
        self._told = told
        """A line to begin with, such as where the page is."""
        self._asked_end_s = float("-inf")
        self._marked_s: float | None = None
        self._shown: dict[str, object] = {}
        self._looks = 0
        self._boxes = {name: ChartBox(name) for name in self._CHARTS}
        self._texts = {name: Static(id=name) for name in ("head", "layers", "notes")}
        self._charts = Container(*self._boxes.values(), id="charts")
        asked = "what of this moment? Enter keeps it, Escape does not"
        self._words = Input(id="words", placeholder=asked)

    def compose(self) -> ComposeResult:
        """Head, six charts, layers and notes, the line for a mark's words, keys."""
        self._texts["layers"].border_title = "Layers so far"
        self._texts["notes"].border_title = "Marks and notes"
        self._words.can_focus = False
        yield self._texts["head"]
        yield self._charts
        yield Horizontal(self._texts["layers"], self._texts["notes"], id="below")
        yield self._words
        yield Footer()

    def on_ready(self) -> None:
        """Begin to look once a second; the first view is drawn at once."""
        self.set_interval(REFRESH_S, self.look)
        self.look()

    def on_resize(self) -> None:
        """Two charts beside each other where three have no room."""
        self._charts.set_class(self.size.width < 100, "narrow")

    def look(self) -> None:
        """Draw the run as it is now."""
        view = self._source.view()
        self._put("head", (view.standing, wording.render_figures(view)), lambda: _head(view))
        if self._looks % CHARTS_EVERY == 0 or view.standing != "running":
            for chart in view.charts:
                self._boxes[chart.name].show(chart)
        self._looks += 1
        self._put("layers", (view.layers, view.layers_note), lambda: _layers(view))
        notes = wording.render_notes(view)
        told = [self._told] if self._told else []
        self._put("notes", (told, notes), lambda: Text("\n".join([*told, *notes])))
        if self._attached and view.standing != "running":
            self.exit()

    def _put(self, place: str, key: object, draw: Callable[[], Text | Table]) -> None:
        """Draw a part anew where what it shows has changed."""
        if self._shown.get(place) != key:
            self._shown[place] = key
            self._texts[place].update(draw(), layout=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While words are asked for, keys are words, even before their line has the focus."""
        del parameters
        return self._marked_s is None or action in ("forget", "leave")

    def action_end(self) -> None:
        """Ask whether the training is really to end."""
        self._asked_end_s = time.monotonic()
        self.notify("press y to end the training well; its record stays", timeout=SURE_S)

    def action_confirm(self) -> None:
        """End the run as Ctrl-C would, if that was asked for a moment ago."""
        if time.monotonic() - self._asked_end_s <= SURE_S:
            self._asked_end_s = float("-inf")
            self._ask("end")

    def action_trace(self) -> None:
        """Have a window traced now."""
        self._ask("trace")

    def action_mark(self) -> None:
        """Remember this moment and ask for words."""
        self._marked_s = time.monotonic()
        words = self._words
        words.value, words.can_focus = "", True
        words.add_class("asked")
        words.focus()

    def action_forget(self) -> None:
        """Mark nothing after all."""
        self._close_words()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the mark."""
        t_s, words = self._marked_s, clean_text(event.value)[:_MOST_WORDS]
        self._close_words()
        if t_s is not None:
            self._ask("mark", words=words, t_s=t_s)

    def action_leave(self) -> None:
        """Ctrl-C: to the run where this is its terminal, else to this screen alone."""
        if self._attached:
            self._ask("end")
        else:
            self.exit()

    def _close_words(self) -> None:
        self._words.remove_class("asked")
        self._words.can_focus = False
        self._marked_s = None
        self.set_focus(None)

    def _ask(self, verb: str, *, words: str = "", t_s: float | None = None) -> None:
        """Send a command from a thread: the answer may take a moment."""

        def ask() -> None:
            said = self._source.command(verb, words=words, t_s=t_s)
            self.call_from_thread(self.notify, clean_text(said))

        self.run_worker(ask, thread=True)


def _head(view: LiveView) -> Text:
    text = Text(wording.render_title(view), style="bold", no_wrap=True, overflow="ellipsis")
    colour = "green" if view.outcome in (None, "completed") else "red"
    text.append("   ").append(wording.render_standing(view), style=colour).append("\n")
    for name, value in wording.render_figures(view):
        text.append(f"{name} ", style="dim").append(f"{value}   ")
    return text


def _layers(view: LiveView) -> Text | Table:
    found = view.layers
    if found is None:
        return Text(view.layers_note or "", style="dim")
    parts = ", ".join(
        f"{name} {render_percent(spent_s / found.step_s, 0)}" for name, spent_s in found.parts[:4]
    )
    table = Table(box=None, padding=(0, 1), expand=True, title_justify="left")
    table.title = Text(f"window {found.window}: {parts}", style="dim")
    table.add_column("layer", no_wrap=True, ratio=1)
    table.add_column("class", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("of a step", justify="right", no_wrap=True)
    for one in found.layers:
        table.add_row(
            Text(clean_text(one.layer)),
            Text(clean_text(one.class_name or "")),
            render_seconds(one.time_s),
            render_percent(one.fraction),
        )
    return table
