"""Kinds of attention: each one file, each told what it reads by a `Call`, all registered in `registry.py`."""
