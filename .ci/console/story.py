"""A node with a story of four minutes, for somebody who tries the console with fresh eyes.

    make build && go build -o .local/bin/carillon-local ./deploy/local && python3 .ci/console/story.py

Starts Cassandra, NATS and a node that asks for keys on 127.0.0.1:8711. Things go wrong meanwhile: a job is paused by
somebody, a host fails, charges of cards fail for good until their gateway is repaired, a limit makes runs wait, a release
waits for an approval. Prints READY with the API keys (log in as "you"), and goes on until it is told to stop.
"""

import atexit
import contextlib
import http.server
import json
import os
import random
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BIN = ROOT + "/.local/bin/carillon"
DIR = ROOT + "/.local/story"
PORT = 8711
API = f"http://127.0.0.1:{PORT}"
shutil.rmtree(DIR, ignore_errors=True)
os.makedirs(DIR)
state = {"card": "down"}


class Callee(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def answer(self, code, body=b'{"ok":true}'):
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        n = int(self.headers.get("content-length") or 0)
        self.rfile.read(n)
        p = self.path
        if p.startswith("/charge"):
            return (
                self.answer(200)
                if state["card"] == "up"
                else self.answer(500, b'{"error":"card gateway unreachable"}')
            )
        if p.startswith("/slow"):
            time.sleep(1.5)
        if p.startswith("/partner"):
            time.sleep(0.5)
        return self.answer(200)

    do_GET = do_POST


class FailingCallee(Callee):
    def do_POST(self):
        n = int(self.headers.get("content-length") or 0)
        self.rfile.read(n)
        self.answer(502, b'{"error":"upstream geo database is missing"}')

    do_GET = do_POST


for port, h in ((9701, Callee), (9702, FailingCallee)):
    s = http.server.ThreadingHTTPServer(("127.0.0.1", port), h)
    threading.Thread(target=s.serve_forever, daemon=True).start()
OK, BAD = "http://127.0.0.1:9701", "http://127.0.0.1:9702"
proc = None
CL = DIR + "/cluster"


def sh(*a):
    return subprocess.run(a, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def stop():
    """Stops all that was started; what they kept goes with the next start."""
    if proc:
        proc.terminate()
        proc.wait()
    sh(ROOT + "/.local/bin/carillon-local", "down", "--dir", CL, "--purge")


def start():
    global proc
    atexit.register(stop)
    sh(
        ROOT + "/.local/bin/carillon-local",
        "up",
        "--dir",
        CL,
        "--cassandra",
        "1",
        "--nats",
        "1",
        "--nodes",
        "1",
        "--profile",
        "test",
    )
    os.kill(json.load(open(CL + "/carillon-1/pid.json"))["pid"], 15)
    time.sleep(5)
    y = open(CL + "/carillon-1/carillon.yaml").read()
    y = re.sub(r"(api:\n    listen: ).*", r"\g<1>127.0.0.1:%d\n    auth: required" % PORT, y, count=1)
    open(DIR + "/node.yaml", "w").write(y)
    root = sh(
        BIN,
        "key",
        "create",
        "root",
        "--bootstrap",
        "--config",
        DIR + "/node.yaml",
        "--tenant",
        "default",
        "--role",
        "admin",
    ).splitlines()[-1]
    proc = subprocess.Popen(
        [BIN, "serve", "--config", DIR + "/node.yaml"],
        stdout=open(DIR + "/node.log", "a"),
        stderr=subprocess.STDOUT,
    )
    for _ in range(300):
        try:
            urllib.request.urlopen(API + "/readyz", timeout=1)
            return root
        except Exception:
            time.sleep(0.2)
    raise SystemExit("node is not ready")


def call(method, path, body=None, key=None, headers={}):
    r = urllib.request.Request(
        API + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "content-type": "application/json",
            **({"authorization": "Bearer " + key} if key else {}),
            **headers,
        },
    )
    try:
        with urllib.request.urlopen(r, timeout=30) as f:
            t = f.read()
            return json.loads(t) if t else None
    except urllib.error.HTTPError as e:
        print("FAULT", method, path, e.code, e.read()[:600].decode(), flush=True)
        return None


def iso(t):
    return t.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


root = start()
keys = {}
for name, role in (
    ("anna", "admin"),
    ("ben", "operator"),
    ("cleo", "operator"),
    ("you", "admin"),
    ("viewer", "viewer"),
):
    a = call("POST", "/v1/api-keys", {"name": name, "role": role}, root)
    keys[name] = a["key"] if a and "key" in a else a
A, B, C = keys["anna"], keys["ben"], keys["cleo"]
now = datetime.now(timezone.utc)


def job(name, key=A, **f):
    return call("PUT", f"/v1/jobs/{name}", f, key)


def task(name, key=A, **f):
    return call("PUT", f"/v1/tasks/{name}", f, key)


task(
    "charge-card",
    http={"url": OK + "/charge"},
    retry={"max_attempts": 2, "initial": "500ms", "max": "1s"},
    timeout="5s",
)
task("ask-partner", http={"url": OK + "/partner"}, rate="1/m")
task("resize", http={"url": OK + "/slow"}, max_concurrent=2)
job(
    "price-list",
    http={"url": OK + "/prices"},
    schedule={"every": "1m", "anchor": iso(now.replace(second=0))},
    labels={"team": "shop"},
)
job(
    "heartbeat",
    http={"url": OK + "/beat"},
    schedule={"every": "20s"},
    payload={"service": "web", "level": 1},
    labels={"team": "ops"},
)
job(
    "geo-update",
    http={"url": BAD + "/v2/geo/import"},
    schedule={"every": "15s"},
    labels={"team": "data"},
    retry={"max_attempts": 2, "initial": "1s"},
)
job("dunning", http={"url": OK + "/dunning"}, schedule={"every": "30s"}, labels={"team": "billing"})
job("invoices", http={"url": OK + "/invoices"}, schedule={"every": "40s"}, labels={"team": "billing"})
job(
    "tax-report",
    http={"url": OK + "/tax"},
    schedule={"cron": "0 6 * * *", "timezone": "Europe/Berlin"},
    labels={"team": "billing"},
    jitter="5m",
)
job("thumbnails", task="resize", schedule={"every": "10s"}, labels={"team": "media"})
job(
    "backup",
    http={"url": OK + "/backup"},
    schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
    labels={"team": "ops"},
    jitter="2m",
)
call(
    "PUT",
    "/v1/workflows/release",
    {
        "labels": {"team": "web"},
        "steps": [
            {"name": "build", "http": {"url": OK + "/build"}},
            {
                "name": "sign-off",
                "after": ["build"],
                "wait": {"event": "release.approved", "deadline": "12h"},
            },
            {"name": "deploy", "after": ["sign-off"], "http": {"url": OK + "/deploy"}},
            {"name": "announce", "after": ["deploy"], "http": {"url": OK + "/announce"}},
        ],
    },
    A,
)
call(
    "PUT",
    "/v1/workflows/nightly-etl",
    {
        "schedule": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"},
        "labels": {"team": "data"},
        "steps": [
            {"name": "extract", "http": {"url": OK + "/extract"}},
            {"name": "load", "after": ["extract"], "http": {"url": OK + "/load"}},
        ],
    },
    A,
)


def lines(key, docs):
    body = "\n".join(json.dumps(d) for d in docs).encode()
    r = urllib.request.Request(
        API + "/v1/imports?results=errors",
        method="POST",
        data=body,
        headers={"content-type": "application/x-ndjson", "authorization": "Bearer " + key},
    )
    print(urllib.request.urlopen(r, timeout=60).read().decode().strip()[:300], flush=True)


# the coming hour: a herd, and others
herd = (now + timedelta(minutes=41)).replace(second=0, microsecond=0)
lines(
    B,
    [
        {
            **({"task": "resize"} if i % 10 == 0 else {"http": {"url": OK + "/newsletter"}}),
            "schedule": {"at": iso(herd + timedelta(seconds=random.randrange(50)))},
            "labels": {"campaign": "autumn"},
            "payload": {"to": i},
        }
        for i in range(600)
    ],
)
lines(
    B,
    [
        {
            "http": {"url": OK + "/reminder"},
            "schedule": {"at": iso(now + timedelta(seconds=300 + i * 9))},
            "labels": {"campaign": "reminders"},
        }
        for i in range(330)
    ],
)
for i in range(25):
    call(
        "POST",
        "/v1/jobs",
        {"task": "charge-card", "payload": {"order": 4000 + i, "cents": 1990}, "labels": {"team": "billing"}},
        C,
    )
for i in range(6):
    call("POST", "/v1/jobs", {"task": "ask-partner", "payload": {"partner": f"p{i}"}}, C)
call("POST", "/v1/workflows/release/trigger", {"payload": {"version": "4.2.0"}}, C)
time.sleep(70)
call("POST", "/v1/jobs/price-list/pause", None, B)  # price-list paused by ben for 90 s
call(
    "PATCH",
    "/v1/jobs/heartbeat",
    {"payload": {"service": "web", "level": 3}},
    C,
    {"content-type": "application/merge-patch+json"},
)
call("POST", "/v1/operations", {"action": "pause", "filter": {"label": "team=billing"}}, B)
time.sleep(60)
call("POST", "/v1/operations", {"action": "resume", "filter": {"label": "team=billing"}}, B)
time.sleep(35)
call("POST", "/v1/jobs/price-list/resume", None, A)
state["card"] = "up"
call("POST", "/v1/jobs/dunning/trigger", None, C)
time.sleep(20)
for i in range(4):
    call("POST", "/v1/jobs", {"task": "ask-partner", "payload": {"partner": f"q{i}"}}, C)
print("READY", json.dumps(keys), flush=True)
with contextlib.suppress(KeyboardInterrupt):
    while proc.poll() is None:  # some runs of ask-partner always wait for its rate
        time.sleep(50)
        call("POST", "/v1/jobs", {"task": "ask-partner", "payload": {"partner": "later"}}, C)
