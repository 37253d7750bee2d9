"""``trident``: the command line for operators: to run, submit and serve topologies, and to look after their states.

Exit codes: 0 done, 1 an error (one line on stderr), 2 wrong usage, 3 `get` found no value for one of its keys.
"""

import click

from trident.base.errors import TridentError
from trident.cli.config import config
from trident.cli.doctor import doctor
from trident.cli.explain import explain
from trident.cli.lifecycle import activate, deactivate, kill, list_, rebalance, resume, submit
from trident.cli.positions import positions
from trident.cli.prepare_java import prepare_java
from trident.cli.query import query
from trident.cli.reset import reset
from trident.cli.run import run
from trident.cli.savepoint import fork, restore, savepoint
from trident.cli.serve import serve
from trident.cli.sql import sql
from trident.cli.state import state
from trident.cli.tag import tag

_ELSEWHERE = {
    "status": "`trident list` shows stored topologies, and `trident positions` how far they have read their sources.",
    "start": "`trident run module:topology` runs a topology here; `trident submit` stores it and starts its driver.",
    "stop": "`trident kill NAME` stops a stored topology; SIGTERM or Ctrl-C stops `trident run`.",
    "jar": "A topology is a Python program: `trident submit module:topology`.",
    "get": "`trident state get TOPOLOGY STATE KEY` reads a state, and `trident query URL` asks a server.",
    "drpc": "`trident query URL FUNCTION ARGS` calls a DRPC function of a server.",
}
"""Commands of Storm and of service managers, each with its replacement here."""


class _Commands(click.Group):
    """The group of all commands. An error of a command is printed as one line instead of a traceback."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in _ELSEWHERE:
            ctx.fail(f"No such command {args[0]!r}. {_ELSEWHERE[args[0]]}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:  # perhaps it is not an option, but a negative key, or a name such as -x
            if error.option_name.startswith("--"):
                raise
            text = "Write -- before an argument that begins with '-': trident state get words counts -- -5."
            named, near = error.option_name, error.possibilities
            raise click.NoSuchOption(named, f"{error.message} {text}", near, error.ctx) from None
        except BrokenPipeError:  # raised in `trident state scan ... | head`; click then ends the program quietly
            raise
        except (TridentError, ValueError, OSError) as error:
            message = " ".join(str(error).split()) or type(error).__name__
            click.echo(f"trident: {type(error).__name__}: {message}", err=True)
            ctx.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="trident-pyspark", message="%(version)s")
def main() -> None:
    """Run and serve Trident topologies, and look after the states of those that are stopped or run elsewhere."""


main.add_command(run)
for command in (submit, resume, list_, activate, deactivate, rebalance, kill):
    main.add_command(command)
main.add_command(positions)
main.add_command(state)
main.add_command(tag)
main.add_command(reset)
main.add_command(savepoint)
main.add_command(fork)
main.add_command(restore)
main.add_command(serve)
main.add_command(query)
main.add_command(sql)
main.add_command(config)
main.add_command(doctor)
main.add_command(explain)
main.add_command(prepare_java)
