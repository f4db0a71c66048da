"""Data sets as they are published, read into small examples. No model code, and no torch."""
