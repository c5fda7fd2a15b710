"""What the site is made of besides docs/: the order of pages, and the reference from the code."""

import json
from pathlib import Path

import typer

import trainload
from site_command_line import command_pages
from site_gallery import PAGES
from site_nav import SECTIONS, arranged
from site_python import python_page
from site_schema import schema_page
from trainload.cli.app import app

ROOT = Path(__file__).parents[2]


def placed(nav):
    return [
        page
        for section in nav
        for pages in section.values()
        for one in pages
        for page in one.values()
    ]


def test_every_page_has_one_place_and_a_new_one_is_no_mistake():
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("**/*.md")]
    titles = dict.fromkeys([*pages, "brand-new.md", "howto/another.md"], "A title")
    nav = arranged(titles)
    assert sorted(placed(nav)) == sorted(titles)
    sections = {name: placed([{name: pages}]) for one in nav for name, pages in one.items()}
    assert sections["More"] == ["brand-new.md"]
    assert sections["How to"][-1] == "howto/another.md"
    assert sections["Start"][0] == "index.md"


def test_sections_without_a_page_are_left_out():
    assert arranged({"index.md": "Home"}) == [{"Start": [{"Home": "index.md"}]}]
    assert [name for name, _ in SECTIONS].count("More") == 1


def test_the_command_line_reference_has_every_verb_and_option():
    pages = command_pages()
    root = typer.main.get_command(app)
    for name, command in root.commands.items():
        page = pages[f"reference/cli-{name}.md"]
        assert f"(cli-{name}.md)" in pages["reference/index.md"]
        assert page.startswith(f"# trainload {name}\n")
        shown = [param for param in command.params if not getattr(param, "hidden", False)]
        options = {one for param in shown for one in param.opts if one.startswith("--")}
        assert all(f"{one}" in page for one in options), name
        for inner in getattr(command, "commands", {}):
            assert f"## trainload {name} {inner}\n" in page
    assert "```text\ntrainload run mlp --epochs 3\n" in pages["reference/cli-run.md"]


def test_the_python_reference_has_every_public_name_with_its_words():
    (page,) = python_page().values()
    for name in trainload.__all__:
        assert name.startswith("_") or f"\n## trainload.{name}\n" in page
    assert "compare(\n    a: Place,\n    b: Place,\n    *,\n" in page
    assert "B against the reference A" in page and "TrainloadError\n├── UsageError" in page
    assert "| `outcome` | completed, failed, out_of_memory" in page


def test_the_schema_reference_has_every_key():
    (page,) = schema_page(ROOT / "docs" / "schema").values()
    for name in ("study", "run"):
        document = json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text())
        assert all(f"| `{key}` |" in page for key in document["properties"])


def test_the_gallery_shows_pages_that_are_made():
    text = (ROOT / "docs" / "gallery.md").read_text()
    assert all(f"({address})" in text for address in PAGES)
    for words in PAGES.values():
        places = [word for word in words[1:] if not word.startswith("--")]
        assert all((ROOT / "docs/measurements/runs" / word).is_dir() for word in places)
