// The page's own words for what the server says in names and codes. Entry: doing, did, confirmation, day.

const DOING = {
  add_task: ["Adding a task…", "Added a task"],
  list_tasks: ["Looking at your tasks…", "Looked at your tasks"],
  complete_task: ["Completing a task…", "Completed a task"],
  update_task: ["Changing a task…", "Changed a task"],
  delete_task: ["Deleting a task…", "Deleted a task"],
  complete_all: ["Completing your tasks…", "Completed your tasks"],
  delete_completed: ["Deleting completed tasks…", "Deleted the completed tasks"],
  undo: ["Taking the last change back…", "Took the last change back"],
};
const INSTEAD = {
  confirm: "Asked you first",
  not_found: "Found no such task",
  ambiguous: "Found several tasks",
  invalid: "Could not do that",
  failed: "Could not do that",
};

export const doing = (tool) => DOING[tool]?.[0] ?? "Working…";

/** `result` is the tool's, as an object or as JSON; `exitCode` is that of a command: {text, state}, which is `over`, `instead` or `failed`. */
export function did(tool, result, isError = false, exitCode = 0) {
  if (exitCode) return { text: `${tool}: exit ${exitCode}`, state: "failed" };
  const code = codeOf(result) ?? (isError ? "failed" : null);
  if (code !== null) return { text: INSTEAD[code] ?? INSTEAD.failed, state: code === "failed" ? "failed" : "instead" };
  return { text: DOING[tool]?.[1] ?? "Done", state: "over" };
}

function codeOf(result) {
  try {
    const said = typeof result === "string" ? JSON.parse(result) : result;
    return said?.error?.code ?? null;
  } catch {
    return null;
  }
}

const ASKS = /(?:Reply|Confirm with) '(yes (?:delete|(delete|complete|update) all (\d+)))'(?: to confirm)?\.$/;

/** {phrase, label}, where a reply asks for one; null where it does not. What the phrase does is the server's to decide. */
export function confirmation(reply) {
  const found = ASKS.exec(reply.trimEnd());
  if (found === null) return null;
  const [, phrase, verb, count] = found;
  return { phrase, label: verb === undefined ? "Yes, delete" : `Yes, ${verb} all ${count}` };
}

const DAY_MS = 86_400_000;

/** An ISO date as a person says it, and whether it is past: {text, late}. */
export function day(iso, now = new Date()) {
  const [year, month, date] = iso.split("-").map(Number);
  const then = new Date(year, month - 1, date);
  const days = Math.round((then - new Date(now.getFullYear(), now.getMonth(), now.getDate())) / DAY_MS);
  const near = { [-1]: "Yesterday", 0: "Today", 1: "Tomorrow" }[days];
  if (near !== undefined) return { text: near, late: days < 0 };
  const shape = days > 1 && days < 7 ? { weekday: "long" } : { day: "numeric", month: "short", ...(year === now.getFullYear() ? {} : { year: "numeric" }) };
  return { text: then.toLocaleDateString("en-GB", shape), late: days < 0 };
}
