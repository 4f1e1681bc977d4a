// One reply on the screen: its steps, its text, and the buttons if it asks for a confirmation. chat.js receives it.

import { button, element, lines } from "/assets/document.js";
import { confirmation, did, doing } from "/assets/words.js";

const ASKED_MS = 5 * 60_000; // time in which the server accepts a confirmation

export const personSaid = (text) => element("li", { className: "message person" }, element("span", { className: "unseen" }, "You: "), element("div", { className: "words" }, ...lines(text)));

export class Reply {
  #steps = element("ul", { className: "steps" });
  #words = element("div", { className: "words" });
  #choices = element("div", { className: "choices", role: "group", "aria-label": "Answer" });
  #byCall = new Map();
  #text = "";

  constructor() {
    const who = element("span", { className: "unseen" }, "Treadle: ");
    this.element = element("li", { className: "message reply" }, who, this.#steps, this.#words, this.#choices);
  }

  /** Create a stored reply, with `tool_calls` as the server stores them. */
  static of({ content, tool_calls: calls = [] }) {
    const reply = new Reply();
    for (const call of calls) reply.#append(past(did(call.tool_name, call.result)));
    reply.say(content);
    return reply;
  }

  get text() {
    return this.#text;
  }

  wait() {
    this.element.classList.add("waiting");
    this.#words.replaceChildren(element("span", { className: "line" }, "Working…"));
  }

  stepBegins(callId, tool) {
    if (this.#byCall.has(callId)) return;
    this.#byCall.set(callId, step(doing(tool), "under-way"));
    this.#steps.append(this.#byCall.get(callId));
  }

  stepEnds(callId, tool, result, isError, exitCode) {
    this.stepBegins(callId, tool);
    const over = past(did(tool, result, isError, exitCode));
    this.#byCall.get(callId).remove();
    this.#byCall.set(callId, this.#append(over));
  }

  /** Add a finished step; if it equals the last one, increase its count. */
  #append(over) {
    const last = this.#steps.lastElementChild;
    if (last === null || last.dataset.text !== over.dataset.text || last.className !== over.className) {
      this.#steps.append(over);
      return over;
    }
    last.dataset.times = Number(last.dataset.times ?? 1) + 1;
    last.textContent = `${last.dataset.text} (${last.dataset.times} times)`;
    return last;
  }

  add(text) {
    this.say(this.#text + text);
  }

  /** Replace the whole text. */
  say(text) {
    this.#text = text;
    this.element.classList.toggle("waiting", false);
    this.#words.replaceChildren(...(text === "" ? [] : lines(text)));
  }

  /** Show buttons if the reply asks for a phrase that is still accepted. Calls `answer` with the text of the chosen button. */
  offer(answer, askedAt = new Date()) {
    const asked = confirmation(this.#text);
    if (asked === null || Date.now() - askedAt > ASKED_MS) return;
    const choose = (phrase) => () => (this.close(), answer(phrase));
    this.#choices.replaceChildren(button(asked.label, "primary", choose(asked.phrase)), button("No, keep it", "secondary", choose("No")));
  }

  /** Remove the buttons. */
  close() {
    this.#choices.replaceChildren();
  }
}

function past({ text, state }) {
  const over = step(text, state);
  over.dataset.text = text;
  return over;
}
const step = (text, state) => element("li", { className: `step ${state}` }, text);
