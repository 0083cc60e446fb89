"""The content of a terminal's screen after a given output."""

import re


def rows(written):
    """The rows of a screen of any size; supports the used sequences: up, erase below, colours.

    >>> rows("one\\ntwo\\n\\r\\033[1A\\033[J\\033[2mthree\\033[0m")
    ['one', 'three']
    """
    screen_rows, row, column = [""], 0, 0
    for up, erase, end, text in re.findall(r"\033\[(\d+)A|(\033\[J)|\033\[[\d;]*m|([\r\n])|([^\033\r\n]+)", written):
        if up:
            row -= int(up)
        elif erase:
            screen_rows = [*screen_rows[: row + 1]]
            screen_rows[row] = screen_rows[row][:column]
        elif end == "\r":
            column = 0
        elif end:
            row, column = row + 1, 0
            screen_rows += [""] if row == len(screen_rows) else []
        elif text:
            screen_rows[row] = screen_rows[row][:column].ljust(column) + text + screen_rows[row][column + len(text) :]
            column += len(text)
    return screen_rows
