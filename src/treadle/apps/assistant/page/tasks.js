// The task list: loaded at the start and whenever the server reports a change. The person's own actions are separate requests.
// A deletion can be undone for a while; until then the task is only hidden.

import { byId, element, say } from "/assets/document.js";
import { eventsOf, pause } from "/assets/events.js";
import { alarm, notice, settle } from "/assets/notices.js";
import { session } from "/assets/session.js";
import { TaskRow } from "/assets/task_row.js";

const SOON_MS = 150; // combines changes at about the same time
const WAIT_MOST_MS = 30_000;

export class Tasks extends EventTarget {
  #rows = new Map();
  #tasks = [];
  #hidden = new Set();
  #deleting = Promise.resolve();
  #acting = 0;
  #asked = 0;
  #soon = null;
  #watching = null;

  constructor() {
    super();
    byId("add-task").addEventListener("submit", (event) => (event.preventDefault(), this.#add()));
    addEventListener("pagehide", () => settle());
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#leave() : this.#follow()));
  }

  // ------------------------------------------------------------ the server's list

  /** Keep the list in sync with the server from now on. */
  watch() {
    this.#watching ??= { stream: null };
    this.#follow();
  }

  stop() {
    this.#leave();
    this.#watching = null;
  }

  #leave() {
    settle();
    this.#watching?.stream?.abort();
    if (this.#watching) this.#watching.stream = null;
  }

  /** Follow changes while the page is visible. A page in the background sends no requests, and reloads the list when it is visible again. */
  async #follow() {
    if (this.#watching === null || this.#watching.stream !== null || document.hidden) return;
    const stream = (this.#watching.stream = new AbortController());
    for (let tries = 0; !stream.signal.aborted; ) {
      let wait = 0;
      try {
        const response = await session.fetch("/tasks/events", { signal: stream.signal, headers: { Accept: "text/event-stream" } });
        this.#connection(true);
        for await (const event of eventsOf(response)) {
          if (event.type === "tasks") this.loadSoon(); // the first one arrives at once
          tries = 0;
        }
        wait = 250;
      } catch (problem) {
        if (stream.signal.aborted || problem.status === 401) return;
        if (problem.status === 429) await this.load().catch(() => {}); // too many tabs: this one polls
        else if (tries > 0) this.#connection(false);
        wait = Math.max(1000 * (problem.retryAfterS ?? 0), Math.min(500 * 2 ** tries++, WAIT_MOST_MS) * (0.75 + Math.random() / 2));
      }
      await pause(wait);
    }
  }

  loadSoon() {
    this.#soon ??= setTimeout(() => {
      this.#soon = null;
      if (this.#watching !== null) this.load().catch((problem) => problem.status === 0 || problem.status === 401 || alarm(problem.message));
    }, SOON_MS);
  }

  /** Load the list. Raises Problem. Ignores a response that a later request or an action of the person has overtaken. */
  async load() {
    const asked = ++this.#asked;
    const tasks = await session.json("/tasks");
    if (asked !== this.#asked || this.#acting > 0) return;
    this.#tasks = tasks;
    this.#show();
  }

  #connection(isThere) {
    this.dispatchEvent(new CustomEvent("connection", { detail: isThere }));
  }

  // ------------------------------------------------------------ actions of the person

  async #add() {
    const field = byId("new-task");
    const title = field.value.trim();
    if (title === "") return field.focus();
    field.value = "";
    const task = await this.#act("/tasks", { method: "POST", body: { title } });
    if (task === undefined) field.value = field.value === "" ? title : `${title} ${field.value}`;
    else {
      this.#put(task);
      say(`Added “${task.title}”.`);
    }
  }

  /** Change a task. False if the request failed. */
  async change(task, fields) {
    const focus = this.#neighbour(task);
    const changed = await this.#act(`/tasks/${encodeURIComponent(task.id)}`, { method: "PATCH", body: fields });
    if (changed === undefined) return false;
    const hadFocus = this.#rows.get(task.id)?.element.contains(document.activeElement);
    this.#put(changed);
    if ("completed" in fields && hadFocus) focus();
    if (fields.completed) notice(`Completed “${task.title}”.`, { undo: () => this.change(changed, { completed: false }) });
    return true;
  }

  /** Keep the row of a deleted task while its editor is open. */
  closed() {
    this.#show();
  }

  /** Hide a task, and delete it once the deletion can no longer be undone. */
  remove(task) {
    const focus = this.#neighbour(task);
    notice(`Deleted “${task.title}”.`, {
      undo: () => {
        this.#hidden.delete(task.id);
        this.#show();
        this.#rows.get(task.id)?.focus();
      },
      over: () => (this.#deleting = Promise.all([this.#deleting, this.#delete(task)])),
    });
    this.#hidden.add(task.id);
    this.#show();
    focus();
  }

  async #delete(task) {
    const options = { method: "DELETE", keepalive: true };
    const gone = await this.#act(`/tasks/${encodeURIComponent(task.id)}`, options, { missing: null });
    if (gone !== undefined) this.#tasks = this.#tasks.filter(({ id }) => id !== task.id);
    this.#hidden.delete(task.id);
    this.#show();
  }

  /** Resolves when no task is merely hidden any more. */
  settled() {
    settle();
    return this.#deleting;
  }

  /** Send a request. Returns its response; undefined if it failed, after showing the error. `missing`: result if the task no longer exists. */
  async #act(path, options, { missing } = {}) {
    this.#acting += 1;
    try {
      return await session.json(path, options);
    } catch (problem) {
      if (problem.status !== 404) alarm(problem.message);
      else if (missing !== undefined) return missing;
      else alarm("That task is gone: it was deleted in another tab or by chat. Add it again if you still need it.");
      return undefined;
    } finally {
      this.#acting -= 1;
      this.#asked += 1; // a list requested earlier does not contain the change
      this.loadSoon();
    }
  }

  #put(task) {
    this.#tasks = [...this.#tasks.filter(({ id }) => id !== task.id), task];
    this.#show();
  }

  // ------------------------------------------------------------ the screen

  #show() {
    const seen = this.#tasks.filter(({ id }) => !this.#hidden.has(id));
    const open = seen.filter((task) => !task.completed).sort(byUrgency);
    const completed = seen.filter((task) => task.completed).sort((a, b) => b.updated_at.localeCompare(a.updated_at));
    const kept = new Set(seen.map(({ id }) => id));
    for (const [id, row] of this.#rows) if (!kept.has(id) && !row.isEdited) this.#drop(id, row);
    place(byId("open-tasks"), open.map((task) => this.#row(task)));
    place(byId("completed-tasks"), completed.map((task) => this.#row(task)));
    byId("no-tasks").hidden = open.length > 0;
    byId("done").hidden = completed.length === 0;
    byId("done-count").textContent = completed.length;
    byId("tasks-count").replaceChildren(...(open.length ? [`${open.length}`, element("span", { className: "unseen" }, " open")] : []));
  }

  #drop(id, row) {
    const focus = row.element.contains(document.activeElement) ? this.#neighbour(row.task) : () => {};
    this.#rows.delete(id);
    row.element.remove();
    focus();
  }

  #row(task) {
    const row = this.#rows.get(task.id);
    if (row === undefined) this.#rows.set(task.id, new TaskRow(task, this));
    else row.update(task);
    return this.#rows.get(task.id).element;
  }

  /** Return a function that moves the focus when this task leaves its place. */
  #neighbour(task) {
    const row = this.#rows.get(task.id)?.element;
    const next = row?.nextElementSibling ?? row?.previousElementSibling;
    return () => (this.#rows.get(next?.dataset.id)?.focus() ?? next?.isConnected) || byId("new-task").focus({ preventScroll: true });
  }
}

/** Put elements into this order without moving those in the right place, so that the focus is kept. */
function place(list, elements) {
  elements.forEach((one, index) => {
    if (list.children[index] !== one) list.insertBefore(one, list.children[index] ?? null);
  });
}

const WEIGHT = { High: 0, Medium: 1, Low: 2 };

function byUrgency(a, b) {
  const due = (a.due ?? "9999").localeCompare(b.due ?? "9999");
  return due || WEIGHT[a.priority] - WEIGHT[b.priority] || a.created_at.localeCompare(b.created_at);
}
