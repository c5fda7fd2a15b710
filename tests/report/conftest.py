"""A real browser for the tests that look at pages; they skip where there is none."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield running
        running.close()


@pytest.fixture
def watched_page(browser):
    """Opens pages that must complain of nothing; what they ask for is in `asked`."""
    opened = []

    def open_it(path, width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        opened.append(page)
        page.complaints, page.asked = [], []
        page.on("console", lambda m: page.complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: page.complaints.append(str(e)))
        page.on("request", lambda r: page.asked.append(r.url))
        page.goto(path.as_uri())
        return page

    yield open_it
    for page in opened:
        assert page.complaints == []
        page.close()


@pytest.fixture
def open_file(watched_page):
    """The same of pages that must ask for nothing but themselves."""
    opened = []

    def open_it(path, width=1280, scheme="light"):
        opened.append(watched_page(path, width, scheme))
        return opened[-1]

    yield open_it
    for page in opened:
        assert len([url for url in page.asked if not url.startswith(("data:", "blob:"))]) == 1
