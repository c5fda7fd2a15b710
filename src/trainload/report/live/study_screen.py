"""The live screen of a study: the line of how far it is, and a table of its cells."""

from __future__ import annotations

from typing import ClassVar, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static

from trainload.report.study import StatusLike, render_line, status_rows
from trainload.report.wording import clean_text

REFRESH_S = 2.0
MOST_CELLS = 500
_COLOURS = {"running": "cyan", "done": "green", "failed": "red", "untrusted": "red"}


class StudySource(Protocol):
    """Where a study's status comes from."""

    def status(self) -> StatusLike:
        """How far it is now."""

    def stop(self) -> str:
        """Have it finish the running cell and end; what became of that, in words."""


class StudyScreen(App[None]):
    """The app; leaving it leaves the study alone."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "#line { height: 2; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "stop after the running cell"),
        Binding("q", "quit", "leave (the study goes on)"),
        Binding("ctrl+c", "quit", "leave", show=False, priority=True),
    ]

    def __init__(self, source: StudySource, *, told: str = "") -> None:
        super().__init__()
        self._source = source
        self._told = told
        self._shown: object = None

    def compose(self) -> ComposeResult:
        """The line, the table, the keys."""
        yield Static(id="line")
        yield DataTable(id="cells", cursor_type="row")
        yield Footer()

    def on_ready(self) -> None:
        """Begin to look every two seconds."""
        self.set_interval(REFRESH_S, self.look)
        self.look()

    def look(self) -> None:
        """Draw the study as it is now, where that has changed."""
        status = self._source.status()
        titles, rows = status_rows(status, MOST_CELLS)
        text = "  ".join(part for part in (render_line(status), self._told) if part)
        if self._shown == (text, rows):
            return
        self._shown = text, rows
        self.query_one("#line", Static).update(Text(text, style="bold"))
        table: DataTable[Text] = self.query_one("#cells", DataTable)
        place = table.scroll_offset
        table.clear(columns=True)
        table.add_columns(*titles)
        for row in rows:
            style = _COLOURS.get(row[1], "")
            table.add_row(
                *(Text(cell, style=style if at == 1 else "") for at, cell in enumerate(row))
            )
        table.scroll_to(place.x, place.y, animate=False)

    def action_stop(self) -> None:
        """Ask for the end after the running cell."""
        self.notify(clean_text(self._source.stop()))
