"""Tests of layers over ranks: columns and rows, tokens, positions, experts."""
