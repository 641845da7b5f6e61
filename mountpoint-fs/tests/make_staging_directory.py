#!/usr/bin/env python3
"""Makes a staging directory that a killed mount has left, for the test `staged::earlier_version`.

usage: make_staging_directory.py --mount-s3 FILE --minio FILE OUTPUT.tar.xz

`staging` is the directory, `bases` has the objects of the bucket at the kill, and `expected` those
that it must have when all is uploaded. Files of each kind wait: in the journal alone, with data
files, over objects, renamed, removed, with attributes, with an unfinished upload; one more was kept
behind a conflict. All contents compress well. `staging-0.2.0.tar.xz` was made by the build of commit 2adb472e
of 2026-11-29, the last one that wrote records of format 1 with the versions that were sent:

    make_staging_directory.py --mount-s3 mount-s3 --minio minio tests/e2e/data/staging-0.2.0.tar.xz
"""

import argparse
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import threading
import time

BUCKET = "test-bucket"
ADDRESS, SERVER = ("127.0.0.1", 25871), ("127.0.0.1", 25872)
PART = 5 << 20
# The part of the file `parts` that the server does not get.
HELD = b"PUT /test-bucket/parts?partNumber=2&"


class Proxy:
    """Passes connections on to the server, but for one request."""

    def __init__(self):
        self.listener = socket.create_server(ADDRESS)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(SERVER)
            for ends in [(client, server), (server, client)]:
                threading.Thread(target=self.copy, args=ends, daemon=True).start()

    @staticmethod
    def copy(source, target):
        while data := source.recv(1 << 16):
            if HELD in data:
                return
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def text(name, length):
    """Bytes of which each block tells its place."""
    blocks = (f"{name} {block:06}\n".encode() * 4096 for block in range(length // 4096 + 1))
    return b"".join(block[:4096] for block in blocks)[:length]


class Mount:
    """A mount of the bucket."""

    def __init__(self, options, folder, *args):
        self.path = folder
        folder.mkdir()
        environment = {
            "PATH": os.environ["PATH"], "AWS_ACCESS_KEY_ID": "minioadmin", "AWS_SECRET_ACCESS_KEY": "minioadmin",
            "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent",
        }
        command = [options.mount_s3, BUCKET, folder, "--endpoint-url", f"http://{ADDRESS[0]}:{ADDRESS[1]}", "--force-path-style"]
        command += ["--foreground", "--allow-changes", "--posix-metadata", *args]
        self.process = subprocess.Popen(command, env=environment)
        while not os.path.ismount(folder):
            assert self.process.poll() is None
            time.sleep(0.05)

    def end(self, is_killed=False):
        if is_killed:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            subprocess.run(["umount", "-l", self.path], check=True)
        else:
            subprocess.run(["umount", self.path], check=True)
            assert self.process.wait() == 0


def bases(folder):
    """The objects of the bucket."""
    for name in ["appended", "changed", "changed-much", "conflict", "cut", "gone", "moved", "removed-base", "replaced"]:
        (folder / name).write_bytes(text(name, 600_000))


def changes(folder):
    """What waits for its upload."""
    (folder / "small").write_bytes(b"a few bytes\n")
    (folder / "empty").write_bytes(b"")
    (folder / "large").write_bytes(text("large", 300_000))
    (folder / "replaced").write_bytes(text("new", 5000))
    for name, length in [("changed", 100), ("changed-much", 170_000)]:
        with open(folder / name, "r+b") as file:
            for offset in [0, 200_000, 599_990]:
                file.seek(offset)
                file.write(text("change", length))
    with open(folder / "appended", "ab") as file:
        file.write(b"more\n")
    os.truncate(folder / "cut", 1000)
    with open(folder / "cut", "r+b") as file:
        file.seek(2000)
        file.write(b"behind a hole\n")
    with open(folder / "ranges", "wb") as file:
        # More ranges than a record takes.
        for number in range(50_000):
            os.pwrite(file.fileno(), b"x", 2 * number)
    (folder / "before").write_bytes(b"renamed as a new file\n")
    os.rename(folder / "before", folder / "renamed")
    with open(folder / "moved", "r+b") as file:
        file.write(b"changed, and renamed\n")
    os.rename(folder / "moved", folder / "moved-on")
    for name in ["removed", "removed-base"]:
        (folder / name).write_bytes(b"removed\n")
        os.unlink(folder / name)
    os.unlink(folder / "gone")
    (folder / "directory").mkdir(0o750)
    (folder / "directory/inside").write_bytes(b"in a directory\n")
    os.symlink("small", folder / "link")
    (folder / "attributes").write_bytes(b"with attributes\n")
    os.setxattr(folder / "attributes", "user.color", b"blue")
    os.chmod(folder / "attributes", 0o640)
    os.utime(folder / "attributes", (1_000_000_000, 1_000_000_000))


def make(options, folder):
    results = {name: folder / name for name in ["staging", "bases", "expected"]}
    staging = results["staging"]
    (folder / "server" / BUCKET).mkdir(parents=True)
    address = f"{SERVER[0]}:{SERVER[1]}"
    command = [options.minio, "server", "--address", address, "--quiet", folder / "server"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(3)
        Proxy()
        other = Mount(options, folder / "other")
        bases(other.path)
        mount = Mount(
            options, folder / "mount", "--staging", staging, "--write-back", "--write-back-delay", "3600",
            "--write-part-size", str(PART))
        with open(mount.path / "conflict", "r+b") as file:
            file.write(b"ours")
        (other.path / "conflict").write_bytes(b"theirs\n")
        flush = [options.mount_s3, "staged", "flush", staging]
        subprocess.run(flush)
        shutil.copytree(other.path, results["expected"])
        for path in [mount.path, results["expected"]]:
            (path / "parts").write_bytes(text("parts", 2 * PART + 1000))
        flush = subprocess.Popen(flush)
        checkpoints = staging / "mount-s3-staging/files"
        while [len(path.read_text().splitlines()) for path in checkpoints.glob("*.u")] != [3]:
            time.sleep(0.1)
        flush.kill()
        for path in [mount.path, results["expected"]]:
            changes(path)
        # Nothing of it was acknowledged.
        unfinished = open(mount.path / "unfinished", "wb", buffering=0)
        unfinished.write(text("unfinished", 200_000))
        time.sleep(3)
        mount.end(is_killed=True)
        other.end()
        other = Mount(options, folder / "again")
        shutil.copytree(other.path, results["bases"])
        other.end()
    finally:
        server.kill()
        server.wait()
    with tarfile.open(options.output, "w:xz", preset=9) as archive:
        for name, path in results.items():
            archive.add(path, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mount-s3", required=True)
    parser.add_argument("--minio", required=True)
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
