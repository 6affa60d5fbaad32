"""A shell script with its colours, as HTML that stands alone."""

from __future__ import annotations

ALIGNED = "padding-left: 0.6em"
"""As far in as the text that cells print."""


def html(text: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import BashLexer

    formatter = HtmlFormatter(
        noclasses=True, nobackground=True, style="friendly", cssstyles=ALIGNED
    )
    return str(highlight(text, BashLexer(), formatter))
