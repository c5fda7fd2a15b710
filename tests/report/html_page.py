"""A page taken apart, for the tests of every report; and the page of some runs."""

from html.parser import HTMLParser

from trainload.analyse import summarise_run
from trainload.api.reporting import find_runs, many_runs
from trainload.record import open_run
from trainload.report import render_html, render_many


def page_of(*paths):
    """The text of the page that `trainload report` writes of these run directories or studies."""
    if len(paths) == 1 and (paths[0] / "run.json").exists():
        run = open_run(paths[0])
        return render_html(run, summarise_run(run))
    return render_many(many_runs(find_runs(paths))).text


class Page(HTMLParser):
    """Tags with attributes, and the content of scripts, of one page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.texts, self._open = [], [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        if tag == "script":
            self.scripts.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open == "script":
            self.scripts[-1][1] += data
        elif self._open != "style":
            self.texts.append(data)
