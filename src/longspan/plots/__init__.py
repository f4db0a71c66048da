"""Pictures. They need matplotlib: the extra `plots`."""
