// The list of conversations: open, start, and delete after a confirmation. chat.js shows their messages.

import { ask, button, byId, element } from "/assets/document.js";
import { alarm } from "/assets/notices.js";
import { session } from "/assets/session.js";

const PAGE = 50;

export class Conversations {
  #list = byId("conversation-list");
  #all = [];
  #open;
  current = null;

  /** Calls `open` with the id of the selected conversation, null for a new one. */
  constructor(open) {
    this.#open = open;
    byId("new-conversation").addEventListener("click", () => open(null));
    byId("more-conversations").addEventListener("click", () => this.#more());
  }

  /** Load the first page of the list. Raises Problem. */
  async load() {
    this.#all = await session.json(`/conversations?limit=${PAGE}`);
    this.#show(this.#all.length === PAGE);
  }

  async #more() {
    const before = this.#all.at(-1).updated_at;
    try {
      const older = await session.json(`/conversations?limit=${PAGE}&before=${encodeURIComponent(before)}`);
      this.#all.push(...older);
      this.#show(older.length === PAGE);
    } catch (problem) {
      alarm(problem.message);
    }
  }

  mark(id) {
    this.current = id;
    for (const row of this.#list.children) {
      const open = row.firstElementChild;
      if (row.dataset.id === id) open.setAttribute("aria-current", "true");
      else open.removeAttribute("aria-current");
    }
  }

  /** Move a conversation with a new message to the top. Reloads the list for a new one, because the server sets its title. */
  async said(id) {
    const index = this.#all.findIndex((one) => one.id === id);
    if (index < 0) await this.load().catch(() => {});
    else if (index > 0) {
      this.#all.unshift(...this.#all.splice(index, 1));
      this.#show(!byId("more-conversations").hidden);
    }
    this.mark(id);
  }

  #show(hasMore) {
    this.#list.replaceChildren(...this.#all.map((one) => this.#row(one)));
    byId("more-conversations").hidden = !hasMore;
    byId("no-conversations").hidden = this.#all.length > 0;
    this.mark(this.current);
  }

  #row({ id, title }) {
    const name = title || "Untitled";
    const open = element("button", { type: "button", className: "open", onclick: () => this.#open(id) }, element("span", { dir: "auto" }, name));
    const remove = button("×", "remove", () => this.#delete(id, name), { "aria-label": `Delete the conversation ${name}` });
    return element("li", { "data-id": id }, open, remove);
  }

  async #delete(id, name) {
    const text = `“${name}” and all its messages will be deleted. Your tasks are kept.`;
    if (!(await ask("Delete this conversation?", text, "Delete", "Keep it"))) return;
    try {
      await session.fetch(`/conversations/${encodeURIComponent(id)}`, { method: "DELETE" });
    } catch (problem) {
      if (problem.status !== 404) return alarm(problem.message);
    }
    this.#all = this.#all.filter((one) => one.id !== id);
    this.#show(!byId("more-conversations").hidden);
    if (id === this.current) this.#open(null);
    byId("new-conversation").focus();
  }
}
