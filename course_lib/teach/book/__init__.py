"""The book: the lessons as pages to read, made of notebooks that were run."""
