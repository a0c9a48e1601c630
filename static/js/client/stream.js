// Following sessions by server-sent events, for networks in which no socket opens.

const STATUSES = { 401: 4401, 404: 4404, 422: 4400 };

/** Behaves like a socket of `follow.js`, until `signal` aborts. */
export function stream({ since, sessionIds, types }, { opened, told, closed }, signal) {
  const query = new URLSearchParams([
    ...(since ? [["since", since]] : []),
    ...sessionIds.map((id) => ["session_ids[]", id]),
    ...types.map((type) => ["types", type]),
  ]);
  read(`/api/v1/events?${query}`, signal, { opened, told }).then(closed, () => closed(1006));
}

/** Read a stream to its end; returns why it ended. `EventSource` does not report heartbeats. */
async function read(address, signal, { opened, told }) {
  const response = await fetch(address, { signal, headers: { Accept: "text/event-stream" } });
  if (!response.ok) return STATUSES[response.status] ?? 1006;
  opened();
  let kept = "";
  for await (const text of texts(response.body.getReader())) {
    const frames = (kept + text).split("\n\n");
    kept = frames.pop();
    for (const frame of frames) {
      const fields = Object.fromEntries(frame.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.data) told([{ type: fields.event, ...JSON.parse(fields.data) }], fields.id ?? "");
      else told([], fields.id ?? "");
    }
  }
  return 1006;
}

async function* texts(reader) {
  const decoder = new TextDecoder();
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
    yield decoder.decode(value, { stream: true });
  }
}
