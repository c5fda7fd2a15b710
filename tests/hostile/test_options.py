"""A few hundred fuzzed command lines; `make chaos` does a hundred thousand."""

from chaos_parts.options import fuzz


def test_no_command_line_ends_in_a_traceback():
    tally = fuzz(seed=1, count=300)
    assert tally.trials == 300 and tally.complaints == []
