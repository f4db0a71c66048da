"""Short pretrained models made long."""
