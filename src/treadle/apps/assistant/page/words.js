// Texts for the names and codes that the server sends. Entry points: doing, did, confirmation, day.

const DOING = {
  add_task: ["Adding a task…", "Added a task"],
  list_tasks: ["Listing your tasks…", "Listed your tasks"],
  complete_task: ["Completing a task…", "Completed a task"],
  update_task: ["Changing a task…", "Changed a task"],
  delete_task: ["Deleting a task…", "Deleted a task"],
  complete_all: ["Completing your tasks…", "Completed your tasks"],
  delete_completed: ["Deleting completed tasks…", "Deleted the completed tasks"],
  undo: ["Undoing the last change…", "Undid the last change"],
};
const INSTEAD = {
  confirm: "Asked for confirmation",
  not_found: "No such task",
  ambiguous: "Found several tasks",
  invalid: "Could not do that",
  failed: "Could not do that",
};

export const doing = (tool) => DOING[tool]?.[0] ?? "Working…";

/** Describe a finished call: {text, state}, with the state `over`, `instead` or `failed`. `result` is an object or JSON; `exitCode` is that of a command. */
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

/** Return {phrase, label} if a reply asks for a confirmation, else null. The server decides the effect of the phrase. */
export function confirmation(reply) {
  const found = ASKS.exec(reply.trimEnd());
  if (found === null) return null;
  const [, phrase, verb, count] = found;
  return { phrase, label: verb === undefined ? "Yes, delete" : `Yes, ${verb} all ${count}` };
}

const DAY_MS = 86_400_000;

/** Return an ISO date in words, and whether it is past: {text, late}. */
export function day(iso, now = new Date()) {
  const [year, month, date] = iso.split("-").map(Number);
  const then = new Date(year, month - 1, date);
  const days = Math.round((then - new Date(now.getFullYear(), now.getMonth(), now.getDate())) / DAY_MS);
  const near = { [-1]: "Yesterday", 0: "Today", 1: "Tomorrow" }[days];
  if (near !== undefined) return { text: near, late: days < 0 };
  const shape = days > 1 && days < 7 ? { weekday: "long" } : { day: "numeric", month: "short", ...(year === now.getFullYear() ? {} : { year: "numeric" }) };
  return { text: then.toLocaleDateString("en-GB", shape), late: days < 0 };
}
