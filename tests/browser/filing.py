"""An agent that files: one artifact of every kind, new versions of some, one that is made while one looks."""

import asyncio

import fpdf

from agentkit import Artifact, Completed, Outcome, SkillHandler, TaskContext
from tests.web.telling import PNG

ROWS = "site,depth,note\n" + "".join(f"S{number:03},{number * 7 % 300},\n" for number in range(300))
SITES = {"sites": [{"name": "North", "depths": [1.5, 2]}, {"name": "South", "depths": []}], "checked": True}
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 6"><rect width="8" height="6" fill="teal"/></svg>'
PAGE = "<h1>A page</h1><script>parent.document.title = 'taken over'</script>"
LINES = 40


def sheet() -> bytes:
    paper = fpdf.FPDF()
    paper.add_page()
    paper.set_font("helvetica", size=24)
    paper.cell(text="A sheet of paper")
    return bytes(paper.output())


class Filing(SkillHandler):
    """Files what there is; "again" makes new versions of two files, "slowly" writes one line by line."""

    name = "Filing"

    async def on_request(self, task: TaskContext) -> Outcome:
        if "slowly" in task.message.text:
            return await self.slowly(task)
        notes = Artifact.text("notes.md", f"# Notes\n\n{task.message.text}", "text/markdown")
        rows = Artifact.text("rows.csv", ROWS, "text/csv")
        if "again" in task.message.text:
            return Completed("Filed again.", [notes, rows])
        others = [
            Artifact.json("sites.json", SITES),
            Artifact.text("drawing.svg", DRAWING, "image/svg+xml"),
            Artifact.bytes("dot.png", PNG, "image/png"),
            Artifact.text("page.html", PAGE, "text/html"),
            Artifact.bytes("sheet.pdf", sheet(), "application/pdf"),
            Artifact.bytes("archive.zip", b"PK\x05\x06" + bytes(18), "application/zip"),
        ]
        return Completed("Filed.", [notes, rows, *others])

    async def slowly(self, task: TaskContext) -> Outcome:
        async with task.artifact("log.txt") as log:
            for number in range(LINES):
                await log.append(f"line {number}\n")
                await asyncio.sleep(0.1)
        return Completed("Slowly done.")
