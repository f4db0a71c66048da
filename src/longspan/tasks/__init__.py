"""Tasks, one file each: how examples become inputs, head, loss, prediction, choice of scores."""
