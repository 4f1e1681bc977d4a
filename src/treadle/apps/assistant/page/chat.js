// The conversation that is open: what is said, and the reply as it comes. A message that did not get through goes back where it was typed.
// A reply whose stream breaks is gone on with. Not here: the list of conversations.

import { byId, say } from "/assets/document.js";
import { eventsOf, pause } from "/assets/events.js";
import { alarm, calm } from "/assets/notices.js";
import { Reply, personSaid } from "/assets/reply.js";
import { session } from "/assets/session.js";

const TRIES = 8;
const NEAR_PX = 80; // of the end: who is there wants to see what comes

export class Chat extends EventTarget {
  #input = byId("say");
  #messages = byId("messages");
  #reading = null; // an AbortController while a reply is awaited
  #runId = null;
  #isUnwanted = false; // it is to be stopped as soon as it is known which run it is
  #wanted = null; // the conversation that was asked for last: answers may overtake each other
  #last = null; // the reply that may still be answered by a button
  #before;
  #isAtEnd = true;
  conversationId = null;

  /** `before` is awaited before something is said: what the person did a moment ago comes first. Tells of `replied` and `connection`. */
  constructor(before) {
    super();
    this.#before = before;
    byId("composer").addEventListener("submit", (event) => (event.preventDefault(), this.#submit()));
    byId("stop").addEventListener("click", () => this.stop());
    this.#input.addEventListener("input", () => this.#typed());
    this.#input.addEventListener("keydown", (event) => this.#key(event));
    const box = byId("transcript");
    box.addEventListener("scroll", () => (this.#isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX));
    const sized = new ResizeObserver(() => this.#scroll());
    for (const one of [box, this.#messages]) sized.observe(one);
  }

  get isBusy() {
    return this.#reading !== null;
  }

  focus() {
    this.#input.focus();
  }

  /** Where the person goes on: the field, but on a phone the messages, as the field would bring its keyboard. */
  rest() {
    (matchMedia("(pointer: coarse)").matches ? byId("transcript") : this.#input).focus({ preventScroll: true });
  }

  #answer(phrase) {
    this.rest();
    this.send(phrase);
  }

  /** Puts words into the field, to be sent or changed. */
  suggest(text) {
    if (this.#input.disabled) return;
    this.#input.value = text;
    this.#typed();
    this.focus();
  }

  // ------------------------------------------------------------ what is typed

  #key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#submit();
    } else if (event.key === "Escape" && this.isBusy) this.stop();
  }

  #typed() {
    const draft = this.#input.value;
    if (draft === "") sessionStorage.removeItem(this.#draftKey());
    else sessionStorage.setItem(this.#draftKey(), draft);
  }

  #draftKey() {
    return `draft ${session.subject} ${this.conversationId ?? "new"}`;
  }

  #submit() {
    const text = this.#input.value;
    if (text.trim() === "") return;
    if (this.isBusy) {
      alarm("The reply is still on its way. Send this when it is there, or stop it first.");
      return;
    }
    this.#input.value = "";
    this.#typed();
    this.send(text);
  }

  #giveBack(text) {
    this.#input.value = this.#input.value === "" ? text : `${text}\n${this.#input.value}`;
    this.#typed();
  }

  // ------------------------------------------------------------ a conversation

  /** A stored one, or a new one for null; false where another was asked for meanwhile. Raises Problem, and leaves what is open as it is then. */
  async open(conversationId) {
    const wanted = (this.#wanted = Symbol());
    const stored = conversationId === null ? { messages: [], run_id: null } : await this.#load(conversationId, wanted);
    if (this.#wanted !== wanted) return false;
    this.#enable(true);
    this.#reading?.abort();
    this.#end();
    this.conversationId = conversationId;
    this.#show(stored.messages);
    this.#input.value = sessionStorage.getItem(this.#draftKey()) ?? "";
    if (stored.run_id) this.#resume(stored.run_id);
    return true;
  }

  /** Nothing can be typed or sent meanwhile: it would be lost with what is open now. */
  async #load(conversationId, wanted) {
    this.#enable(false);
    try {
      return await session.json(`/conversations/${encodeURIComponent(conversationId)}`);
    } catch (problem) {
      if (this.#wanted === wanted) this.#enable(true);
      throw problem;
    }
  }

  #enable(isReady) {
    for (const part of [this.#input, byId("send")]) part.disabled = !isReady;
  }

  #show(messages) {
    const replies = messages.map((message) => (message.role === "user" ? personSaid(message.content) : Reply.of(message)));
    this.#messages.replaceChildren(...replies.map((one) => one.element ?? one));
    this.#last = replies.at(-1) instanceof Reply ? replies.at(-1) : null;
    this.#last?.offer((phrase) => this.#answer(phrase), new Date(messages.at(-1).created_at));
    byId("welcome").hidden = messages.length > 0;
    this.#scroll(true);
  }

  /** The last message has no reply yet: its run goes on at the server, and is followed from its beginning. */
  async #resume(runId) {
    const reading = this.#begin(runId);
    const reply = this.#append(new Reply());
    reply.wait();
    if ((await this.#follow(null, reply, reading.signal)) === null && !reading.signal.aborted) await this.#stored(reply);
    if (reading.signal.aborted) return;
    this.#end();
    this.#replied(reply);
  }

  // ------------------------------------------------------------ a message and its reply

  async send(text) {
    if (this.isBusy) return;
    const reading = this.#begin();
    calm();
    this.#last?.close();
    byId("welcome").hidden = true;
    const said = personSaid(text);
    this.#messages.append(said);
    const reply = this.#append(new Reply());
    reply.wait();
    try {
      await this.#before();
      await this.#reply(text, reply, reading.signal);
      if (!reading.signal.aborted) this.#replied(reply);
    } catch (problem) {
      if (reading.signal.aborted) return;
      said.remove();
      reply.element.remove();
      byId("welcome").hidden = this.#messages.childElementCount > 0;
      this.#giveBack(text);
      alarm(problem.message);
    } finally {
      if (this.#reading === reading) this.#end();
    }
  }

  /** Raises Problem where the message did not get through. */
  async #reply(text, reply, signal) {
    const body = this.conversationId === null ? { message: text } : { message: text, conversation_id: this.conversationId };
    const response = await session.fetch("/chat", { method: "POST", body, signal, headers: { Accept: "text/event-stream" } });
    let conversationId = await this.#follow(response, reply, signal);
    if (conversationId === null && !signal.aborted) conversationId = await this.#stored(reply);
    if (signal.aborted) return;
    if (this.conversationId === null && conversationId !== null) this.#found(conversationId);
  }

  /** The conversation's id; null where the stream was lost for good. */
  async #follow(response, reply, signal) {
    let [lastId, tries] = [null, 0];
    while (!signal.aborted) {
      try {
        if (response !== null) {
          for await (const event of eventsOf(response)) {
            if (signal.aborted) return null;
            lastId = event.id ?? lastId;
            tries = 0;
            if (this.#take(event, reply)) return event.data.conversation_id;
          }
        }
      } catch {
        // broken, or silent: gone on with below
      }
      if (signal.aborted || this.#runId === null || tries++ === TRIES) return null;
      response = await this.#again(reply, lastId, signal, tries);
      if (response === undefined) return null;
    }
    return null;
  }

  /** The rest of the stream; null where the server is not reached, undefined where it has no such run. */
  async #again(reply, lastId, signal, tries) {
    if (tries > 1) {
      this.#connection(false);
      await pause(Math.min(500 * 2 ** tries, 15_000));
    }
    try {
      const headers = { Accept: "text/event-stream", ...(lastId === null ? {} : { "Last-Event-ID": lastId }) };
      const response = await session.fetch(`/runs/${encodeURIComponent(this.#runId)}/events`, { headers, signal });
      reply.say(""); // its sentences come again, or stand in the end
      this.#connection(true);
      return response;
    } catch (problem) {
      return problem.status === 404 || problem.status === 401 ? undefined : null;
    }
  }

  /** True with the last event. */
  #take({ type, data }, reply) {
    if (this.#runId === null && typeof data.run_id === "string") {
      this.#runId = data.run_id;
      if (this.#isUnwanted) this.stop();
    }
    if (type === "tool_call_start") reply.stepBegins(data.call_id, data.name);
    else if (type === "tool_call_end") reply.stepEnds(data.call_id, data.name, data.result, data.is_error, data.exit_code);
    else if (type === "text_delta") reply.add(data.text);
    else if (type === "retry") reply.say("");
    else if (type === "run_end") reply.say(data.text);
    else if (type === "error") reply.say(data.message);
    else if (type === "reply") reply.say(data.response);
    this.#scroll();
    return type === "reply";
  }

  /** Where the stream was lost: what the server has kept by now. */
  async #stored(reply) {
    const isNew = this.conversationId === null && this.#runId !== null;
    const run = isNew ? await session.json(`/runs/${encodeURIComponent(this.#runId)}`).catch(() => null) : null;
    const conversationId = this.conversationId ?? run?.conversation_id ?? null;
    const stored = conversationId === null ? null : await session.json(`/conversations/${encodeURIComponent(conversationId)}`).catch(() => null);
    const answer = stored?.messages.at(-1);
    if (answer?.role === "assistant") reply.say(answer.content);
    else if (reply.text === "") reply.say("The connection was lost before the reply came. Your message got through: load the page again to see what came of it.");
    return conversationId;
  }

  #replied(reply) {
    this.#last = reply;
    reply.offer((phrase) => this.#answer(phrase));
    say(reply.text);
    this.#scroll();
    this.dispatchEvent(new Event("replied"));
  }

  /** A new conversation has got its id: what was typed meanwhile is its draft. */
  #found(conversationId) {
    sessionStorage.removeItem(this.#draftKey());
    this.conversationId = conversationId;
    this.#typed();
  }

  stop() {
    this.#isUnwanted = true;
    if (this.#runId === null) return;
    session.fetch(`/runs/${encodeURIComponent(this.#runId)}/cancel`, { method: "POST" }).catch((problem) => alarm(problem.message));
  }

  // ------------------------------------------------------------ the screen

  #begin(runId = null) {
    this.#reading = new AbortController();
    this.#runId = runId;
    this.#isUnwanted = false;
    byId("send").hidden = true;
    byId("stop").hidden = false;
    return this.#reading;
  }

  #end() {
    this.#reading = null;
    byId("send").hidden = false;
    byId("stop").hidden = true;
  }

  #append(reply) {
    this.#messages.append(reply.element);
    this.#scroll(true);
    return reply;
  }

  /** To the end, where the person was there. */
  #scroll(always = false) {
    const box = byId("transcript");
    if (always || this.#isAtEnd) box.scrollTop = box.scrollHeight;
  }

  #connection(isThere) {
    this.dispatchEvent(new CustomEvent("connection", { detail: isThere }));
  }
}
