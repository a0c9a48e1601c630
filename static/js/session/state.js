// What a page knows of its conversation: what the server fetched, and the patches since (`apps/conversations/pages/session/conversation.py`). Changes
// the state and its lists in place, so that a patch costs no more in a long session; replaces changed items, so that the view redraws
// only those.

const PARTS = new Set(["step", "call"]); // of an item: it has them as `steps`

/** The state before the first patch; `agent` is the session's. */
export function begin(agent = null) {
  const shown = { last: 0, title: null, agent, open: [], ratings: {}, items: [] }; // `open`: unfinished tasks
  return { ...shown, places: new Map(), files: new Map(), parts: new Map() }; // all by key: items, files in progress, parts of items
}

/** The state after a patch. What comes again (after a lost connection) changes nothing. */
export function apply(state, { index, put = [], set = {}, drop: gone = [], ratings, ...facts }) {
  const owners = new Set();
  for (const item of put) if (!isNewer(state, item)) insert(state, item, owners);
  for (const [key, { more, ...changes }] of Object.entries(set)) {
    const known = itemOf(state, key);
    if (!known || known.version >= changes.version) continue;
    if (more) changes.text = known.text + more;
    if (state.places.has(key)) change(state, key, changes);
    else insert(state, { ...known, ...changes }, owners);
  }
  for (const key of gone) drop(state, key, owners);
  for (const key of owners) if (state.places.has(key)) change(state, key, { steps: stepsOf(state, key) });
  for (const name of ["title", "agent", "open"]) if (facts[name] !== undefined) state[name] = facts[name];
  Object.assign(state.ratings, ratings);
  state.last = Math.max(state.last, index);
  return state;
}

/** Add earlier items; what the state knows is newer. */
export function addEarlier(state, { put = [], ratings }) {
  const known = { ...state.ratings };
  apply(state, { index: 0, put: put.filter(({ key }) => !itemOf(state, key)), ratings });
  Object.assign(state.ratings, known);
}

/** Whether a task works, and does not only wait for the person. */
export const isBusy = ({ open }) => open.some(({ waits }) => !waits);

export function itemOf({ items, places, files, parts }, key) {
  return items[places.get(key)] ?? files.get(key) ?? parts.get(key);
}

const isNewer = (state, { key, version }) => itemOf(state, key)?.version >= version;

/** Put an item in its place; one of the page itself, without a place, comes last. */
export function insert(state, item, owners = new Set()) {
  const { items, places, files, parts } = state;
  if (item.kind === "file") return void files.set(item.key, item);
  if (PARTS.has(item.kind)) {
    parts.set(item.key, item);
    return void owners.add(item.of);
  }
  drop(state, item.key);
  let place = items.length;
  while (place && placeOf(items[place - 1]) > placeOf(item)) place -= 1;
  items.splice(place, 0, item);
  number(state, place);
  if (item.kind === "work" || item.kind === "app") owners.add(item.key);
}

const placeOf = ({ place = Infinity }) => place;

function number({ items, places }, from) {
  for (let next = from; next < items.length; next += 1) places.set(items[next].key, next);
}

function stepsOf({ parts }, owner) {
  return [...parts.values()].filter(({ of }) => of === owner).sort((one, other) => one.place - other.place);
}

export function change({ items, places }, key, changes) {
  const place = places.get(key);
  items[place] = { ...items[place], ...changes };
}

export function drop(state, key, owners = new Set()) {
  const { items, places, files, parts } = state;
  const part = parts.get(key);
  if (part) owners.add(part.of);
  parts.delete(key);
  files.delete(key);
  const place = places.get(key);
  if (place === undefined) return;
  items.splice(place, 1);
  places.delete(key);
  number(state, place);
}
