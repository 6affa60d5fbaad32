"""A shell script with its colours, as HTML that stands alone."""

from __future__ import annotations


def html(text: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import BashLexer

    formatter = HtmlFormatter(noclasses=True, nobackground=True, style="friendly")
    return str(highlight(text, BashLexer(), formatter))
