"""A page in which documents are asked, and the server behind it."""
