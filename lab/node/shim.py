"""The parent of one container's processes; it outlives the agent that started it.

Run as ``python -S -E shim.py <container folder> <ready fd>`` with the standard library only, so that it is
up in a few hundredths of a second. It reads ``spec.json`` in that folder, enters the sandbox, starts the
command, copies its output to ``log`` with a time stamp on each line, and leaves ``exit.json`` behind.

It is one file, because it is run by its path and must not import the packages around it.

Signals: SIGTERM asks the container's first process to end, SIGUSR1 kills everything in the container.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x04000000, 0x10000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 32, 4096, 16384
MS_UNBINDABLE, MS_PRIVATE = 1 << 17, 1 << 18
LINE_LIMIT_BYTES = 16384  # longer lines are split, as containerd does
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def write_atomically(path: str, text: str) -> None:
    """Write a file so that a reader sees all of it or nothing."""
    with open(path + ".new", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".new", path)


def check(result: int, what: str) -> None:
    """Raise OSError when a libc call did not return 0."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    """Attach a file system, or bind one place over another."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    check(LIBC.mount(*encoded, ctypes.c_ulong(flags), None), f"mount {source or kind} on {target}")


# --- the sandbox ------------------------------------------------------------------------------------------


def enter_namespaces(user: bool, pid: bool) -> None:
    """Move this process (for the pid namespace: its children) into namespaces of their own."""
    uid, gid = os.geteuid(), os.getegid()
    flags = CLONE_NEWNS | CLONE_NEWUTS | (CLONE_NEWUSER if user else 0) | (CLONE_NEWPID if pid else 0)
    check(LIBC.unshare(flags), "unshare")
    if user:
        maps = (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1"))
        for name, text in maps:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                stream.write(text)
    mount(None, "/", None, MS_REC | MS_PRIVATE)


def folders_to_open(targets: list[str]) -> set[str]:
    """Existing folders that need a copy of their own, because a mount point is missing below them."""
    opened: set[str] = set()
    for target in targets:
        if os.path.lexists(target):
            continue
        parent = os.path.dirname(target)
        while not os.path.isdir(parent):
            parent = os.path.dirname(parent)
        while parent != "/":
            opened.add(parent)
            parent = os.path.dirname(parent)
    return opened


def copy_tree(folder: str, root: str, opened: set[str], skipped: tuple[str, ...]) -> None:
    """Show a host folder's entries in the new root: links copied, folders bound, opened folders repeated."""
    for entry in os.scandir(folder):
        here = root + entry.path
        if entry.path in skipped:
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), here)
        elif entry.is_dir():
            os.mkdir(here)
            if entry.path in opened:
                copy_tree(entry.path, root, opened, ())
            else:
                mount(entry.path, here, None, MS_BIND | MS_REC)
        elif folder != "/" and entry.is_file():
            bind_file(entry.path, here)


def bind_file(source: str, target: str) -> None:
    """Bind one file over another, which is created when it does not exist."""
    if not os.path.lexists(target):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(source, target, None, MS_BIND)


def make_devices(root: str) -> None:
    """Fill /dev with harmless devices, the GPUs' device files and a shared memory folder."""
    os.mkdir(root + "/dev")
    names = [*DEVICES, *(name for name in os.listdir("/dev") if name.startswith("nvidia"))]
    for name in names:
        if os.path.exists(f"/dev/{name}") and not os.path.isdir(f"/dev/{name}"):
            bind_file(f"/dev/{name}", f"{root}/dev/{name}")
    links = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for name, target in links.items():
        os.symlink(target, f"{root}/dev/{name}")
    os.mkdir(root + "/dev/shm", 0o1777)
    mount("shm", root + "/dev/shm", "tmpfs", 0)


def make_root(root: str, mounts: list[dict[str, object]], own_proc: bool) -> None:
    """Build the container's file system: the host's, with the pod's volumes at their mount paths."""
    os.makedirs(root, exist_ok=True)
    mount("root", root, "tmpfs", 0)
    mount(None, root, None, MS_UNBINDABLE)
    targets = {os.path.realpath(str(item["target"])): item for item in mounts}
    inside = [target for target in targets if not target.startswith("/dev/")]
    copy_tree("/", root, folders_to_open(inside), ("/dev", "/proc") if own_proc else ("/dev",))
    if own_proc:
        os.mkdir(root + "/proc")
    make_devices(root)
    for target, item in sorted(targets.items()):
        source, here = str(item["source"]), root + target
        if os.path.isdir(source):
            os.makedirs(here, exist_ok=True)
            mount(source, here, None, MS_BIND | MS_REC)
        else:
            os.makedirs(os.path.dirname(here), exist_ok=True)
            bind_file(source, here)
        if item.get("read_only"):
            kept = (
                os.statvfs(here).f_flag & 0b1110
            )  # nosuid, nodev, noexec: a user namespace may not drop them
            mount(None, here, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


# --- processes --------------------------------------------------------------------------------------------


def descendants(top: int) -> list[int]:
    """Process ids of everything below a process (orphans come back to a subreaper)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                    parent = int(stream.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, queue = [], [top]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def start_time(pid: int) -> str:
    """Start time of a process in clock ticks since boot; with the pid it names one process for good."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
        return stream.read().rpartition(")")[2].split()[19]


def handles_sigterm(pid: int) -> bool:
    """Whether a process has a handler for SIGTERM. The first process of a container ignores it otherwise."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as stream:
            caught = next(line for line in stream if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


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
        os.write(errors, explain(spec, error).encode())
    finally:
        os._exit(128)


def explain(spec: dict[str, object], error: OSError) -> str:
    """Say why the command did not start, in the words of a container runtime."""
    argv0 = spec["argv"][0]  # type: ignore[index]  # a list, see above
    if error.filename == spec["cwd"]:
        return f"failed to start the container's process: chdir to cwd ({error.filename!r}): {error.strerror}"
    if error.errno == errno.ENOENT and "/" not in argv0 and error.filename is not None:
        return (
            f'failed to start the container\'s process: exec: "{argv0}": executable file not found in $PATH'
        )
    return f'failed to start the container\'s process: exec: "{argv0}": {error.strerror}'


class Log:
    """Writes ``<time> <F|P> <line>`` for each line of output; P marks a piece of a longer line."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take output; the unfinished last line waits for its end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        pieces: list[tuple[bytes, bytes]] = []
        for line in lines:
            while len(line) > LINE_LIMIT_BYTES:
                pieces.append((b"P", line[:LINE_LIMIT_BYTES]))
                line = line[LINE_LIMIT_BYTES:]
            pieces.append((b"F", line))
        while len(self._rest) > LINE_LIMIT_BYTES:
            pieces.append((b"P", self._rest[:LINE_LIMIT_BYTES]))
            self._rest = self._rest[LINE_LIMIT_BYTES:]
        self._write(pieces)

    def close(self) -> None:
        """Write a last line that had no end."""
        if self._rest:
            self._write([(b"P", self._rest)])

    def _write(self, pieces: list[tuple[bytes, bytes]]) -> None:
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds:09d}Z "
        text = b"".join(stamp.encode() + tag + b" " + line + b"\n" for tag, line in pieces)
        while text:
            text = text[os.write(self._file, text) :]


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


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
