"""What a model and a layout are, and what follows from them by counting alone."""
