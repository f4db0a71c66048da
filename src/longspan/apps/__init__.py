"""What people do with models: documents in, plain results out."""
