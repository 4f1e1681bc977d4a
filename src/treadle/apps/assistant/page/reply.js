// One reply on the screen: what was done for it, step by step, then its words, then the buttons where it asks for a yes. Not here: where it comes from.

import { button, element, lines } from "/assets/document.js";
import { confirmation, did, doing } from "/assets/words.js";

const ASKED_MS = 5 * 60_000; // so long the server waits for an answer

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

  /** One that was given before; `tool_calls` as the server keeps them. */
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

  /** A step that is over; the same one again only counts. */
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

  /** All of its words; those before do not count. */
  say(text) {
    this.#text = text;
    this.element.classList.toggle("waiting", false);
    this.#words.replaceChildren(...(text === "" ? [] : lines(text)));
  }

  /** Buttons, where it asks for a phrase that still counts. `answer` is given what the person says by them. */
  offer(answer, askedAt = new Date()) {
    const asked = confirmation(this.#text);
    if (asked === null || Date.now() - askedAt > ASKED_MS) return;
    const choose = (phrase) => () => (this.close(), answer(phrase));
    this.#choices.replaceChildren(button(asked.label, "primary", choose(asked.phrase)), button("No, keep it as it is", "secondary", choose("No")));
  }

  /** Nothing more can be answered to it. */
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
