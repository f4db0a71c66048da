"""`longspan plot`: pictures of who sees whom."""

from cyclopts import App

app = App(name="plot", help="Draw attention patterns.")
