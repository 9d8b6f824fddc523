"""Names come from outside (folders, files): what cannot be seen in them is written out."""


def visible(text: str) -> str:
    r"""The text with control, direction and other unprintable characters spelt as escapes such as `\x1b`."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
