"""Hugging Face `PreTrainedModel` classes on longspan's attention."""
