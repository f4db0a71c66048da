"""Attention on tensors: one operation, four implementations that agree."""
