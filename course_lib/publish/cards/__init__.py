"""One-page cards for the lessons: commands, functions and main points.

content    content of a card from the lesson's source, without answers to gaps
pages      a card as Markdown and as a page to print
"""
