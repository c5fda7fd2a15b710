"""The live page's document and server: what it says, whom it answers, and nothing else."""

import http.client
import io
import json
import os
import urllib.parse

import pytest
from html_page import page_of

from trainload.analyse.live import LiveState
from trainload.api.living import LiveRun
from trainload.errors import UsageError
from trainload.record.follow import RunFollower
from trainload.report.live.chart import axis_range, render_chart
from trainload.report.live.page import run_document, study_document
from trainload.report.live.serving import LivePage


def view_of(path, now_s=1000.0):
    look = RunFollower(path).look()
    state = LiveState(look.manifest)
    state.take(look)
    return state.view(now_s)


@pytest.fixture
def serve():
    pages = []

    def start(document, **options):
        page = LivePage(document, port=0, **options)
        pages.append(page)
        page.start()
        return page

    yield start
    for page in pages:
        page.stop()


def ask(page, path=None, *, host=None, method="GET"):
    parts = urllib.parse.urlsplit(page.url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=10)
    connection.putrequest(method, parts.path if path is None else path, skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{parts.port}" if host is None else host)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_document_of_a_run_is_plain_json(make_run):
    document = run_document(view_of(make_run(gpu=True, outcome=None)))
    text = json.dumps(document, allow_nan=False)
    assert len(text) < 100_000
    names = [chart["name"] for chart in document["charts"]]
    assert names == ["loss", "throughput", "load", "memory", "gpu_memory", "power"]
    load = document["charts"][2]
    assert (load["low"], load["highest"]) == (0.0, "100 %")
    assert document["charts"][3]["series"][0]["label"].endswith("of 16 GiB")
    assert dict(map(tuple, document["figures"]))["step"].startswith("300 of 300")


def test_words_of_a_stranger_are_cleaned(make_run):
    document = run_document(view_of(make_run(hostile=True, outcome="failed", reason="\x1b[31mx")))
    text = json.dumps(document, ensure_ascii=False)
    assert "\x1b" not in text and "\u202e" not in text and "\\u001b" not in text


def test_marks_stand_on_the_terminal_and_in_the_report(make_run):
    from rich.console import Console

    from trainload.api.loading import load
    from trainload.report import render_summary

    marks = [{"t_s": 3.5, "words": "lr <b>down"}, {"t_s": 61.0, "words": ""}]
    run = load(make_run(changes={"marks": marks}))
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_summary(run.summary, run.manifest))
    text = console.export_text()
    assert "mark at 3.5 s" in text and "lr <b>down" in text and "mark at 1 min 01 s" in text
    assert "lr &lt;b&gt;down" in page_of(run.path)


def test_a_directory_of_a_stranger_is_drawn_as_far_as_it_goes(make_run):
    path = make_run(outcome=None, hostile=True)
    bad = [
        b"x" * (5 << 20),
        b'{"kind":"steps","epoch":0,"first_step":4611686018427387904,"start_s":-1e29,'
        b'"end_s":[1e29],"loss":[1e30]}',
        b'{"kind":"window","index":0,"file":"../../etc/passwd","begin_s":1,"end_s":2,"cost_s":0,'
        b'"purpose":"time"}',
        b'{"kind":"mark","t_s":1e29,"words":"' + b"\\u202e" * 400 + b'"}',
        b'{"kind":"phase","name":"\\u001b[31m","edge":"begin","t_s":NaN}',
    ]
    with (path / "events.jsonl").open("ab") as file:
        file.write(b"\n".join(bad) + b"\n")
    (path / "samples.jsonl").unlink()
    os.mkfifo(path / "samples.jsonl")
    run = LiveRun(path)
    for _ in range(4):
        run._looked_s = float("-inf")
        view = run.view()
    text = json.dumps(run_document(view), allow_nan=False)
    assert "no plain file" in text and "passwd" not in text
    assert "\\u202e" not in text and "\\u001b" not in text and len(text) < 200_000


STUDY = """
name: tiny
workload: {model: mlp, framework: fake}
factors:
  batch_size: [16, 32]
"""


def test_a_study_s_folder_is_a_table(serve, tmp_path):
    from trainload.api.living import LiveStudy, follow
    from trainload.api.studying import plan
    from trainload.study.folder import save_plan

    (tmp_path / "tiny.yaml").write_text(STUDY)
    made = plan(tmp_path / "tiny.yaml", out=tmp_path)
    save_plan(tmp_path / "tiny", made.study, ((cell, 1.0) for cell in made.cells))
    study = follow(tmp_path / "tiny")
    assert isinstance(study, LiveStudy) and not study.running
    assert study.stop() == "no process runs it"
    page = serve(lambda: study_document(study.status(), running=study.running))
    document = json.loads(ask(page, "/data.json")[1])
    assert [row[1] for row in document["tables"][0]["rows"]] == ["waiting", "waiting"]
    assert "tiny: 0 of" in document["standing"]


def test_the_page_and_its_parts_are_served_with_a_policy(serve, make_run):
    view = view_of(make_run())
    page = serve(lambda: run_document(view))
    for name, kind in (
        ("/", "text/html"),
        ("/live.js", "text/javascript"),
        ("/live.css", "text/css"),
        ("/data.json", "application/json"),
    ):
        answer, body = ask(page, name)
        assert answer.status == 200 and answer.headers["Content-Type"].startswith(kind)
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert len(body) > 100
    assert json.loads(ask(page, "/data.json")[1])["running"] is False


@pytest.mark.parametrize(
    "path", ["/run.json", "/../run.json", "/%2e%2e/run.json", "//etc/passwd", "/assets/report.js"]
)
def test_nothing_else_is_served(serve, path):
    assert ask(serve(dict), path)[0].status == 404


def test_other_methods_are_refused(serve):
    assert ask(serve(dict), "/data.json", method="POST")[0].status == 501


@pytest.mark.parametrize("host", ["evil.example:80", "evil.example", "", "127.0.0.1:1", "0.0.0.0"])
def test_a_name_that_is_not_this_machine_s_is_refused(serve, host):
    answer, body = ask(serve(lambda: {"secret": 1}), "/data.json", host=host)
    assert answer.status == 403 and body == b""


def test_localhost_by_name_is_answered(serve):
    page = serve(lambda: {"good": 1})
    port = urllib.parse.urlsplit(page.url).port
    assert ask(page, "/data.json", host=f"localhost:{port}")[0].status == 200


def test_beyond_this_machine_the_address_holds_a_secret(serve):
    page = serve(lambda: {"good": 1}, bind="0.0.0.0")
    secret = urllib.parse.urlsplit(page.url).path
    assert len(secret) > 20
    assert ask(page, secret + "data.json", host="anything")[0].status == 200
    assert ask(page, "/data.json")[0].status == 404
    assert ask(page, "/wrong/data.json")[0].status == 404


def test_nothing_of_the_environment_is_told(serve, make_run, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "hunter2hunter2")
    page = serve(lambda: run_document(view_of(make_run())))
    bodies = [ask(page, name)[1] for name in ("/", "/data.json", "/live.js")]
    assert not any(b"hunter2" in body or os.environ["HOME"].encode() in body for body in bodies)


def test_a_port_that_is_taken_is_an_error_where_it_was_asked_for(serve):
    port = urllib.parse.urlsplit(serve(dict).url).port
    with pytest.raises(UsageError, match="--port"):
        LivePage(dict, port=port)
    with pytest.raises(UsageError, match="--bind"):
        LivePage(dict, bind="here")


def test_a_chart_in_dots_keeps_to_its_room():
    lines = [[(float(t), t % 7.0) for t in range(100)], [(50.0, 3.0)]]
    for size in ((60, 8), (20, 3), (14, 2)):
        drawn = render_chart(lines, size, render=lambda value: f"{value:g} units", limits=[7.0])
        rows = ["".join(text for text, _ in row) for row in drawn]
        assert len(rows) == size[1] and all(len(row) == size[0] for row in rows)
        assert any(character > "⠀" for row in rows for character in row)
    assert render_chart(lines, (8, 8), render=str) == []
    assert render_chart([], (60, 8), render=str) == []


def test_an_axis_begins_at_nothing_where_values_are_near_it():
    assert axis_range([1.0, 9.0], None, []) == (0.0, 9.0)
    assert axis_range([8.0, 9.0], None, []) == (8.0, 9.0)
    assert axis_range([0.2, 0.4], 1.0, []) == (0.0, 1.0)
    assert axis_range([3.0, 5.0], None, [10.0, 1000.0]) == (0.0, 10.0)
    assert axis_range([5.0, 5.0], None, []) == (4.5, 5.5)
