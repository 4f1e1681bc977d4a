// Elements. Content from a server, a model or a person is inserted as text: no part of the page parses HTML.

export const byId = (id) => document.getElementById(id);

/** Create an element. Sets `properties`, and `data-` and `aria-` as attributes; children are elements or text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

/** Split a text into lines, each with its own direction. */
export function lines(text) {
  return text.split("\n").map((line) => element("span", { className: "line", dir: "auto" }, line || "\u00a0"));
}

export const button = (text, className, onclick, more = {}) => element("button", { type: "button", className, onclick, ...more }, text);

/** Ask before a final action. True if the person agrees. */
export function ask(title, text, yes, no) {
  const dialog = byId("question");
  byId("question-title").textContent = title;
  byId("question-text").textContent = text;
  byId("question-yes").textContent = yes;
  byId("question-no").textContent = no;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

/** Announce a text to screen readers, politely. */
export function say(text) {
  byId("spoken").replaceChildren(element("span", { dir: "auto" }, text));
}
