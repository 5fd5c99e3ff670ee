"""Reads what notebooks are shown: rows of tables, what is folded, and whether the tags fit together."""

import re
from html.parser import HTMLParser

_ALONE = {"br"}
_ALLOWED = {"div", "b", "i", "p", "br", "code", "small", "details", "summary"}
_ALLOWED |= {"table", "thead", "tbody", "tr", "th", "td"}


class Shown(HTMLParser):
    """`rows` are lists of cells, in order, heads included; `folded` the summaries; `text` everything."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.folded, self.text, self._open = [], [], "", []
        self.feed(html)
        assert self._open == []
        # Nothing may move, load or be painted over, and no colour be named: the theme decides.
        assert not re.search(r"<[^>]*(color|background|url\(|href|src|onclick)", html)

    def handle_starttag(self, tag, attrs):
        assert tag in _ALLOWED
        assert {name for name, _ in attrs} <= {"style", "colspan"}
        if tag not in _ALONE:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "summary":
            self.folded.append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "summary" in self._open:
            self.folded[-1] += data
        elif "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += data

    def row(self, first):
        """Return the cells after the one that reads `first`."""
        [found] = [row[1:] for row in self.rows if row and row[0] == first]
        return found
