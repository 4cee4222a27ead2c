"""The commands as Airflow lists them; every ``airflow`` command imports this, so it imports little."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.cli.cli_config import (
    ARG_BUNDLE_NAME,
    ActionCommand,
    Arg,
    GroupCommand,
    lazy_load_command,
    positive_int,
)

from airflow_gpu_placement.cli.request_flags import REQUEST_FLAGS

if TYPE_CHECKING:
    import argparse

_PACKAGE = "airflow_gpu_placement.cli"
ERROR_EXIT_CODE = 3


class VerboseArg(Arg):
    """The argument ``--verbose``; it also makes a command line that cannot be read end with exit code 3.

    The parser's own exit code for that is 2, which here means that no pool will ever fit.
    """

    def __init__(self) -> None:
        super().__init__(  # type: ignore[no-untyped-call]  # Airflow's class has no annotations
            ("-v", "--verbose"), help="Make logging output more verbose", action="store_true"
        )

    def add_to_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the argument, and refuse what the parser does not know with a code of our own."""
        super().add_to_parser(parser)
        end_usage_errors_with(parser, ERROR_EXIT_CODE)


def end_usage_errors_with(parser: argparse.ArgumentParser, exit_code: int) -> None:
    """Make a parser leave with this code, and one line on the error stream, when it cannot read arguments."""
    parse_known_args = parser.parse_known_args

    def refuse(message: str) -> Any:
        parser.exit(exit_code, f"error: {message}; see {parser.prog} --help\n")

    def parse_all_args(*args: Any, **kwargs: Any) -> Any:
        namespace, unknown = parse_known_args(*args, **kwargs)
        if unknown:
            refuse(f"unknown arguments: {' '.join(unknown)}")
        return namespace, unknown

    parser.error = refuse  # type: ignore[method-assign]  # of this parser alone
    parser.parse_known_args = parse_all_args  # type: ignore[method-assign]  # of this parser alone


def _arg(*flags: str, **settings: Any) -> Arg:
    return Arg(flags, **settings)  # type: ignore[no-untyped-call]  # Airflow's class has no annotations


_POSITIVE = positive_int(allow_zero=False)  # type: ignore[no-untyped-call]  # nor has this function

ARG_VERBOSE = VerboseArg()
ARG_OUTPUT = _arg(
    "-o",
    "--output",
    help="Output format. Allowed values: table, json, yaml (default: table)",
    metavar="(table, json, yaml)",
    choices=("table", "json", "yaml"),
    default="table",
)
ARG_CATALOG = _arg(
    "-c",
    "--catalog",
    help="Path of the catalogue (default: option catalog of section gpu_placement)",
    metavar="FILE",
)
ARG_DEADLINE = _arg(
    "--signal-deadline",
    help="Seconds that all clusters together get to answer (default: option signal_deadline_seconds)",
    metavar="SECONDS",
    type=float,
)
ARG_REQUEST = _arg(
    "-r",
    "--request",
    help="YAML or JSON file with the request, in the form of the operator's argument gpu",
    metavar="FILE",
)
ARG_DAG = _arg("-d", "--dag", help="DAG that the job is for, which tells who pays", metavar="DAG_ID")
ARG_TASK = _arg(
    "-t",
    "--task",
    help="Take the request, profile and pod_resources of this task of --dag",
    metavar="TASK_ID",
)
ARG_TEAM = _arg("--team", help="Airflow team that the job is for, which tells who pays", metavar="TEAM")
ARG_PROFILE = _arg(
    "-p", "--profile", help="Profile of the catalogue (default: the task's, else cheapest)", metavar="NAME"
)
ARG_COUNTERFACTUAL = _arg(
    "--counterfactual",
    help="Say what would have to be different for this pool to fit, instead of the table",
    metavar="POOL",
)
ARG_GANG = _arg(
    "-g",
    "--gpus-per-node",
    help="Count the largest gang with this many GPUs on each node (default: 1)",
    metavar="N",
    type=_POSITIVE,
    default=1,
)
ARG_CONN_ID = _arg("--conn-id", help="Airflow connection of the cluster", metavar="CONN_ID", required=True)
ARG_CONTEXT = _arg("--context", help="Context of its kubeconfig (default: the current one)", metavar="NAME")
ARG_NAMESPACE = _arg(
    "-n",
    "--namespace",
    help="Namespace for remote jobs that is written into each pool (default: default)",
    metavar="NAME",
    default="default",
)
ARG_OUT = _arg("--out", help="File to write; it must not exist (default: standard output)", metavar="FILE")
ARG_DELETE = _arg("--delete", help="Withdraw what was found (default: only tell)", action="store_true")
ARG_MIN_AGE = _arg(
    "--min-age-minutes",
    help="Leave younger jobs alone (default: 10)",
    metavar="MINUTES",
    type=float,
    default=10.0,
)
ARG_UNKNOWN_RUNS = _arg(
    "--unknown-runs",
    help="Also take jobs that nothing here proves to be ours; only where no other Airflow uses the clusters",
    action="store_true",
)
ARG_ALL = _arg(
    "--all", help="Also list jobs that are wanted, have ended or are being deleted", action="store_true"
)
ARG_DAGS = _arg(
    "--dags",
    help="Also parse the DAGs and look at the tasks that ask for GPUs",
    action="store_true",
)


def request_args() -> tuple[Arg, ...]:
    """Return one argument for each field of a request."""
    return tuple(
        _request_arg(flag.name, flag.help, repeats=flag.repeats, switch=flag.switch, metavar=flag.metavar)
        for flag in REQUEST_FLAGS
    )


def _request_arg(name: str, help_: str, *, repeats: bool, switch: bool, metavar: str) -> Arg:
    if switch:
        return _arg(name, help=help_, action="store_true", default=None)
    if repeats:
        return _arg(name, help=f"{help_}; may be given more than once", action="append", metavar=metavar)
    return _arg(name, help=help_, metavar=metavar)


def _commands() -> tuple[ActionCommand, ...]:
    return (
        _place(),
        ActionCommand(
            name="pools",
            help="List every GPU pool with what it has free now",
            epilog="exit code: 0, also when a pool could not be read (the column problem says why); 3 error",
            func=lazy_load_command(f"{_PACKAGE}.pools.pools_command"),
            args=(ARG_GANG, ARG_CATALOG, ARG_DEADLINE, ARG_OUTPUT, ARG_VERBOSE),
        ),
        ActionCommand(
            name="discover",
            help="Write the GPU pools of a live cluster as a catalogue",
            epilog="exit code: 0 written, 1 the cluster offers no GPU, 3 error",
            func=lazy_load_command(f"{_PACKAGE}.discover.discover_command"),
            args=(ARG_CONN_ID, ARG_CONTEXT, ARG_NAMESPACE, ARG_OUT, ARG_VERBOSE),
        ),
        ActionCommand(
            name="doctor",
            help="Look for what is set up wrongly, and say how to mend it",
            description=(
                "Check the catalogue, every connection, each cluster's identity, rights, labels, version and "
                "clock. Each finding comes with a command to run or lines to write. Nothing is changed."
            ),
            epilog="exit code: 0 nothing found, 1 something found, 3 error",
            func=lazy_load_command(f"{_PACKAGE}.doctor.command.doctor_command"),
            args=(ARG_DAGS, ARG_BUNDLE_NAME, ARG_CATALOG, ARG_DEADLINE, ARG_OUTPUT, ARG_VERBOSE),
        ),
        _reap(),
    )


def _place() -> ActionCommand:
    return ActionCommand(
        name="place",
        help="Say where a job could run now, and why not elsewhere; changes nothing",
        description=(
            "Decide where a job could run now, as a task would, without running it. The request comes "
            "from flags, from a file, or from a task of a DAG; flags win over the other two. Nothing is "
            "written to any cluster."
        ),
        epilog="exit code: 0 a pool fits, 1 none fits now but one may later, 2 none ever will, 3 error",
        func=lazy_load_command(f"{_PACKAGE}.place.place_command"),
        args=(
            *request_args(),
            ARG_REQUEST,
            ARG_DAG,
            ARG_TASK,
            ARG_TEAM,
            ARG_PROFILE,
            ARG_COUNTERFACTUAL,
            ARG_BUNDLE_NAME,
            ARG_CATALOG,
            ARG_DEADLINE,
            ARG_OUTPUT,
            ARG_VERBOSE,
        ),
    )


def _reap() -> ActionCommand:
    return ActionCommand(
        name="reap",
        help="Look for remote jobs that no task waits for any more, and withdraw them",
        description=(
            "Compare the remote jobs on all clusters of the catalogue with Airflow's metadata database. "
            "A job whose task has ended, is gone or has begun another try was left behind. It is only "
            "told unless --delete is given."
        ),
        epilog=(
            "exit code: 0 nothing left to do, 1 found something and told it, 3 error, also when something "
            "could not be withdrawn or a cluster not read"
        ),
        func=lazy_load_command(f"{_PACKAGE}.reap.reap_command"),
        args=(
            ARG_DELETE,
            ARG_MIN_AGE,
            ARG_UNKNOWN_RUNS,
            ARG_ALL,
            ARG_CATALOG,
            ARG_DEADLINE,
            ARG_OUTPUT,
            ARG_VERBOSE,
        ),
    )


def get_gpu_placement_commands() -> list[GroupCommand]:
    """Return the commands for Airflow's parser."""
    return [
        GroupCommand(
            name="gpu-placement",
            help="Place GPU training jobs: what fits where, what is set up wrongly, what was left behind",
            subcommands=_commands(),
        )
    ]
