"""Plain text tables that grow as results come."""


class Table:
    """Prints its header at once and each row when it is known.

    Parameters
    ----------
    *columns : str
        Headings; the first column is left-aligned.
    width : int
        Of the first column.

    Attributes
    ----------
    rows : list of list
        What was printed, for records.
    """

    def __init__(self, *columns, width=40):
        self.width, self.rows = width, []
        self.row(*columns)
        print("-" * (width + 12 * (len(columns) - 1)), flush=True)

    def row(self, name, *values):
        self.rows.append([name, *values])
        cells = (f"{v:12.4f}" if isinstance(v, float) else f" {v!s:>11}" for v in values)
        print(f"{name:<{self.width}}" + "".join(cells), flush=True)
