"""Take screenshots of the dashboard for the documents. Run `python -m docs.screenshots [URL]` in the repository's root.

With URL, the screenshots show a running dashboard; without it, the sample cluster of testkit/dashboard_world.py. The
first run downloads Debian's headless Chromium (64 MB).
"""

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cli.clusters.dashboard.page_data import build_page
from cli.clusters.dashboard.server import DashboardServer
from testkit import browser
from testkit.dashboard_world import NOW, SEEN

FOLDER: Final = Path(__file__).parent / "pictures"
PICTURES: Final = {
    "dashboard": (1280, 1374, "light"),
    "dashboard-dark": (1280, 1374, "dark"),
    "dashboard-narrow": (375, 900, "light"),
}
"""Maps a file name to the width and height of the window in pixels, and to the color scheme."""


@contextmanager
def serve_sample_cluster() -> Iterator[str]:
    """Serve the sample cluster; yield the URL."""
    with DashboardServer(0, lambda: build_page(SEEN, NOW)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def write_screenshots(url: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as files, browser.open_tab(Path(files), print) as tab:
        for name, (width, height, scheme) in PICTURES.items():
            tab.size(width, height)
            tab.set_color_scheme(scheme)
            tab.open(url)
            tab.wait_until("document.querySelector('#state').textContent.startsWith('Live')")
            tab.save_screenshot(folder / f"{name}.png")


def main(arguments: list[str]) -> None:
    if arguments:
        write_screenshots(arguments[0], FOLDER)
        return
    with serve_sample_cluster() as url:
        write_screenshots(url, FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
