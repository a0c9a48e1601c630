"""The client's modules in a browser: they lose and repeat nothing."""

from tests.browser.doing import until, wait

FOLLOW = """async (since) => {
  const { Follower } = await import("/static/js/client/follow.js");
  window.told = [];
  window.states = [];
  window.follower = new Follower({
    since,
    heard: (events) => told.push(...events.map(({ sessionId, index }) => [sessionId, index])),
    changed: (name) => states.push(name),
  });
}"""
SYNC = """async (name) => {
  const { Store, sync } = await import("/static/js/client/sync.js");
  const { sessions, token } = await sync(new Store(name));
  return [[...sessions.values()].map(({ id, title }) => [id, title]).sort(), token];
}"""
STATE = "(state) => states.at(-1) === state"
HEARD = "([session, number]) => told.filter(([id]) => id === session).length >= number"
NO_SOCKETS = """window.WebSocket = class {
  constructor() { setTimeout(() => this.onclose({ code: 1006 })); }
  close() {}
}"""


def test_client_modules_lose_and_repeat_nothing(open_browser, ada, complaints):
    # A lost connection resumes, over a WebSocket or, where none opens, over a stream
    for way in ("socket", "stream"):
        page = open_browser().new_page()
        if way == "stream":
            page.add_init_script(NO_SOCKETS)
        else:
            page.route("**/api/v1/events*", lambda route: route.abort())
        page.goto("/agents")
        page.evaluate(FOLLOW, "")
        until(page, STATE, "live")
        sessions = []
        for _ in range(2):
            sessions.append(ada.begin("countdown", "20", wait=False)[0])
            until(page, HEARD, [sessions[-1], 3])
            page.evaluate("follower.lose()")
            assert page.evaluate("states.at(-1)") == "lost"
            page.evaluate("follower.hurry()")
        for session in sessions:
            until(page, "(id) => told.some(([one]) => one === id)", session)
            wait(page, lambda key=session: ada.session(key)["tasks"][0]["state"] == "completed")
            logged = [[session, one["index"]] for one in ada.session(session)["events"]]
            until(page, HEARD, [session, len(logged)])
            assert page.evaluate("(session) => told.filter(([id]) => id === session)", session) == logged

    # The browser's copy is updated, and can be deleted
    whole, token_of_all = page.evaluate(SYNC, "cache-1")
    later, _ = ada.begin("echo", "came later")
    with page.expect_response(lambda answer: "since=" in answer.url) as asked:
        synced, next_token = page.evaluate(SYNC, "cache-1")
    assert len(asked.value.body()) < 10_000
    assert synced == sorted([*whole, [later, "came later"]])
    assert token_of_all != next_token
    assert page.evaluate(SYNC, "cache-2")[0] == synced

    # A signed-out browser is told, and sends no more requests
    page.context.clear_cookies()
    page.goto("/sign-in")
    page.evaluate(FOLLOW, "")
    until(page, STATE, "signed-out")
    complaints.clear()
