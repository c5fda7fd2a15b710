"""`trainload live`: a run or a study while it goes on, on a screen or a local page."""

from __future__ import annotations

import importlib.util
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from trainload.api.living import LiveRun, LiveStudy
    from trainload.report.live.serving import LivePage

EPILOG = """\b
Examples:
  trainload live runs/mlp-20261115-120000-a1b2c3
  trainload live studies/width-and-batch
  trainload live RUN --serve
  trainload live RUN --serve --port 9000 --screen

Keys: e, then y, ends the run well, t traces a window now, m marks a moment, q leaves."""

BIND = typer.Option("127.0.0.1", help="Address to serve on; 0.0.0.0 for other machines too.")
PORT = typer.Option(None, help="Port of the page; default 8765, or a free one.", min=0, max=65535)


def live_verb(
    place: Path = typer.Argument(help="A run directory, or a study's folder.", metavar="RUN"),
    serve: bool = typer.Option(False, "--serve", help="Show a local web page that updates itself."),
    port: int | None = PORT,
    bind: str = BIND,
    screen: bool | None = typer.Option(
        None, "--screen/--no-screen", help="The terminal's screen; default unless a page is served."
    ),
    attached: bool = typer.Option(False, hidden=True),
) -> int:
    """Watch a run or study while it goes on: curves, loads, memory, power, layers, time left.

    Over a run started anywhere on this file system, by this command or another, and over one that
    has ended. Leaving leaves the run alone.
    """
    from trainload.api.living import follow

    serve = serve or port is not None
    screen = not serve if screen is None else screen
    if screen:
        check_screen()
    followed = follow(place)
    page = _open_page(followed, bind, port) if serve else None
    try:
        if page is not None:
            page.start()
        told = "" if page is None else f"page: {page.url}"
        if screen:
            _show_screen(followed, attached, told)
        elif page is not None:
            _serve(followed, page, attached)
    finally:
        if page is not None:
            page.stop()
    return 0


def check_screen() -> None:
    """Raise where no screen can be shown: without textual, or without a terminal."""
    from trainload.errors import MissingPart, UsageError

    if importlib.util.find_spec("textual") is None:
        raise MissingPart(
            "the live screen needs textual, which is not installed; pip install 'trainload[live]', "
            "or use --serve"
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the live screen needs a terminal; use --serve, or trainload show RUN")


def _open_page(followed: LiveRun | LiveStudy, bind: str, port: int | None) -> LivePage:
    from trainload.api.living import LiveRun
    from trainload.report.live.page import run_document, study_document
    from trainload.report.live.serving import LivePage

    if isinstance(followed, LiveRun):
        run = followed
        return LivePage(lambda: run_document(run.view()), bind=bind, port=port)
    study = followed
    return LivePage(
        lambda: study_document(study.status(), running=study.running), bind=bind, port=port
    )


def _show_screen(followed: LiveRun | LiveStudy, attached: bool, told: str) -> None:
    from trainload.api.living import LiveRun
    from trainload.report.live.screen import LiveScreen
    from trainload.report.live.study_screen import StudyScreen

    if isinstance(followed, LiveRun):
        LiveScreen(followed, attached=attached, told=told).run()
    else:
        StudyScreen(followed, told=told).run()


def _serve(followed: LiveRun | LiveStudy, page: LivePage, attached: bool) -> None:
    """Serve until Ctrl-C; beside a run of this terminal until that has ended."""
    from trainload.api.living import LiveRun

    begin = "\r\033[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{begin}live page: {page.url}\n")
    sys.stderr.flush()
    if attached:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's, which ends this too
    try:
        while True:
            time.sleep(1.0)
            if attached and isinstance(followed, LiveRun):
                followed.view()
                if not followed.running:
                    time.sleep(2.0)  # an open page sees the end
                    return
    except KeyboardInterrupt:
        return
