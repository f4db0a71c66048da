"""One loop that trains every task: recipes, batches, checkpoints, metrics, many processes."""
