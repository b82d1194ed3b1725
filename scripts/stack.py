"""Real etcd clusters and a gateway on loopback, for the scripts beside this file."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
ETCD = ROOT / ".tools/etcd-3.5/bin/etcd"
ETCDCTL = ROOT / ".tools/etcd-3.5/bin/etcdctl"
CLUSTERS = ["a", "b", "c"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url, seconds=60):
    """Returns when `url` answers 200."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            if time.monotonic() > end:
                sys.exit(f"{url} does not answer")
            time.sleep(0.05)


class Stack:
    """The processes, and how to start each of them again."""

    def __init__(self, folder, bin_dir, settings="", auth='mode = "none"\n'):
        self.folder = folder
        self.settings = settings  # of the gateway: lines for the beginning of its configuration
        self.auth = auth  # lines for [auth], and tables after it
        self.bin = bin_dir
        self.running = {}
        self.etcd_ports = {name: (free_port(), free_port()) for name in CLUSTERS}
        self.public, self.admin, self.peer = free_port(), free_port(), free_port()

    def spawn(self, name, command):
        log = open(self.folder / f"{name}.log", "ab")
        self.running[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, name):
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop_all(self):
        for name in list(self.running):
            self.kill(name)

    def client_url(self, cluster):
        return f"http://127.0.0.1:{self.etcd_ports[cluster][0]}"

    def start_etcd(self, cluster):
        client, peer = (f"http://127.0.0.1:{port}" for port in self.etcd_ports[cluster])
        self.spawn(
            f"etcd-{cluster}",
            [
                ETCD, "--name", cluster, "--data-dir", self.folder / f"etcd-{cluster}",
                "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"{cluster}={peer}", "--log-level", "error",
                "--quota-backend-bytes", str(8 << 30), "--auto-compaction-mode", "revision",
                "--auto-compaction-retention", "10000",
            ],
        )
        wait_for(f"{client}/health")

    def init_map(self):
        command = [self.bin / "shard-map", "init", "--home", self.client_url("a")]
        for cluster in CLUSTERS:
            command += ["--cluster", f"{cluster}={self.client_url(cluster)}"]
        subprocess.run(command + ["--shards", "256"], check=True, stdout=subprocess.DEVNULL)

    def start_clusters(self):
        for cluster in CLUSTERS:
            self.start_etcd(cluster)
        self.init_map()

    def start_gateway(self, name="gateway", ports=None):
        public, admin, peer = ports or (self.public, self.admin, self.peer)
        config = self.folder / f"{name}.toml"
        config.write_text(
            f"{self.settings}"
            f'listen = "127.0.0.1:{public}"\n'
            f'admin_listen = "127.0.0.1:{admin}"\n'
            f'peer_listen = "127.0.0.1:{peer}"\n'
            f'peer_url = "http://127.0.0.1:{peer}"\n'
            f'state_dir = "{self.folder}/state-{name}"\n'
            f'[home]\nendpoints = ["{self.client_url("a")}"]\n'
            f"[auth]\n{self.auth}"
        )
        self.spawn(name, [self.bin / "gateway", "serve", "--config", config])
        wait_for(f"http://127.0.0.1:{admin}/readyz")

    def etcdctl_get(self, cluster, prefix, *options):
        """What etcdctl prints of the keys that begin so."""
        reply = subprocess.run(
            [ETCDCTL, "--endpoints", self.client_url(cluster), "get", prefix, "--prefix", *options],
            check=True, capture_output=True, text=True,
            env={**os.environ, "ETCDCTL_API": "3"},
        )
        return reply.stdout

    def lock_keys(self):
        count = 0
        for cluster in CLUSTERS:
            fields = self.etcdctl_get(cluster, "/locks/", "--count-only", "--write-out=fields")
            count += int(fields.split('"Count" :')[1].split()[0])
        return count

    def etcd_requests(self):
        """Unary calls and messages on streams that the three clusters have received."""
        total = 0
        for cluster in CLUSTERS:
            with urllib.request.urlopen(f"{self.client_url(cluster)}/metrics") as reply:
                for line in reply.read().decode().splitlines():
                    if line.startswith("grpc_server_msg_received_total{"):
                        total += float(line.rsplit(" ", 1)[1])
        return total

    def rss_kib(self, name="gateway"):
        """Resident memory of a process."""
        status = pathlib.Path(f"/proc/{self.running[name].pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def cpu_s(self, name):
        """Processor time of a process so far."""
        stat = pathlib.Path(f"/proc/{self.running[name].pid}/stat").read_text()
        fields = stat.rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
