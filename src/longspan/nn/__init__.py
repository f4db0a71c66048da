"""Modules: attention layers, positions, dropout. Imports torch and longspan.attention only."""
