// Elements. Whatever comes from a server, a model or a person is put in as text: nothing here, or anywhere in the page, reads HTML.

export const byId = (id) => document.getElementById(id);

/** An element; `properties` are set as they are, `data-` and `aria-` as attributes; children are elements or text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

/** Text of others, line by line, each in its own direction. */
export function lines(text) {
  return text.split("\n").map((line) => element("span", { className: "line", dir: "auto" }, line || "\u00a0"));
}

export const button = (text, className, onclick, more = {}) => element("button", { type: "button", className, onclick, ...more }, text);

/** Asks before what is final; true where the person says yes. */
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

/** Read aloud by a screen reader when it has a moment. */
export function say(text) {
  byId("spoken").replaceChildren(element("span", { dir: "auto" }, text));
}
