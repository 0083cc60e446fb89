"""What mkdocs is told beside its settings: the pages and files of the repository that docs/ links to come with it."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
OUTSIDE = "repository/"
"""Where files from outside of docs/ lie in the site."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside of docs/, and what those link to."""
    waiting = [each for each in files if each.src_uri.endswith(".md")]
    for page in waiting:
        for target in _targets(page):
            uri = _uri(target)
            if uri.startswith(OUTSIDE) and files.get_file_from_path(uri) is None and (ROOT / target).is_file():
                added = File.generated(config, uri, abs_src_path=str(ROOT / target))
                files.append(added)
                waiting += [added] if uri.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, page, **_: object) -> str:  # noqa: ANN001 - mkdocs' Page
    """Point links at the places that files have in the site."""

    def moved(link: re.Match[str]) -> str:
        target = _target(page.file, link[1])
        return posixpath.relpath(_uri(target), posixpath.dirname(page.file.src_uri) or ".")

    return LINK.sub(moved, markdown)


def _targets(page: File) -> list[str]:
    return [_target(page, each) for each in LINK.findall(page.content_string)]


def _target(page: File, link: str) -> str:
    """The path in the repository that a page's link names; a folder's README where it has one."""
    own = page.src_uri.removeprefix(OUTSIDE) if page.src_uri.startswith(OUTSIDE) else f"docs/{page.src_uri}"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(own), link))
    readme = f"{path}/README.md"
    return readme if (ROOT / readme).is_file() else path


def _uri(target: str) -> str:
    """Where a path of the repository lies in the site."""
    return target.removeprefix("docs/") if target.startswith("docs/") else OUTSIDE + target


def on_post_page(output: str, **_: object) -> str:
    """Put the search's worker for pages from a disk into each page: the theme would fetch one from a host."""
    return re.sub(r'<script src="https://unpkg[^>]*></script>', lambda _: WORKER, output)


def on_post_template(output_content: str, **_: object) -> str:
    """The same in the theme's own pages, such as the one of what is not found."""
    return on_post_page(output_content)


WORKER = """<script>
if (location.protocol === "file:") {
  // A browser starts no worker from a disk: its script runs in a hidden frame instead.
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.ready = new Promise(resolve => { frame.onload = resolve; });
      addEventListener("message", event => {
        if (event.source !== this.inside) return;
        const told = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(told);
        if (this.onmessage) this.onmessage(told);
      });
      const begin = "postMessage = message => parent.postMessage(message, '*');" +
        "importScripts = (...names) => Promise.all(names.map(name => new Promise((done, failed) => {" +
        "const script = document.createElement('script'); script.src = new URL(name, '" + url + "');" +
        "script.onload = done; script.onerror = failed; document.body.append(script); })));";
      const tag = "script";
      frame.srcdoc = "<body><" + tag + ">" + begin + "</" + tag + "><" + tag + " src='" + url + "'></" + tag + ">";
    }
    postMessage(data) { this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data }))); }
    terminate() {}
  };
}
</script>"""
