"""One page of a report, taken apart for the tests."""

from html.parser import HTMLParser


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
