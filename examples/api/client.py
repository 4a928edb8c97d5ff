#!/usr/bin/env python3
"""Uses superd's control socket with Python's standard library: restarts a program, and shows its
last lines and events.

    ./client.py /run/superd/superd.sock web
"""

import http.client
import json
import socket
import sys
import urllib.parse


class Refused(Exception):
    """superd has refused a request, or failed."""

    def __init__(self, status, answer):
        super().__init__(answer["error"])
        self.status = status
        self.remedy = answer["remedy"]


class Connection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path, timeout):
        super().__init__("superd", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Superd:
    """The superd whose control socket is at path."""

    def __init__(self, path):
        self.path = path

    def get(self, path, **parameters):
        """Returns the JSON values of an answer: one, or one a line for logs and events."""
        return self._request("GET", path + "?" + self._form(parameters), None)

    def post(self, path, **parameters):
        return self._request("POST", path, self._form(parameters))

    @staticmethod
    def _form(parameters):
        # A list is a parameter that is repeated.
        return urllib.parse.urlencode(parameters, doseq=True)

    def _request(self, method, target, body):
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        # An answer that waits for programs comes when they are done. Here superd waits for 30
        # seconds at most.
        connection = Connection(self.path, timeout=60)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise Refused(answer.status, json.load(answer))
            if answer.getheader("Content-Type") == "application/x-ndjson":
                return [json.loads(line) for line in answer]
            return json.load(answer)
        finally:
            connection.close()


def main(path, name):
    superd = Superd(path)
    for result in superd.post("/v1/programs/restart", name=name, timeout="30s"):
        print(result["name"], result["message"])
    for program in superd.get("/v1/status", name=name):
        print(program["name"], program["state"])
    for line in superd.get("/v1/logs", name=name, lines=3):
        print(line["instance"], line.get("line"))
    for event in superd.get("/v1/events", name=name, lines=3):
        print(event["at"], event["kind"], event.get("reason", ""))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: client.py SOCKET NAME")
    try:
        main(*sys.argv[1:])
    except Refused as e:
        sys.exit(f"superd answers {e.status}: {e}; {e.remedy}")
    except OSError as e:
        sys.exit(f"no superd answers on {sys.argv[1]}: {e}")
