"""The parent of one container's processes; it outlives the agent that started it.

It reads ``spec.json`` in the container's folder, enters the sandbox, starts the command, copies its output to
``log`` with a time stamp on each line, and leaves ``exit.json`` behind. It and the modules that it uses need
the standard library only, so that it is up in a few hundredths of a second.

Signals: SIGTERM asks the container's first process to end, SIGUSR1 kills everything in the container.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import sys
import time

from lab.node.output import Log
from lab.node.procfs import descendants, handles_sigterm, start_time
from lab.node.rootfs import LIBC, enter_namespaces, make_root, mount

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: error during container init: "
)
BAD_FORMAT_EXIT = 255  # what runc ends with: it finds out only when the container counts as started


def write_atomically(path: str, text: str) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    with open(path + ".new", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".new", path)


def run_command(spec: dict[str, object], output: int, errors: int) -> None:
    """In the new process: finish the sandbox and become the command. Never returns."""
    try:
        os.setsid()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        sandbox = spec["sandbox"]
        if isinstance(sandbox, dict):
            root = str(spec["root"])
            if sandbox["pid"]:
                mount("proc", root + "/proc", "proc", 0)
            name = os.fsencode(str(spec["hostname"]))
            LIBC.sethostname(name, len(name))
            os.chroot(root)
        os.chdir(str(spec["cwd"]))
        for number in (1, 2):
            os.dup2(output, number)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        argv, env = spec["argv"], spec["env"]
        os.execvpe(argv[0], argv, env)  # type: ignore[index,arg-type]  # written by the agent as lists
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            os.write(2, f"exec {error.filename}: exec format error\n".encode())
            os._exit(BAD_FORMAT_EXIT)
        os.write(errors, explain(spec, error).encode())
    finally:
        os._exit(128)


def explain(spec: dict[str, object], error: OSError) -> str:
    """Say why the command did not start, in the words of a container runtime."""
    argv0 = spec["argv"][0]  # type: ignore[index]  # a list, see above
    said = (error.strerror or "unknown error").lower()
    if error.filename == spec["cwd"]:
        return f'{RUNC}chdir to cwd ("{error.filename}") set in config.json failed: {said}: unknown'
    if error.errno == errno.ENOENT and "/" not in argv0 and error.filename is not None:
        said = "executable file not found in $PATH"
    elif error.errno == errno.ENOENT:
        said = f"stat {argv0}: {said}"
    return f'{RUNC}exec: "{argv0}": {said}: unknown'


class Shim:
    """One container: its first process, its output and its end."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        with open(folder + "/spec.json", encoding="utf-8") as stream:
            self.spec: dict[str, object] = json.load(stream)
        self.main = 0
        self.status: int | None = None
        self.output = -1
        self.wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def start(self) -> str:
        """Start the command; return why it could not be started, or nothing."""
        self.output, write_end = os.pipe2(os.O_CLOEXEC)
        errors, errors_end = os.pipe2(os.O_CLOEXEC)
        try:
            sandbox = self.spec["sandbox"]
            if isinstance(sandbox, dict):
                enter_namespaces(sandbox["user"], sandbox["pid"])
                make_root(str(self.spec["root"]), self.spec["mounts"], sandbox["pid"])  # type: ignore[arg-type]  # a list
        except OSError as error:
            return f"failed to prepare the container's file system: {error}"
        self.main = os.fork()
        if self.main == 0:
            run_command(self.spec, write_end, errors_end)
        os.close(write_end)
        os.close(errors_end)
        with os.fdopen(errors, "rb") as stream:
            return stream.read().decode()

    def signalled(self) -> None:
        """React to the signals that have arrived."""
        for number in os.read(self.wake, 512):
            if number == signal.SIGTERM and self.status is None and handles_sigterm(self.main):
                os.kill(self.main, signal.SIGTERM)
            elif number == signal.SIGUSR1:
                self.kill_all()
        self.collect()
        if self.status is not None:
            self.kill_all()  # when the first process has ended, so does everything else

    def kill_all(self) -> None:
        """SIGKILL everything below this process, also what has made itself a daemon."""
        while pids := descendants(os.getpid()):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.collect()
            time.sleep(0.005)  # a killed process needs a moment before it can be collected

    def collect(self) -> None:
        """Wait for children that have ended, and keep the status of the first process."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.main:
                self.status = status

    def pump(self, lifeline: int) -> None:
        """Copy output until the container has ended; kill it when the lab has gone."""
        log = Log(self.folder + "/log")
        poll = select.poll()
        for number in (self.output, self.wake, lifeline):
            poll.register(number, select.POLLIN)
        open_output = True
        while self.status is None or open_output:
            for number, event in poll.poll():
                if number == self.wake:
                    self.signalled()
                elif number == lifeline and event & select.POLLHUP:
                    self.kill_all()
                    os._exit(0)
                elif number == self.output:
                    data = os.read(self.output, 65536)
                    log.feed(data)
                    if not data:
                        poll.unregister(self.output)
                        open_output = False
        log.close()

    def leave(self, problem: str) -> None:
        """Write down how the container ended."""
        status = self.status or 0
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        code = 128 if problem else 128 + number if number else os.WEXITSTATUS(status)
        record = {"exit_code": code, "start_error": problem, "finished_ns": time.time_ns()}
        write_atomically(self.folder + "/exit.json", json.dumps(record))


def open_lifeline(path: str) -> int:
    """Open the lab's lifeline; exit when the lab has already gone."""
    lifeline = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.read(lifeline, 1) == b"":
            sys.exit("the lab has gone: nobody holds the lifeline's other end")
    except BlockingIOError:
        pass
    return lifeline


def main(folder: str, ready: int) -> None:
    """Run one container to its end; close ``ready`` when the command has started."""
    os.set_inheritable(ready, False)
    write_atomically(folder + "/shim.pid", f"{os.getpid()} {start_time(os.getpid())}")
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    shim = Shim(folder)
    lifeline = open_lifeline(str(shim.spec["lifeline"]))
    problem = shim.start()
    if not problem:
        record = {"pid": shim.main, "started_ns": time.time_ns()}
        write_atomically(folder + "/started.json", json.dumps(record))
        os.close(ready)
        shim.pump(lifeline)
    shim.kill_all()
    shim.leave(problem)
