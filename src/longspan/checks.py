"""What numbers that a user gives must be."""


def at_least(least: float, **fields: float | None) -> None:
    """Checks fields, by name; None stands for one that is not given.

    Raises:
        ValueError: one is less, or no number at all.
    """
    for name, value in fields.items():
        if value is not None and not value >= least:
            raise ValueError(f"{name} is {value}; it must be at least {least}")
