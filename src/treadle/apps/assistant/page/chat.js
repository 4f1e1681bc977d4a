// The open conversation: its messages, and the streamed reply. A message that could not be sent returns to the input field.
// A broken stream is resumed. The list of conversations is in conversations.js.

import { byId, say } from "/assets/document.js";
import { eventsOf, pause } from "/assets/events.js";
import { alarm, calm } from "/assets/notices.js";
import { Reply, personSaid } from "/assets/reply.js";
import { session } from "/assets/session.js";

const TRIES = 8;
const NEAR_PX = 80; // a reader this close to the end follows new messages

export class Chat extends EventTarget {
  #input = byId("say");
  #messages = byId("messages");
  #reading = null; // an AbortController while waiting for a reply
  #runId = null;
  #isUnwanted = false; // to be stopped as soon as the id of its run is known
  #wanted = null; // the most recently requested conversation: responses can arrive out of order
  #last = null; // the reply that a button may still answer
  #before;
  #isAtEnd = true;
  conversationId = null;

  /** Awaits `before` before it sends a message, so that the person's earlier actions come first. Dispatches `replied` and `connection`. */
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

  /** Focus the input field; on a phone the messages, because the field would open the keyboard. */
  rest() {
    (matchMedia("(pointer: coarse)").matches ? byId("transcript") : this.#input).focus({ preventScroll: true });
  }

  #answer(phrase) {
    this.rest();
    this.send(phrase);
  }

  /** Put a text into the input field, to be sent or changed. */
  suggest(text) {
    if (this.#input.disabled) return;
    this.#input.value = text;
    this.#typed();
    this.focus();
  }

  // ------------------------------------------------------------ input

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
      alarm("The reply is not complete yet. Send this after it, or stop it first.");
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

  /** Open a stored conversation, or a new one for null. False if another one was requested in the meantime. Raises Problem, and then leaves the open conversation unchanged. */
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

  /** Disable input while loading: it would be lost with the open conversation. */
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

  /** Follow the run of the last message, which has no reply yet, from its beginning. */
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

  /** Send the message and show the reply. Raises Problem if the message could not be sent. */
  async #reply(text, reply, signal) {
    const body = this.conversationId === null ? { message: text } : { message: text, conversation_id: this.conversationId };
    const response = await session.fetch("/chat", { method: "POST", body, signal, headers: { Accept: "text/event-stream" } });
    let conversationId = await this.#follow(response, reply, signal);
    if (conversationId === null && !signal.aborted) conversationId = await this.#stored(reply);
    if (signal.aborted) return;
    if (this.conversationId === null && conversationId !== null) this.#found(conversationId);
  }

  /** Follow the stream to its end. Returns the conversation's id; null if the stream is lost for good. */
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
        // broken or silent: resumed below
      }
      if (signal.aborted || this.#runId === null || tries++ === TRIES) return null;
      response = await this.#again(reply, lastId, signal, tries);
      if (response === undefined) return null;
    }
    return null;
  }

  /** Request the rest of the stream; null if the server cannot be reached, undefined if it has no such run. */
  async #again(reply, lastId, signal, tries) {
    if (tries > 1) {
      this.#connection(false);
      await pause(Math.min(500 * 2 ** tries, 15_000));
    }
    try {
      const headers = { Accept: "text/event-stream", ...(lastId === null ? {} : { "Last-Event-ID": lastId }) };
      const response = await session.fetch(`/runs/${encodeURIComponent(this.#runId)}/events`, { headers, signal });
      reply.say(""); // the text is sent again, or is part of the final reply
      this.#connection(true);
      return response;
    } catch (problem) {
      return problem.status === 404 || problem.status === 401 ? undefined : null;
    }
  }

  /** Show an event. True for the last one. */
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

  /** After a lost stream, show the reply that the server has stored. */
  async #stored(reply) {
    const isNew = this.conversationId === null && this.#runId !== null;
    const run = isNew ? await session.json(`/runs/${encodeURIComponent(this.#runId)}`).catch(() => null) : null;
    const conversationId = this.conversationId ?? run?.conversation_id ?? null;
    const stored = conversationId === null ? null : await session.json(`/conversations/${encodeURIComponent(conversationId)}`).catch(() => null);
    const answer = stored?.messages.at(-1);
    if (answer?.role === "assistant") reply.say(answer.content);
    else if (reply.text === "") reply.say("The connection was lost before the reply arrived. Your message was sent: reload the page to see the result.");
    return conversationId;
  }

  #replied(reply) {
    this.#last = reply;
    reply.offer((phrase) => this.#answer(phrase));
    say(reply.text);
    this.#scroll();
    this.dispatchEvent(new Event("replied"));
  }

  /** Set the id of a new conversation, and keep the text typed in the meantime as its draft. */
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

  /** Scroll to the end, if the reader was there. */
  #scroll(always = false) {
    const box = byId("transcript");
    if (always || this.#isAtEnd) box.scrollTop = box.scrollHeight;
  }

  #connection(isThere) {
    this.dispatchEvent(new CustomEvent("connection", { detail: isThere }));
  }
}
