"""Devices, links and clusters: from data sheets, from tables, and as measured."""
