"""Devices, links and clusters from data sheets, tables and measurements."""
