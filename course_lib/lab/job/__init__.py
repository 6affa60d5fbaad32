"""What is submitted: a recipe, at a site, as the text of a script."""
