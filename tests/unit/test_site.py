"""The documentation site in a real browser, offline: three widths, dark and light, search, no requests to a host."""

import subprocess

import pytest

from tests.checks import some
from tests.plans import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.site]
PAGES = ("index", "tutorial", "howto/follow-costs", "plan-file", "cli", "json", "repository/examples/index")


@pytest.fixture(scope="module")
def site_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [ROOT / ".venv-site/bin/mkdocs", "build", "--quiet", "--config-file", ROOT / "ci/site/mkdocs.yml"]
    subprocess.run([*command, "--site-dir", folder], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_site_pages_fit_the_width_and_make_no_network_requests(browser, site_folder, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    requests, wrong = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for name in PAGES:
        page.goto((site_folder / f"{name}.html").as_uri())
        page.wait_for_selector("h1")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.evaluate("document.body.dataset.mdColorScheme") == {"light": "default", "dark": "slate"}[scheme]
    assert [url for url in requests if not url.startswith(("file:", "data:", "about:", "blob:"))] == []
    assert wrong == []
    page.close()


def test_site_search_finds_pages(browser, site_folder):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto((site_folder / "tutorial.html").as_uri())
    page.click("input.md-search__input")
    page.keyboard.type("break-even")
    page.wait_for_selector(".md-search-result__item")
    assert page.locator(".md-search-result__item").count() >= 1
    page.close()


def test_site_pages_load_no_script_or_style_from_a_host(site_folder):
    for path in some(site_folder.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        assert '<script src="http' not in text, path
        assert 'rel="stylesheet" href="http' not in text, path
