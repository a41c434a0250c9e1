"""Arguments and options that several commands share."""

from pathlib import Path

import click

config_argument = click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path))

overrides_option = click.option(
    "-s",
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override one key of the configuration, such as run.batch_events=64 or policy.alpha=0.1. The value is "
    "TOML; what is not is taken as text. May be given more than once.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=".",
    show_default="the current folder",
    envvar="SPECIATE_DATA",
    help="Folder of the recorded data. May also be given as the environment variable SPECIATE_DATA.",
)
