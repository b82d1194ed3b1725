"""What a document shows, run against a local stack of its own: same commands, other ports, folder and build."""

import re
import subprocess

from stack import ROOT

# Small, so that no port comes to lie among those that the system gives to outgoing connections.
OFFSET = 300
# No document's commands take nearly as long, on whatever machine.
TIME_MAX_S = 900
# Those of `make up`; etcd's stand without a colon before them too.
PORTS = re.compile(r"(?<=:)(?:8080|9091|9092|9095)\b|\b(?:12379|22379|32379)\b")


def blocks(document, language="sh"):
    return re.findall(rf"^```{language}\n(.*?)^```", document, re.DOTALL | re.MULTILINE)


def options(bin_dir, folder):
    return f"--bin {bin_dir} --folder {folder} --port-offset {OFFSET}"


def here(text, bin_dir, folder):
    """A block with the present build, folder and ports."""
    text = re.sub(r"\bmake (up|down|status)\b", r"scripts/local-stack \1", text)
    text = re.sub(r"(scripts/local-stack (?:up|down|status|pid \S+?))(?=[\s);]|$)",
                  rf"\1 {options(bin_dir, folder)}", text)
    text = text.replace("target/release/", f"{bin_dir}/").replace(".stack/", f"{folder}/")
    return PORTS.sub(lambda port: str(int(port[0]) + OFFSET), text)


def run(script, who):
    """What the lines print; they are one shell, and the first failure ends it."""
    # A loop in a document that waits for ever is an error with its output, and no job that hangs.
    command = ["timeout", "--kill-after=10", str(TIME_MAX_S), "bash", "-euc", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{who}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def wipe(bin_dir, folder):
    """Ends the stack and deletes what it left."""
    command = f"scripts/local-stack wipe {options(bin_dir, folder)}"
    subprocess.run(command, shell=True, cwd=ROOT, stdout=subprocess.DEVNULL)
