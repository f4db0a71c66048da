"""The commands. Thin: each parses its arguments and calls a layer below."""
