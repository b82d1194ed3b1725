"""Whether what lies in etcd is where the guards say, found out with `etcdctl` and nothing of Holdfast's own code: what
`shard-map verify` says is checked by it."""

import base64
import json
import os
import subprocess

from stack import ETCDCTL


def read(endpoints, prefix="/"):
    """Everything below a prefix in one cluster, at one revision: key, value, lease and mod revision of each."""
    printed = subprocess.run(
        [ETCDCTL, "--endpoints", endpoints, "get", prefix, "--prefix", "--write-out=json"],
        check=True, capture_output=True, text=True, env={**os.environ, "ETCDCTL_API": "3"}).stdout
    for kv in json.loads(printed).get("kvs", []):
        yield (base64.b64decode(kv["key"]).decode(), base64.b64decode(kv.get("value", "")),
               kv.get("lease", 0), kv["mod_revision"])


class Contents:
    """What one cluster has."""

    def __init__(self, endpoints):
        self.guards, self.groups, self.locks = {}, {}, {}
        for key, value, lease, revision in read(endpoints):
            if key.startswith("/holdfast/shards/"):
                self.guards[int(key.rsplit("/", 1)[1])] = json.loads(value)
            elif key.startswith("/holdfast/groups/"):
                self.groups[lease] = json.loads(value)
            elif key.startswith("/locks/"):
                record = json.loads(value)
                token = record.get("token", record["tokenBase"] + revision)
                self.locks[key] = (lease, record["tokenBase"], token)


def where_shards_live(home):
    """Shard -> cluster, and the endpoints of the clusters, by the map in home."""
    (_, value, _, _), = read(home, "/holdfast/map/current")
    document = json.loads(value)
    lives = {}
    for name, ranges in document["table"].items():
        for part in filter(None, ranges.split(",")):
            first, _, last = part.partition("-")
            lives |= {shard: name for shard in range(int(first), int(last or first) + 1)}
    return lives, {cluster["name"]: ",".join(cluster["endpoints"]) for cluster in document["clusters"]}


def scan(home, also=()):
    """The locks of each cluster, and what is wrong. No rollout may run. `also`: names and endpoints of clusters
    that the map does not have and that must be empty."""
    lives, endpoints = where_shards_live(home)
    found = {name: Contents(url) for name, url in endpoints.items()}
    problems = []
    for shard, home_of_it in lives.items():
        active = {name for name, it in found.items() if it.guards.get(shard, {}).get("state") == "active"}
        if active != {home_of_it}:
            problems.append(f"shard {shard} lives on {home_of_it} and is active in {sorted(active)}")
        elif "from" in found[home_of_it].guards[shard]:
            problems.append(f"shard {shard} still arrives in {home_of_it}")
    seen = {}
    for name, it in found.items():
        for lock, (lease, base, token) in it.locks.items():
            group = it.groups.get(lease)
            if group is None:
                problems.append(f"{name}: {lock} hangs from no group")
            elif lives[group["shard"]] != name:
                problems.append(f"{name}: {lock} is of shard {group['shard']}, which lives on {lives[group['shard']]}")
            elif base > it.guards[group["shard"]]["tokenBase"]:
                problems.append(f"{name}: the base of {lock} is above its guard's")
            if token <= base:
                problems.append(f"{name}: the token {token} of {lock} is not above its base {base}")
            if lock in seen:
                problems.append(f"{lock} is in {seen[lock]} and in {name}")
            seen[lock] = name
        for group in it.groups.values():
            if lives[group["shard"]] != name or "to" in group or "from" in group:
                problems.append(f"{name}: a group of shard {group['shard']} is on its way")
    for name, url in dict(also).items():
        left = Contents(url)
        if left.locks or left.groups:
            problems.append(f"{name} has {len(left.locks)} locks and {len(left.groups)} groups and should be empty")
    return {name: len(it.locks) for name, it in found.items()}, problems
