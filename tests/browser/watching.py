"""Detects browser activity that nobody asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, Request

REFUSED = ("csp", "origin")  # why the browser blocked a request: by our policies or its own
OWN = ("data", "blob", "chrome", "chrome-extension")  # the last two belong to the PDF viewer
OUT_OF_ITS_BOX = """() => {
  const runs = ({name, value}) => /^(hx-)?on/.test(name)
    || /^(javascript|vbscript|data:text)/i.test(value.replace(/[\\s\\x00-\\x1f]/g, ""));
  const isDrawing = (frame) => frame.src.endsWith("/diagrams") && frame.getAttribute("sandbox") === "allow-scripts";
  const isOpen = (frame) => !frame.src.includes("look") && frame.getAttribute("sandbox") !== "" && !isDrawing(frame);
  const strange = "script, style, link, meta, form, input:not([type=checkbox]:disabled), iframe, object, embed, svg,"
    + "img:not([src^='/sessions/'], [src^='data:image/'])";
  return [...document.querySelectorAll("*")]
    .filter((element) => [...element.attributes].some(runs)
      || (element.matches("iframe") && isOpen(element))
      || (element.closest(".prose") && element.matches(strange)))
    .map((element) => element.outerHTML.slice(0, 300));
}"""

OPEN_ALL = "(which) => { for (const one of document.querySelectorAll(which)) one.open = true; }"

LOOK_AT_ALL = """async (addresses) => {
  const box = document.body.appendChild(document.createElement("div"));
  const bad = [];
  const look = async (address) => {
    const answer = await fetch(address);
    if (!answer.ok) bad.push(`${address}: ${answer.status}`);
    return answer.text();
  };
  while (addresses.length) {
    box.innerHTML = (await Promise.all(addresses.splice(0, 10).map(look))).join("");
    await new Promise((done) => requestAnimationFrame(done));
  }
  box.remove();
  return bad;
}"""


@dataclass
class Watch:
    home: str
    broken: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def over(self, context: BrowserContext) -> Page:
        context.on("request", lambda request: self._asked(request.url))
        context.on("requestfailed", self._failed)
        page = context.new_page()
        page.on("dialog", lambda dialog: (self.broken.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("websocket", lambda line: self._asked(line.url.replace("ws:", "http:")))
        page.on("pageerror", lambda error: self.broken.append(str(error)))
        page.on("download", lambda download: self.broken.append(f"downloads {download.url}"))
        self.pages.append(page)
        return page

    def settle(self) -> None:
        """Wait until each request was sent or blocked, and look for unexpected pages."""
        for page in self.pages:
            page.wait_for_timeout(300)
            self.broken += [f"opened {one.url}" for one in page.context.pages if one not in self.pages]

    def _asked(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in OWN and parts.netloc != urlsplit(self.home).netloc:
            self.broken.append(f"asked for {url}")

    def _failed(self, request: Request) -> None:
        if request.failure in REFUSED and (told := f"asked for {request.url}") in self.broken:
            self.broken.remove(told)
