"""Tests of functions that exchange messages between ranks."""
