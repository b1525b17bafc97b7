"""Figures of pages from the records of benchmarks.

    :measured:`drop_in.worst_seed:.2f`

    .. measured:: certified.table:.2f

A record or figure that is missing is an error of the build. What stands in a page as a ratio, a
score or a time, and was never measured, as it is true by definition, says so: :defined:`5 times`.
`make lint` refuses others.
"""

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxRole

from benchmarks import records


def found(reference, env):
    env.note_dependency(str(records.path_of(reference)))
    try:
        return records.found(reference)
    except (KeyError, OSError) as error:
        raise ExtensionError(f"no figure {reference!r} in the records: {error!r}") from error


class Measured(SphinxRole):
    def run(self):
        return [nodes.Text(records.cell(*found(self.text, self.env)))], []


class Defined(SphinxRole):
    def run(self):
        return [nodes.Text(self.text)], []


class MeasuredTable(SphinxDirective):
    required_arguments = 1

    def run(self):
        rows = records.cells(*found(self.arguments[0], self.env))
        items = ["\n     - ".join([f"   * - {first}", *others]) for first, *others in rows]
        text = "\n".join([".. list-table::", "   :header-rows: 1", "", *items])
        return self.parse_text_to_nodes(text.replace("`", "``"))


def setup(app):
    app.add_role("measured", Measured())
    app.add_role("defined", Defined())
    app.add_directive("measured", MeasuredTable)
    return {"parallel_read_safe": True}
