"""What mkdocs calls while it builds the site: pages made from the code join those under docs/.

Only here is mkdocs imported; what the pages say is made by the files beside this one.
"""

import posixpath
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from site_command_line import command_pages
from site_gallery import gallery_pages
from site_nav import arranged
from site_python import python_page
from site_schema import schema_page

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)(?=[)#])")
_FETCHED = re.compile(r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["']?(?:https?:)?//[^>]*""")
_AS_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages at the top of the repository that the site has too."""
_FOLDERS: list[TemporaryDirectory[str]] = []
_ELSEWHERE = "files/"
"""Where other files of the repository stand that a page links to."""


def on_files(files: Files, config: Any) -> Files:
    """Add the reference, the gallery and what pages link to outside of docs/; then the order."""
    made = {**command_pages(), **python_page(), **schema_page(ROOT / "docs" / "schema")}
    made |= {page: (ROOT / name).read_text(encoding="utf-8") for name, page in _AS_PAGES.items()}
    for address, text in made.items():
        files.append(File.generated(config, address, content=text))
    _FOLDERS.append(TemporaryDirectory(prefix="trainload-gallery-"))
    for address, path in gallery_pages(ROOT, Path(_FOLDERS[-1].name)).items():
        files.append(File.generated(config, address, abs_src_path=str(path)))
    for name in sorted(_outside(files)):
        path = str(ROOT / name)
        files.append(File.generated(config, _ELSEWHERE + name, abs_src_path=path))
    titles = {file.src_uri: _title(file.content_string) for file in files.documentation_pages()}
    config.nav = arranged(titles)
    return files


def on_post_build(**_: Any) -> None:
    """Delete what the gallery was made in: its pages have been copied."""
    while _FOLDERS:
        _FOLDERS.pop().cleanup()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Have links to files outside of docs/ lead to where the site keeps them."""
    here = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri in _AS_PAGES.values():
        # Written for the top of the repository: docs/x.md there is x.md here.
        return re.sub(r"(?<=\]\()docs/", "", markdown)

    def there(match: re.Match[str]) -> str:
        name = _left(here, match[1])
        if name is None:
            return match[1]
        return posixpath.relpath(_AS_PAGES.get(name, _ELSEWHERE + name), here or ".")

    return _LINK.sub(there, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that would ask another host for a script, a style or an image."""
    asked = _FETCHED.search(output)
    if asked:
        raise PluginError(f"{page.file.src_uri} fetches from elsewhere: {asked[0][:200]}")
    return output


def _outside(files: Files) -> set[str]:
    """Files of the repository, outside of docs/, that a page links to."""
    found = set()
    for file in files.documentation_pages():
        here = posixpath.dirname(file.src_uri)
        for link in _LINK.findall(file.content_string):
            name = _left(here, link)
            if name is not None and name not in _AS_PAGES and (ROOT / name).is_file():
                found.add(name)
    return found


def _left(here: str, link: str) -> str | None:
    """A link's target from the top of the repository; None where it stays inside of docs/."""
    target = posixpath.normpath(posixpath.join("docs", here, link))
    return None if target.startswith(("docs/", "../")) else target


def _title(text: str) -> str:
    """The first heading of a page."""
    heading = re.search(r"^# +(.+)$", text, re.MULTILINE)
    return heading[1].strip() if heading else "Untitled"
