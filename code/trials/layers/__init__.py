"""Layers and pipelines that a learner cut over ranks, beside the serial ones."""
