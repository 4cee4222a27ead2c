"""The container's namespaces and its file system. The shim's: standard library only."""

from __future__ import annotations

import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x04000000, 0x10000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 32, 4096, 16384
MS_UNBINDABLE, MS_PRIVATE = 1 << 17, 1 << 18
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def check(result: int, what: str) -> None:
    """Raise OSError when a libc call did not return 0."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    """Attach a file system, or bind one place over another."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    check(LIBC.mount(*encoded, ctypes.c_ulong(flags), None), f"mount {source or kind} on {target}")


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
