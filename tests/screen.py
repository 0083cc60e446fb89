"""What is on a terminal's screen after all that was written to it."""

import re


def rows(written):
    """The rows of a screen of any size, by the sequences that are used: up, erase below, colours.

    >>> rows("one\\ntwo\\n\\r\\033[1A\\033[J\\033[2mthree\\033[0m")
    ['one', 'three']
    """
    found, row, column = [""], 0, 0
    for up, erase, end, text in re.findall(r"\033\[(\d+)A|(\033\[J)|\033\[[\d;]*m|([\r\n])|([^\033\r\n]+)", written):
        if up:
            row -= int(up)
        elif erase:
            found = [*found[: row + 1]]
            found[row] = found[row][:column]
        elif end == "\r":
            column = 0
        elif end:
            row, column = row + 1, 0
            found += [""] if row == len(found) else []
        elif text:
            found[row] = found[row][:column].ljust(column) + text + found[row][column + len(text) :]
            column += len(text)
    return found
