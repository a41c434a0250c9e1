"""What commands print shows what is in a text from outside, whatever it is."""

from speciate.cli.output import print_table


def test_a_terminal_is_shown_what_is_in_a_cell_and_does_not_obey_it(capsys):
    print_table(("label",), [("a\x1b[2Jb",), ("c\u202ed\ne",), ("naïve [red]🚗",)])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert "a\\x1b[2Jb" in printed
    assert "c\\u202ed\\ne" in printed
    assert "naïve [red]🚗" in printed
