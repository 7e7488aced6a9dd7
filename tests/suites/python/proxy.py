"""A fault proxy for the link between a Runtime and its Core: drops, freezes and half-open sockets, without the two knowing of it."""

import json
import os
import signal
import socket
import threading

from berth import until


class Proxy:
    """Passes bytes on to the Core. Addresses of the Core in its answers become addresses of the proxy."""

    def __init__(self, core):
        self.target = ("127.0.0.1", core.port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        while len(str(self.port)) != len(str(core.port)):
            # An address is replaced in place, so it must have as many digits.
            self.listener.close()
            self.listener = socket.create_server(("127.0.0.1", 0))
        self.replace = (f"127.0.0.1:{core.port}".encode(), f"127.0.0.1:{self.port}".encode())
        self.lock = threading.Lock()
        self.links = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self):
        return self.listener.getsockname()[1]

    def _accept(self):
        while True:
            try:
                inner, _ = self.listener.accept()
                outer = socket.create_connection(self.target)
            except OSError:
                return
            link = Link(inner, outer, self.replace)
            with self.lock:
                self.links.append(link)

    def _living(self):
        """The sockets of the link; the requests before them have ended by themselves."""
        with self.lock:
            return [link for link in self.links if link.is_link and not link.closed.is_set()]

    def carried(self):
        """Bytes that the Runtime has sent over the link so far."""
        with self.lock:
            return sum(link.inward for link in self.links if link.is_link)

    def connected(self):
        return len([link for link in self._living() if not link.frozen])

    def drop(self):
        """Closes every socket of the link, frozen ones too."""
        for link in self._living():
            link.close()

    def drop_frozen(self):
        """Closes the sockets that were frozen, and no other."""
        for link in self._living():
            if link.frozen:
                link.close()

    def freeze(self):
        """From now on nothing passes through the present sockets, in either direction, and nobody is told."""
        for link in self._living():
            link.frozen = True

    def close(self):
        self.listener.close()
        with self.lock:
            for link in self.links:
                link.close()


class Link:
    def __init__(self, inner, outer, replace):
        self.sockets = (inner, outer)
        self.replace = replace
        self.frozen = False
        self.is_link = False
        self.inward = 0
        self.closed = threading.Event()
        for source, target, answers in ((inner, outer, False), (outer, inner, True)):
            threading.Thread(target=self._pump, args=(source, target, answers), daemon=True).start()

    def _pump(self, source, target, answers):
        try:
            while data := source.recv(65536):
                if self.frozen:
                    # Held until the end: bytes after them must not overtake.
                    self.closed.wait()
                    return
                if b"HTTP/1.1 101" in data[:16]:
                    self.is_link = True
                if answers and not self.is_link:
                    data = data.replace(*self.replace)
                if not answers:
                    self.inward += len(data)
                target.sendall(data)
        except OSError:
            pass
        if not self.frozen:
            self.close()

    def close(self):
        self.closed.set()
        for end in self.sockets:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


def put_between(core, session_id):
    """Makes the Session's Runtime dial through a proxy: its bootstrap file is changed, and its sandbox starts the daemon again with it."""
    proxy = Proxy(core)
    file = core.workspace(session_id) / "state/bootstrap.json"
    bootstrap = json.loads(file.read_text())
    assert bootstrap["core_url"].startswith("unix:"), "a Runtime of this machine comes through Core's socket"
    bootstrap["core_url"] = f"http://127.0.0.1:{proxy.port}"
    file.write_text(json.dumps(bootstrap))
    (daemon,) = [pid for pid, command in core.processes(session_id).items() if "berth daemon" in command]
    os.kill(daemon, signal.SIGKILL)
    until(proxy.connected, "the Runtime is back through the proxy")
    return proxy
