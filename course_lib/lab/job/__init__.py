"""Recipes, sites, and the scripts made from both."""
