"""A PostgreSQL and a Redis of one's own on a socket in a folder, for the scripts beside this file."""

import os
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"


class Server:
    """A process that is killed, by its id, when the `with` block ends."""

    def __init__(self, folder, command, is_ready):
        self.log = folder / "server.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while not is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                self.close()
                raise SystemExit(f"{command[0]} does not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def close(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def not_as_root():
    """What to put before a command that refuses to run as root: a user namespace, where root is nobody
    special and still owns its files."""
    return ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []


class Postgres(Server):
    def __init__(self, folder):
        programs, data, self.folder = TOOLS / "postgresql/bin", folder / "data", folder
        subprocess.run(
            [*not_as_root(), programs / "initdb", "--pgdata", data, "--username", "demo", "--auth", "trust",
             "--locale", "C", "--encoding", "UTF8", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL)
        super().__init__(
            folder,
            [*not_as_root(), programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=",
             "-c", "fsync=off"],
            lambda: self.sql("SELECT 1", check=False).returncode == 0)

    def command(self, **variables):
        settings = [part for name, value in variables.items() for part in ("-v", f"{name}={value}")]
        return [TOOLS / "postgresql/bin/psql", "--no-psqlrc", "--no-align", "--tuples-only", "-v",
                "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-h", self.folder, "-U", "demo", "-d",
                "postgres", *settings]

    def sql(self, text, check=True, **variables):
        done = subprocess.run(self.command(**variables), input=text, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise SystemExit(f"psql: {done.stderr}")
        return done


class Redis(Server):
    def __init__(self, folder):
        self.socket = folder / "redis.sock"
        super().__init__(
            folder,
            [TOOLS / "redis/bin/redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", folder,
             "--save", ""],
            lambda: self.cli("PING") == "PONG")

    def cli(self, *arguments):
        done = subprocess.run([TOOLS / "redis/bin/redis-cli", "-s", self.socket, *arguments],
                              capture_output=True, text=True)
        return done.stdout.strip()
