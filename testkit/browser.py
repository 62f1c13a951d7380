"""A headless Chromium, driven over its DevTools protocol: https://chromedevtools.github.io/devtools-protocol/"""

import base64
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from localcloud.tools import debian
from localcloud.tools.build import Report

PROGRAM: Final = "chromium-headless-shell"
PACKAGE: Final = debian.Package(PROGRAM, (PROGRAM,), folders=("usr/lib/chromium",))
"""Debian's package, a download of 64 MB. The package is not one of `debian.PACKAGES`, so `make tools` does not fetch it."""
OPTIONS: Final = (
    "--no-sandbox",  # Chromium's sandbox cannot run as root, and the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
ANSWER_SECONDS: Final = 60
UNTIL: Final = """new Promise((done, failed) => {
  const end = Date.now() + %d;
  const look = () => (%s) ? done(true) : Date.now() > end ? failed(new Error("not within the time limit")) : setTimeout(look, 20);
  look();
})"""


class PageError(Exception):
    """A script that a test ran in the page failed."""


class Tab:
    """A browser tab. Records the requests and errors of the page in this tab."""

    def __init__(self, address: str) -> None:
        import websocket

        self._socket = websocket.create_connection(address, suppress_origin=True, timeout=ANSWER_SECONDS)
        self._number = 0
        self.requests: list[str] = []
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        self._socket.close()

    def send(self, method: str, **parameters: Any) -> Mapping[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message: dict[str, Any] = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                if "error" in message:
                    raise PageError(f"{method}: {message['error']['message']}")
                result: Mapping[str, Any] = message["result"]
                return result
            self._record_event(message.get("method", ""), message.get("params", {}))

    def _record_event(self, event: str, details: Mapping[str, Any]) -> None:
        match event:
            case "Network.requestWillBeSent":
                self.requests.append(details["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(details["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if details["type"] in ("error", "warning", "assert"):
                self.errors.append(str(details["args"]))
            case "Log.entryAdded" if details["entry"]["level"] in ("error", "warning"):
                self.errors.append(f"{details['entry']['text']} {details['entry'].get('url', '')}")

    def evaluate(self, script: str) -> Any:
        """Evaluate an expression in the page and return its value. Awaits promises."""
        response = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in response:
            raise PageError(f"{script}: {response['exceptionDetails'].get('exception', {}).get('description')}")
        return response["result"].get("value")

    def wait_until(self, condition: str, seconds: float = 20) -> None:
        """Wait until an expression in the page is true. Raises PageError."""
        self.evaluate(UNTIL % (seconds * 1000, condition))

    def size(self, width: int, height: int = 900, *, scale: float = 1) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def set_color_scheme(self, scheme: str) -> None:
        """Set the user's preferred color scheme: `light` or `dark`."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)
        self.wait_until(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def press_key(self, key: str, code: int) -> None:
        """Press and release a key, given by its name and key code, such as `Tab` and 9."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def save_screenshot(self, file: Path) -> None:
        """Save a screenshot of the window."""
        response = self.send("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(response["data"]))


@contextmanager
def open_tab(folder: Path, report: Report, options: Sequence[str] = ()) -> Iterator[Tab]:
    """Yield a tab of a new browser with `folder` as its data folder. Raises BuildError if Chromium is unavailable."""
    program = debian.ensure_package(PACKAGE, report) / PROGRAM
    command = [str(program), *OPTIONS, *options, f"--user-data-dir={folder}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if address := re.search(r"DevTools listening on ws://([\d.]+:\d+)/", line):
                    break
            else:
                raise PageError(f"{PROGRAM} ended: {''.join(said)}")
            with urllib.request.urlopen(f"http://{address[1]}/json/list", timeout=ANSWER_SECONDS) as answer:
                (target,) = [entry for entry in json.load(answer) if entry["type"] == "page"]
            opened = Tab(target["webSocketDebuggerUrl"])
            try:
                yield opened
            finally:
                opened.close()
        finally:
            process.terminate()
            process.stderr.close()
