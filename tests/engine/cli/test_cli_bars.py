"""Where there is no terminal, counted work is told now and then, with the time it still takes."""

from speciate.cli import bars
from speciate.cli.bars import LINE_SECONDS, counting


def test_lines_tell_how_long_it_still_takes(monkeypatch, caplog):
    caplog.set_level("INFO")
    now = 50.0
    monkeypatch.setattr(bars.time, "monotonic", lambda: now)
    with counting("training") as show:
        show(10, 40, "")  # done by an earlier attempt
        for done in range(11, 41):
            now += LINE_SECONDS / 5
            show(done, 40, f"epoch {done}")
    told = [one for one in caplog.records if one.name == "speciate.cli.bars"]
    assert [(one.done, one.total, one.seconds_left) for one in told] == [
        (15, 40, 50),
        (20, 40, 40),
        (25, 40, 30),
        (30, 40, 20),
        (35, 40, 10),
        (40, 40, 0),
    ]
    assert told[0].last == "epoch 15"
