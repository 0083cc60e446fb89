"""How long a month and a year are where AWS's prices by the month and terms by the year meet hours."""

HOURS_A_YEAR = 8760
MONTHS_A_YEAR = 12
HOURS_PER_MONTH = 730.0
"""A twelfth of a year's, as AWS's own calculator has it."""
