"""The demo from its first line to the last: start everything, play, show, end everything."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import msgspec
from rich.text import Text

from lab.airflow.diagnostics import CARRIES_LOG_TAILS
from lab.demo import fleet, report
from lab.demo.figures import figures_of
from lab.demo.options import Options, parse
from lab.demo.scenario import TASK_ID, Run
from lab.demo.screen import Screen, terminal
from lab.demo.stage import CREDENTIALS, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.demo.facts import Facts
    from lab.demo.figures import Figures

TASK_LOG_LINES = 30
SERVER_LOG_LINES = 5
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class StoppedError(BaseException):
    """A signal told the demo to end; not an Exception, as KeyboardInterrupt is none.

    :param number: which signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def main(arguments: Sequence[str]) -> int:
    """Run the demo; return the exit code."""
    options = parse(arguments, os.environ)
    for number in _SIGNALS:
        signal.signal(number, _stop)
    with Screen(terminal()) as screen:
        try:
            return _run(options, screen)
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except StoppedError as stopped:
            return 128 + stopped.number


def _stop(number: int, _frame: object) -> None:
    raise StoppedError(number)


def _run(options: Options, screen: Screen) -> int:
    """Start everything, play, and end everything, however it goes; return the exit code."""
    _announce(options, screen)
    with Stage(screen) as stage:
        try:
            code = _play(options, screen, stage)
        finally:
            # A further signal must not break off the end.
            for number in (*_SIGNALS, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            screen.say("stopping everything")
            screen.doing("stopping")
    return code


def _announce(options: Options, screen: Screen) -> None:
    epoch = f"epoch {options.kill_at_epoch} of {options.epochs}"
    chosen = "drawn at random; --kill-at-epoch N chooses" if options.drawn else "as you chose"
    screen.say(
        "Two Kubernetes clusters with three GPU pools and an Airflow start on this machine. A training job "
        f"is placed; after {epoch} ({chosen}) its node loses power; the job goes on elsewhere. One to "
        "two minutes; the first time about 8 on 2 cores, because Kubernetes is built then.",
        "bold",
    )
    screen.say(f"Shortened for the demo: {fleet.shortened()}.")


def _play(options: Options, screen: Screen, stage: Stage) -> int:
    run: Run | None = None
    try:
        stage.start_lab()
        stage.start_airflow()
        dag_id, run_id = stage.trigger(options)
        run = Run(stage.lab, stage.airflow, screen, options, stage.checkpoints, dag_id, run_id)
        facts = run.follow()
        _show(options, screen, facts, figures_of(facts))
        code = 0
    except Exception as error:  # noqa: BLE001 - the edge of the process: whatever failed is told, with logs
        _tell_failure(error, screen, stage, run)
        code = 1
    screen.doing("")
    if stage.ready and options.keep:
        _hold(screen, stage, _ui_address(stage, run))
    elif code == 0:
        screen.say("KEEP=1 make demo leaves everything up at the end. Airflow's UI was at")
        screen.copyable(_ui_address(stage, run))
    return code


def _show(options: Options, screen: Screen, facts: Facts, figures: Figures) -> None:
    for part in report.figures_view(figures):
        screen.show(part)
    if options.json_file is not None:
        text = msgspec.json.format(msgspec.json.encode(figures), indent=2)
        options.json_file.write_bytes(text + b"\n")
    if options.svg_file is not None:
        options.svg_file.write_text(report.picture(facts, figures), encoding="utf-8")


def _ui_address(stage: Stage, run: Run | None) -> str:
    place = f"/dags/{run.dag_id}/runs/{run.run_id}/tasks/{TASK_ID}" if run is not None else ""
    return stage.airflow.base_url + place


def _hold(screen: Screen, stage: Stage, address: str) -> None:
    """Leave everything up until ctrl-C, and say how to look at it."""
    try:
        screen.say("Everything stays up until ctrl-C", "bold")
        for what, text in [(f"Airflow's UI ({CREDENTIALS})", address), *stage.how_to_look()]:
            screen.say(f"{what}:")
            screen.copyable(text)
        while True:
            stage.airflow.check_alive()
            time.sleep(1)
    except (KeyboardInterrupt, StoppedError):
        return


def _tell_failure(error: Exception, screen: Screen, stage: Stage, run: Run | None) -> None:
    """Say what failed, show the end of the logs, and say where there is more."""
    screen.doing("")
    screen.say(f"The demo failed: {type(error).__name__}: {error}", "bold red")
    if stage.ready and not getattr(error, CARRIES_LOG_TAILS, False):
        if run is not None:
            screen.show(Text(run.log_tail(TASK_LOG_LINES)))
        screen.show(Text(stage.airflow.server_logs(SERVER_LOG_LINES)))
    screen.say(
        "Where to look: KEEP=1 make demo leaves the clusters, Airflow's UI and all logs up after a failure "
        "as well, and says where they are"
    )
