"""Measurements: attention beside its alternatives, and the native kernel against its bars.

Everything is a ratio measured in one run. Nothing here is imported by the library itself.
"""
