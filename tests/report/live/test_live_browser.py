"""The live page in a real browser while a run goes on: it draws, updates and sees the end."""

import threading
import time

import pytest

from trainload.api.living import LiveRun
from trainload.report.live.page import run_document
from trainload.report.live.serving import LivePage
from trainload.run import execute_run, prepare_request
from trainload.workload import parse_words

pytestmark = pytest.mark.browser


def until(condition):
    limit_s = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < limit_s
        time.sleep(0.2)


def test_the_page_follows_a_run_to_its_end(browser, tmp_path):
    request = prepare_request(
        "mlp",
        parse_words("mlp", ["frames_fraction=0.01", "batch_size=16", "epochs=500"]),
        out=tmp_path,
        framework="fake",
        fake={"step_s": 0.005},
        check_overhead=False,
    )
    paths, ready = [], threading.Event()

    def show(progress):
        if progress.step and not paths:
            paths.append(progress.path)
            ready.set()

    driver = threading.Thread(target=execute_run, args=(request, show))
    driver.start()
    assert ready.wait(90)
    run = LiveRun(paths[0])
    try:
        served = LivePage(lambda: run_document(run.view()), port=0)
        served.start()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        complaints, requests = [], []
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("request", lambda r: requests.append(r.url))
        page.goto(served.url)
        page.wait_for_selector("html[data-running=yes]")
        page.wait_for_selector("figure[data-name=loss] path.line")
        step = page.locator("#figures div:nth-child(2) dd")
        first = step.inner_text()
        until(lambda: step.inner_text() != first)
        assert run.command("mark", words="<b>here</b>") == "marked"
        until(lambda: "<b>here</b>" in page.locator("#notes").inner_text())
        assert page.locator("#notes b").count() == 0
        assert run.command("end").startswith("the run ends")
        page.wait_for_selector("html[data-running=no]")
        assert "interrupted" in page.locator("#standing").inner_text()
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert complaints == []
        assert all(url.startswith((served.url, "data:")) for url in requests)
        page.close()
        served.stop()
    finally:
        run.command("end")
        driver.join(90)
    assert not driver.is_alive()
