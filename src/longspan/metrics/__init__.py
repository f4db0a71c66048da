"""Scores of the Longformer paper's tasks: plain Python, no model code, no torch.

Every score is a part of 1, not a percentage, and knows its `record` for JSON.
"""
