"""The group: what `--help` costs, how commands are found, and how each kind of error ends."""

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from speciate import cli, errors
from speciate.cli.failures import EXIT_CODES
from speciate.plugins import Plugins

HELP_IN_PROCESS = """
import sys
from speciate.cli import group
group.main(["--help"], prog_name="speciate", standalone_mode=False)
print(*sys.modules, sep="\\n")
"""


def run(*args, **env):
    return CliRunner(env=env).invoke(cli.group, list(args), prog_name="speciate")


@pytest.fixture
def failing(monkeypatch):
    """A way to make `speciate schema` raise."""

    def arrange(error):
        @click.command()
        def command():
            raise error

        monkeypatch.setattr("speciate.cli.schema.command", command)

    return arrange


def all_errors(kind=errors.SpeciateError):
    return {kind}.union(*(all_errors(one) for one in kind.__subclasses__()))


def test_help_imports_no_command_and_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", HELP_IN_PROCESS], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines())
    assert "click" in loaded
    assert loaded.isdisjoint({"numpy", "scipy", "rich", "msgspec", "pluggy", "structlog", "asyncio"})
    assert loaded.isdisjoint({module for module, _ in cli.COMMANDS.values()})


@pytest.mark.parametrize("name", [*cli.COMMANDS, "category merge", "topics", "topics create"])
def test_help_of_a_command_imports_nothing_heavy(name):
    code = HELP_IN_PROCESS.replace('["--help"]', repr([*name.split(), "--help"]))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()).isdisjoint({"numpy", "scipy", "rich", "msgspec"})


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_table_says_what_the_command_says(name):
    command = cli.group.get_command(click.Context(cli.group), name)
    assert command.name == name
    # Some versions of click keep the full stop.
    assert command.get_short_help_str(limit=200).rstrip(".") == cli.COMMANDS[name][1]


def test_help_lists_every_command_and_exit_code():
    result = run("--help")
    assert result.exit_code == 0
    for name, (_, line) in cli.COMMANDS.items():
        assert f"{name} " in result.output
        assert line in result.output
    for code, meaning in EXIT_CODES.items():
        assert f"  {code:<3}  {meaning}\n" in result.output


def test_every_error_has_a_documented_exit_code():
    assert {error.exit_code for error in all_errors()} <= set(EXIT_CODES)


def test_version():
    assert run("--version").output.startswith("speciate 0.")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["chekc"], "no such command 'chekc'; did you mean 'check'?"),
        (["xyzzy"], "no such command 'xyzzy'\n"),
        (["--nonsense"], "--nonsense"),
        (["check"], "CONFIG"),
        (["plugins", "--stage", "sauce"], "'sauce' is not one of source, encoder"),
    ],
)
def test_usage_errors_exit_2(args, says):
    result = run(*args)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("kind", sorted(all_errors(), key=lambda kind: kind.__name__))
def test_an_error_of_ours_is_one_line_and_its_exit_code(failing, kind):
    failing(kind("what was wrong\n  and what to do"))
    result = run("schema", SPECIATE_DEBUG="")
    assert result.exit_code == kind.exit_code
    assert result.stderr == "speciate: error: what was wrong and what to do\n"


@pytest.mark.parametrize("error", [ValueError("odd"), OSError(5, "odd"), ExceptionGroup("odd", [KeyError(1)])])
def test_what_nobody_foresaw_is_one_line_too(failing, error):
    failing(error)
    result = run("schema", SPECIATE_DEBUG="")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"speciate: error: unexpected {type(error).__name__}: ")
    assert "odd" in result.stderr
    assert result.stderr.endswith("; set SPECIATE_DEBUG=1 for the traceback\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("error", "code"), [(ValueError("odd"), 1), (errors.StateLockedError("odd"), 3)])
def test_the_traceback_comes_when_asked_for(failing, error, code):
    failing(error)
    result = run("schema", SPECIATE_DEBUG="1")
    assert result.exit_code == code
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("speciate: error: ")


def test_interruption_exits_130(failing):
    failing(KeyboardInterrupt())
    result = run("schema")
    assert result.exit_code == 130
    assert result.stderr == "\nspeciate: interrupted\n"


def speciate(*args, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", "from speciate.cli import main; main()", *args],
        capture_output=True,
        text=True,
        check=False,
        **kwargs,
    )


def test_the_entry_point_exits_with_the_code(tmp_path):
    assert speciate("--help").returncode == 0
    assert speciate("nonsense").returncode == 2
    missing = speciate("check", str(tmp_path / "missing.toml"))
    assert missing.returncode == 2
    assert missing.stderr.startswith("speciate: error: cannot read the configuration")
    refused = speciate("init", str(tmp_path / "no" / "such" / "folder.toml"))
    assert refused.returncode == 4
    assert "Traceback" not in refused.stderr


def test_a_reader_that_goes_away_is_no_error_worth_a_traceback():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", "from speciate.cli import main; main()", "schema"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_one_blas_thread_unless_told_otherwise(monkeypatch, given, used):
    monkeypatch.setattr(cli.group, "main", lambda **_: None)
    # Set first, so that it is put back as it was whoever changes it.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")
    if given is None:
        del os.environ["OPENBLAS_NUM_THREADS"]
    cli.main()
    assert os.environ["OPENBLAS_NUM_THREADS"] == used


GREETING = """
import click
from speciate.errors import StateLockedError

@click.command(name="greet")
@click.option("--loudly", is_flag=True, help="Shout.")
def command(*, loudly):
    \"\"\"Greet whoever is there.\"\"\"
    if loudly:
        raise StateLockedError("somebody sleeps")
    click.echo("hello")
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A way to install a package that brings a command along."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name, command, source=GREETING):
        module = f"module_of_{name}"
        if source is not None:
            (tmp_path / f"{module}.py").write_text(source)
        metadata = tmp_path / f"{name}-1.2.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (metadata / "entry_points.txt").write_text(
            f"[console_scripts]\ncommand.{command} = other\n\n[speciate]\ncommand.{command} = {module}\n"
        )

    yield install
    for module in [name for name in sys.modules if name.startswith("module_of_")]:
        del sys.modules[module]


def line_of(name):
    """What the help says of a command, with its lines joined; None if it does not list it."""
    words = " ".join(run("--help").output.partition("Commands:")[2].split())
    return words.partition(f" {name} ")[2] or None


def test_a_package_brings_a_command_along(package):
    package("greeter", "greet")
    assert line_of("greet").startswith("Greet whoever is there")
    assert run("greet").output == "hello\n"
    assert "Shout." in run("greet", "--help").output
    refused = run("greet", "--loudly")
    assert (refused.exit_code, refused.stderr) == (3, "speciate: error: somebody sleeps\n")
    assert "did you mean 'greet'?" in run("gret").stderr


def problem_of(name):
    return next(report.problem for report in Plugins().survey() if report.plugin.package == name)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise RuntimeError('torn')", "cannot be imported: RuntimeError: torn; mend or uninstall broken"),
        ("import sys; sys.exit(7)", "cannot be imported: SystemExit: 7"),
        (None, "cannot be imported: ModuleNotFoundError"),
        ("command = 3", "must have a click command called 'command', got 3"),
        ("", "must have a click command called 'command', got None"),
    ],
)
def test_a_broken_command_stops_nobody_else(package, source, says):
    package("broken", "aaa", source)
    package("greeter", "greet")
    listed = line_of("aaa")
    assert listed.startswith("not usable: command 'aaa' of package broken")
    assert says in listed
    assert line_of("greet")
    assert line_of("schema")
    done = run("aaa")
    assert done.exit_code == 2
    assert done.stderr.startswith("speciate: error: command 'aaa' of package broken")
    assert says in done.stderr
    assert says in problem_of("broken")


def test_a_name_that_is_taken_is_refused(package):
    package("usurper", "schema")
    says = "command 'schema' of package usurper has the name of a built-in command: rename it, or uninstall usurper"
    assert says in " ".join(run("--help").output.split())
    assert run("schema", "FeatureEvent").output.startswith("{")
    assert problem_of("usurper") == says


def test_a_name_that_two_packages_have_is_refused(package):
    package("one", "greet")
    package("two", "greet")
    done = run("greet")
    assert done.exit_code == 2
    assert "command 'greet' is provided twice, by one and two: uninstall one of the packages" in done.stderr
    assert "provided twice" in line_of("greet")
    assert "provided twice" in problem_of("two")


def test_metadata_that_cannot_be_read_hides_nothing(package, tmp_path):
    package("greeter", "greet")
    (tmp_path / "torn-1.dist-info").mkdir()
    (tmp_path / "torn-1.dist-info" / "entry_points.txt").write_bytes(b"[speciate]\ncommand.\xff")
    assert run("greet").output == "hello\n"


def test_the_first_copy_of_a_package_on_the_path_counts(package, tmp_path, monkeypatch):
    package("greeter", "greet")
    behind = tmp_path / "behind" / "greeter-1.1.dist-info"
    behind.mkdir(parents=True)
    (behind / "entry_points.txt").write_text("[speciate]\ncommand.older = nothing\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(behind.parent)])
    assert line_of("older") is None
