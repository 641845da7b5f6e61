#!/usr/bin/env python3
"""File operations on other S3 servers, through a real mount, compared with the expected outcomes.

usage: compatibility.py --mount-s3 PROGRAM --tools FOLDER [--write] [--show-log] [SERVER ...]

Starts each server on loopback with an empty bucket, mounts the bucket with all changes allowed, and
does the operations below. The table in doc/COMPATIBILITY.md has the expected outcomes. An outcome
that differs is named, and the exit status is 1; so it is where a server cannot be started. --write
puts the measured outcomes into the table instead. The mount needs root or fusermount3;
`make test-compatibility` installs the servers.
"""

import argparse
import datetime
import errno
import hashlib
import hmac
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

KEY, SECRET, BUCKET, REGION = "testkey", "testsecret", "bucket", "us-east-1"
DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "doc" / "COMPATIBILITY.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"
FLAGS = ["--allow-delete", "--allow-overwrite", "--allow-rename", "--allow-append",
         "--posix-metadata", "--directory-markers", "--metadata-ttl", "minimal"]
# Seconds that a server or a mount may take to start; a server in Java takes 10 on a busy machine.
START_MAX = 120
# Seconds that a process may take to end before it is killed: a mount stores its files in that time.
STOP_MAX = 60
MIB = 1 << 20
# More than the smallest part of an upload, and no multiple of it.
LARGE = bytes(range(251)) * (12 * MIB // 251 + 1)


# Servers. Each function returns the command and the environment for a port and a data folder.

def minio(tools, port, data):
    variables = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off",
                 "MINIO_UPDATE": "off"}
    return [tools / "minio", "server", "--address", f"127.0.0.1:{port}", data], variables


def versitygw(tools, port, data):
    variables = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    command = [tools / "versitygw", "--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet",
               "posix", data]
    return command, variables


def moto(tools, port, data):
    program = tools / "moto" / "bin" / "moto_server"
    return [program, "-H", "127.0.0.1", "-p", str(port)], {}


def rclone(tools, port, data):
    (data / BUCKET).mkdir()
    command = [tools / "rclone", "serve", "s3", "--addr", f"127.0.0.1:{port}",
               "--auth-key", f"{KEY},{SECRET}", data]
    return command, {}


def s3proxy(tools, port, data):
    configuration = data / "s3proxy.conf"
    (data / "objects").mkdir()
    configuration.write_text(f"""
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={KEY}
s3proxy.credential={SECRET}
jclouds.provider=filesystem-nio2
jclouds.identity=x
jclouds.credential=x
jclouds.filesystem.basedir={data}/objects
""")
    return ["java", "-jar", tools / "s3proxy.jar", "--properties", configuration], {}


def s3mock(tools, port, data):
    command = ["java", "-jar", tools / "s3mock.jar", f"--server.port={free_port()}",
               "--server.address=127.0.0.1", f"--com.adobe.testing.s3mock.http-port={port}"]
    return command, {}


def gofakes3(tools, port, data):
    return [tools / "gofakes3", "-backend", "memory", "-host", f"127.0.0.1:{port}"], {}


SERVERS = {
    "MinIO": minio,
    "versitygw": versitygw,
    "moto": moto,
    "rclone": rclone,
    "s3proxy": s3proxy,
    "S3Mock": s3mock,
    "gofakes3": gofakes3,
}


# Operations. Each function gets the mounted directory and the server, and raises what went wrong.

class Wrong(Exception):
    """The operation succeeded, and its result is not the right one."""


def check(found, expected, what):
    if found != expected:
        raise Wrong(what)


def write(path, content, flags=os.O_CREAT | os.O_WRONLY | os.O_TRUNC):
    descriptor = os.open(path, flags, 0o644)
    try:
        write_all(descriptor, content)
    finally:
        os.close(descriptor)


def write_all(descriptor, content):
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view[:MIB]):]


def read(path):
    return pathlib.Path(path).read_bytes()


def create(d, _):
    write(d / "small", b"hello")
    check(read(d / "small"), b"hello", "content")
    check((d / "small").stat().st_size, 5, "size")


def create_large(d, _):
    write(d / "large", LARGE)
    check(read(d / "large") == LARGE, True, "content")


def create_empty(d, _):
    write(d / "empty", b"")
    check(read(d / "empty"), b"", "content")


def overwrite(d, _):
    write(d / "over", b"first")
    write(d / "over", b"and second")
    check(read(d / "over"), b"and second", "content")


def append(d, _):
    write(d / "log", b"one ")
    write(d / "log", b"two", os.O_WRONLY | os.O_APPEND)
    check(read(d / "log"), b"one two", "content")


def append_large(d, _):
    write(d / "long", LARGE)
    write(d / "long", b"the end", os.O_WRONLY | os.O_APPEND)
    check(read(d / "long") == LARGE + b"the end", True, "content")


def shorten(d, _):
    write(d / "cut", LARGE)
    os.truncate(d / "cut", 7 * MIB + 1)
    check(read(d / "cut") == LARGE[:7 * MIB + 1], True, "content")


def sync_and_go_on(d, _):
    descriptor = os.open(d / "synced", os.O_CREAT | os.O_WRONLY, 0o644)
    try:
        for piece in (LARGE[:6 * MIB], b"more"):
            write_all(descriptor, piece)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    check(read(d / "synced") == LARGE[:6 * MIB] + b"more", True, "content")


def touch(d, _):
    write(d / "touched", b"bytes")
    os.utime(d / "touched", (1_000_000_000, 1_000_000_000))
    check(int((d / "touched").stat().st_mtime), 1_000_000_000, "time")
    check(read(d / "touched"), b"bytes", "content")


def chmod(d, _):
    write(d / "private", b"bytes")
    os.chmod(d / "private", 0o600)
    check((d / "private").stat().st_mode & 0o777, 0o600, "mode")


def attributes(d, _):
    write(d / "tagged", b"bytes")
    os.setxattr(d / "tagged", "user.colour", b"blue")
    check(os.getxattr(d / "tagged", "user.colour"), b"blue", "value")


def symlink(d, _):
    os.symlink("small", d / "link")
    check(os.readlink(d / "link"), "small", "target")


def copy_on_server(d, _):
    write(d / "source", LARGE)
    with open(d / "source", "rb") as source, open(d / "copied", "wb") as target:
        while os.copy_file_range(source.fileno(), target.fileno(), 1 << 30):
            pass
    check(read(d / "copied") == LARGE, True, "content")


def cp(d, _):
    shutil.copyfile(d / "source", d / "cp")
    check(read(d / "cp") == LARGE, True, "content")


def rename(d, _):
    write(d / "old", b"bytes")
    os.rename(d / "old", d / "new")
    check((d / "old").exists(), False, "the old name")
    check(read(d / "new"), b"bytes", "content")


def rename_over(d, _):
    write(d / "next", b"next")
    write(d / "current", b"current")
    os.rename(d / "next", d / "current")
    check(read(d / "current"), b"next", "content")


def directory(d, _):
    (d / "dir").mkdir()
    (d / "dir" / "sub").mkdir()
    write(d / "dir" / "a", b"a")
    write(d / "dir" / "sub" / "b", b"b")
    check(sorted(os.listdir(d / "dir")), ["a", "sub"], "names")
    check((d / "dir" / "sub").is_dir(), True, "kind")


def rename_directory(d, _):
    os.rename(d / "dir", d / "moved")
    check((d / "dir").exists(), False, "the old name")
    check(read(d / "moved" / "sub" / "b"), b"b", "content")


def delete(d, _):
    write(d / "gone", b"bytes")
    os.unlink(d / "gone")
    check((d / "gone").exists(), False, "the name")


def remove_tree(d, _):
    shutil.rmtree(d / "moved")
    check((d / "moved").exists(), False, "the name")


def names(d, _):
    (d / "names").mkdir()
    odd = ["a b", "a+b", "a%20b", "a&b=c;d", "ü日本😀", "it's", 'a"b', "#?", "x" * 200, "a\\b",
           "~", " ", "tab\tnew\nline"]
    for name in odd:
        write(d / "names" / name, name.encode())
    check(sorted(os.listdir(d / "names")), sorted(odd), "names")
    for name in odd:
        check(read(d / "names" / name), name.encode(), "content")


def rename_names(d, _):
    os.rename(d / "names", d / "renamed")
    check((d / "names").exists(), False, "the old name")


def many(d, _):
    (d / "many").mkdir()
    for number in range(1100):
        write(d / "many" / f"{number:04}", b"x")
    check(sorted(os.listdir(d / "many")), [f"{number:04}" for number in range(1100)], "names")


def other_host(d, server):
    descriptor = os.open(d / "ours", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
    os.write(descriptor, b"ours")
    server.request("PUT", f"/{BUCKET}/ours", b"theirs")
    try:
        os.close(descriptor)
    except OSError as error:
        check(error.errno, errno.EEXIST, errno.errorcode.get(error.errno, "error"))
        return
    raise Wrong("replaced")


OPERATIONS = [
    ("create a file, read it", create),
    ("create an empty file", create_empty),
    ("create a file of 12 MiB, in parts", create_large),
    ("replace a file", overwrite),
    ("a file that another host made first stays (`EEXIST`)", other_host),
    ("append to a small file", append),
    ("append to a file of 12 MiB", append_large),
    ("write on after `fsync` of 6 MiB", sync_and_go_on),
    ("truncate a file of 12 MiB", shorten),
    ("`touch -d`", touch),
    ("`chmod`", chmod),
    ("extended attributes", attributes),
    ("symbolic links", symlink),
    ("`copy_file_range` of 12 MiB", copy_on_server),
    ("`cp` of 12 MiB", cp),
    ("rename a file", rename),
    ("rename over a file", rename_over),
    ("make directories, files in them", directory),
    ("rename a directory", rename_directory),
    ("delete a file", delete),
    ("`rm -r`", remove_tree),
    ("odd names: spaces, `+`, `%`, quotes, emoji, newline", names),
    ("rename a directory of odd names", rename_names),
    ("1,100 files in a directory", many),
]


class Server:
    """Signed requests to the server itself: they make the bucket, and act as another host."""

    def __init__(self, port):
        self.port = port

    def request(self, method, path, body=b""):
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        host, digest = f"127.0.0.1:{self.port}", hashlib.sha256(body).hexdigest()
        headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
        signed = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        canonical = f"{method}\n{urllib.parse.quote(path)}\n\n{lines}\n{signed}\n{digest}"
        scope = f"{now[:8]}/{REGION}/s3/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"
        key = f"AWS4{SECRET}".encode()
        for piece in scope.split("/"):
            key = hmac.new(key, piece.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, "
                                    f"SignedHeaders={signed}, Signature={signature}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(what, is_there, process):
    end = time.monotonic() + START_MAX
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SystemExit(f"{what} ended with {process.returncode}")
        if is_there():
            return
        time.sleep(0.1)
    raise SystemExit(f"{what} was not there within {START_MAX} s")


def has_bucket(server):
    try:
        if server.request("HEAD", f"/{BUCKET}") == 200:
            return True
        server.request("PUT", f"/{BUCKET}")
    except (OSError, http.client.HTTPException):
        pass
    return False


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def outcome(operation, directory, server):
    try:
        operation(directory, server)
        return "yes"
    except Wrong as wrong:
        return f"no: {wrong}"
    except OSError as error:
        return f"`{errno.errorcode.get(error.errno, error.errno)}`"


def measure(name, options):
    """Returns the outcome of each operation on one server, by the operation's description."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = folder / "data"
        data.mkdir()
        port = free_port()
        command, variables = SERVERS[name](options.tools, port, data)
        process = start(command, variables, folder, "server.log")
        try:
            server = Server(port)
            wait_for(name, lambda: has_bucket(server), process)
            return measure_mounted(server, folder, options)
        finally:
            stop(process)


def measure_mounted(server, folder, options):
    directory = folder / "mount"
    directory.mkdir()
    variables = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                 "AWS_EC2_METADATA_DISABLED": "true"}
    command = [options.mount_s3, BUCKET, directory, "--region", REGION, "--force-path-style",
               "--endpoint-url", f"http://127.0.0.1:{server.port}", "--foreground", *FLAGS]
    mount = start(command, variables, folder, "mount.log")
    try:
        wait_for("the mount", lambda: os.path.ismount(directory), mount)
        return {what: outcome(operation, directory, server) for what, operation in OPERATIONS}
    finally:
        stop(mount)
        if options.show_log:
            sys.stderr.write((folder / "mount.log").read_text(errors="replace"))


def start(command, variables, folder, log):
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **variables}
    with open(folder / log, "wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)


def document():
    """Returns the document before, in and after its table."""
    before, rest = DOCUMENT.read_text().split(BEGIN)
    table, after = rest.split(END)
    return before, table, after


def expected():
    """Returns the outcomes in the document's table, by server and operation."""
    rows = [line.strip("| ").split(" | ") for line in document()[1].splitlines()]
    head, body = rows[0], rows[2:]
    return {name: {row[0]: row[column] for row in body}
            for column, name in enumerate(head) if column > 0}


def allows(cell, found):
    """Whether a cell of the table, such as "yes or `ESTALE`", allows an outcome."""
    return cell is not None and found in cell.split(" or ")


def write_table(measured):
    """Writes outcomes that the document's table does not allow into it."""
    before, _, after = document()
    known = expected()
    for name, outcomes in measured.items():
        cells = known.setdefault(name, {})
        cells.update({what: found for what, found in outcomes.items()
                      if not allows(cells.get(what), found)})
    columns = [name for name in SERVERS if name in known]
    rows = [["operation", *columns], ["---"] * (len(columns) + 1)]
    for what, _ in OPERATIONS:
        rows.append([what, *(known[name].get(what, "?") for name in columns)])
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    DOCUMENT.write_text(before + BEGIN + table + END + after)


def differences(measured):
    known = expected()
    for name, outcomes in measured.items():
        for what, found in outcomes.items():
            wanted = known.get(name, {}).get(what)
            if not allows(wanted, found):
                yield f"{name}: {what}: {found}, expected {wanted}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mount-s3", type=pathlib.Path, required=True)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true", help="write the outcomes into the table")
    parser.add_argument("--show-log", action="store_true", help="show what each mount logged")
    parser.add_argument("servers", nargs="*", help=", ".join(SERVERS))
    options = parser.parse_args()
    options.mount_s3, options.tools = options.mount_s3.resolve(), options.tools.resolve()
    unknown = set(options.servers) - set(SERVERS)
    if unknown:
        parser.error(f"no such server: {', '.join(sorted(unknown))}")
    measured = {}
    for name in options.servers or SERVERS:
        measured[name] = measure(name, options)
        for what, found in measured[name].items():
            print(f"{name}: {what}: {found}", flush=True)
    if options.write:
        write_table(measured)
        return
    found = list(differences(measured))
    for difference in found:
        print(f"DIFFERENT: {difference}", file=sys.stderr)
    if found:
        raise SystemExit(f"{len(found)} outcomes differ from doc/{DOCUMENT.name}")


if __name__ == "__main__":
    main()
