"""The book: the lessons as web pages, made from executed notebooks."""
