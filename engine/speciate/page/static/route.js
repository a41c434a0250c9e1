// Where one is: all of it is in the part of the address behind the #.

/** The view, the category if it is about one, and the parameters. */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?", 2);
  const parameters = new URLSearchParams(query);
  const [first = "", second] = path.split("/").filter(Boolean);
  if (first === "categories" && second !== undefined && /^\d+$/.test(second)) {
    return { view: "category", id: Number(second), parameters };
  }
  return { view: first === "categories" ? "categories" : "overview", id: null, parameters };
}

/** The universe that the address names; the first if it names none, and null if the one it names is not there. */
export function chosen(universes, parameters) {
  const [task, stream] = [parameters.get("task"), parameters.get("stream")];
  const named = (one) => (task === null || one.task === Number(task)) && (stream === null || one.stream === stream);
  return universes.find(named) ?? null;
}

/** An address; it names the universe only if there are several. */
export function link(path, universe, several, more = {}) {
  const parameters = new URLSearchParams();
  if (several && universe) {
    parameters.set("task", String(universe.task));
    if (universe.stream !== null) parameters.set("stream", universe.stream);
  }
  for (const [name, value] of Object.entries(more)) if (value) parameters.set(name, value);
  const query = parameters.toString();
  return `#${path}${query ? `?${query}` : ""}`;
}

/** Change the address without a step in the browser's history. */
export function settle(address) {
  if (location.hash !== address) history.replaceState(history.state, "", address);
}
