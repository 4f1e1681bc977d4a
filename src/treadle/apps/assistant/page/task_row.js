// One task of the list: shown, checked off, edited in place. Typed text is kept when the list changes. The requests are in tasks.js.

import { button, element } from "/assets/document.js";
import { day } from "/assets/words.js";

const TITLE_CHARS = 200;
let number = 0;

export class TaskRow {
  #acts;
  #check;
  #title = element("span", { className: "title", dir: "auto", id: `task-${++number}` });
  #notes = element("span", { className: "notes", dir: "auto" });
  #facts = element("span", { className: "facts" });
  #open;
  #remove;
  #editor = null;

  /** `acts` has change(task, fields), which returns false if the request failed, remove(task), and closed(). */
  constructor(task, acts) {
    this.#acts = acts;
    this.#check = element("input", { type: "checkbox", "aria-labelledby": this.#title.id, onchange: () => this.#checked() });
    const text = element("span", { className: "text" }, this.#title, this.#notes, this.#facts);
    this.#open = element("button", { type: "button", className: "open", "aria-expanded": "false", onclick: () => this.edit() }, element("span", { className: "unseen" }, "Edit "), text);
    this.#remove = button("×", "remove", () => acts.remove(this.task));
    const check = element("label", { className: "check" }, this.#check);
    this.element = element("li", { className: "task" }, element("div", { className: "face" }, check, this.#open, this.#remove));
    this.update(task);
  }

  update(task) {
    this.task = task;
    this.element.dataset.id = task.id;
    this.element.classList.toggle("completed", task.completed);
    this.#check.checked = task.completed;
    this.#title.textContent = task.title;
    this.#notes.textContent = task.description ?? "";
    this.#remove.setAttribute("aria-label", `Delete ${task.title}`);
    this.#facts.replaceChildren(...facts(task));
  }

  focus() {
    this.#check.focus();
  }

  async #checked() {
    const completed = this.#check.checked;
    if (!(await this.#acts.change(this.task, { completed }))) this.#check.checked = !completed;
  }

  // ------------------------------------------------------------ editing

  get isEdited() {
    return this.#editor !== null;
  }

  edit() {
    if (this.#editor !== null) return this.#close();
    this.#editor = new Editor(this.task, (fields) => this.#save(fields), () => this.#close());
    this.#open.setAttribute("aria-expanded", "true");
    this.element.append(this.#editor.element);
    this.#editor.title.select();
  }

  async #save(fields) {
    if (Object.keys(fields).length > 0 && !(await this.#acts.change(this.task, fields))) return; // keeps the editor and its text
    this.#close();
  }

  #close() {
    this.#editor?.element.remove();
    this.#editor = null;
    this.#open.setAttribute("aria-expanded", "false");
    this.#open.focus();
    this.#acts.closed();
  }
}

class Editor {
  constructor(task, save, close) {
    this.title = element("input", { type: "text", dir: "auto", value: task.title, maxLength: TITLE_CHARS, autocomplete: "off", required: true });
    this.priority = element("select", {}, ...["High", "Medium", "Low"].map((name) => element("option", { value: name }, name)));
    this.priority.value = task.priority;
    this.due = element("input", { type: "date", value: task.due ?? "" });
    this.element = element(
      "form",
      { className: "editor", noValidate: true, onsubmit: (event) => (event.preventDefault(), save(this.#changed(task))) },
      field("Title", this.title),
      field("Priority", this.priority),
      field("Due", this.due),
      element("div", { className: "choices" }, element("button", { type: "submit", className: "primary" }, "Save"), button("Cancel", "secondary", close)),
    );
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") (event.stopPropagation(), close());
    });
  }

  /** Return only the fields that the person changed, so that changes from elsewhere are kept. */
  #changed(task) {
    const fields = {};
    const title = this.title.value.trim();
    if (title !== "" && title !== task.title) fields.title = title;
    if (this.priority.value !== task.priority) fields.priority = this.priority.value;
    if (this.due.value !== (task.due ?? "")) fields.due = this.due.value || null;
    return fields;
  }
}

const field = (name, control) => element("label", { className: "field" }, element("span", {}, name), control);

function facts(task) {
  const said = [];
  if (task.priority !== "Medium") said.push(element("span", { className: `fact ${task.priority.toLowerCase()}` }, task.priority, element("span", { className: "unseen" }, " priority")));
  if (task.due) {
    const { text, late } = day(task.due);
    const isLate = late && !task.completed;
    said.push(element("time", { className: `fact${isLate ? " late" : ""}`, dateTime: task.due }, isLate ? `Overdue: ${text}` : text));
  }
  return said;
}
