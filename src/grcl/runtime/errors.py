"""What the package says when it cannot go on: one sentence with the remedy, and an exit code."""


class Refusal(Exception):
    """The request cannot be carried out as given; nothing was done."""

    exit_code = 2


class Failure(Exception):
    """The work broke off midway; what was saved is good. What follows the sentence is told below it, line by line."""

    exit_code = 1
