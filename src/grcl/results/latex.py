"""Tables in LaTeX with booktabs; names cannot break out of their cells."""

from grcl.results.tables import Table
from grcl.runtime.visible import visible

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # a bracket behind \\ would be taken for its argument
    "[": "{[}",
    "]": "{]}",
    "−": "$-$",
    "±": r"$\pm$",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}


def as_latex(table: Table) -> str:
    """The table as a tabular; numbers stand to the right, the best in bold."""
    columns = "".join("r" if is_number else "l" for is_number in table.is_number)
    header = " & ".join(map(escaped, table.header))
    body = [
        " & ".join(_cell(cell, is_best=(r, c) in table.best) for c, cell in enumerate(row))
        for r, row in enumerate(table.rows)
    ]
    lines = [rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"\toprule", rf"{header} \\", r"\midrule"]
    lines += [rf"{row} \\" for row in body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def escaped(text: str) -> str:
    """The text as LaTeX shows it, nothing in it a command."""
    return "".join(SPECIAL.get(char, char) for char in visible(text))


def _cell(text: str, is_best: bool) -> str:
    """The mean as it is, its deviation small, as in the paper."""
    mean, sign, deviation = text.partition(" ± ")
    shown = rf"\textbf{{{escaped(mean)}}}" if is_best else escaped(mean)
    return rf"{shown} {{\scriptsize $\pm$ {escaped(deviation)}}}" if sign else shown
