// The page: connects its parts, and shows the sign-in form or the chat. Each part describes itself:
//
//   session.js        the signed-in account; all requests       document.js   elements, from text only
//   account.js        signing in, creating an account           events.js     server-sent events
//   chat.js           the conversation; reply.js: one reply     notices.js    errors, and actions that can be undone
//   conversations.js  the list of conversations                 words.js      texts for names and codes
//   tasks.js          the task list; task_row.js: one task

import { openDoor, setUpDoor } from "/assets/account.js";
import { Chat } from "/assets/chat.js";
import { Conversations } from "/assets/conversations.js";
import { byId } from "/assets/document.js";
import { alarm, calm } from "/assets/notices.js";
import { session } from "/assets/session.js";
import { Tasks } from "/assets/tasks.js";

const room = byId("room");
const tasks = new Tasks();
const chat = new Chat(() => tasks.settled());
const conversations = new Conversations((id) => go(id));
let owner = null; // the account whose data are on the screen

// ------------------------------------------------------------ signing in and out

function enter() {
  if (owner !== null && owner !== session.subject) return location.reload(); // discards the other account's data, in memory too
  const isNew = owner === null;
  owner = session.subject;
  byId("door").hidden = true;
  room.hidden = false;
  byId("who").textContent = session.name;
  calm();
  tasks.watch();
  if (isNew) {
    conversations.load().catch((problem) => alarm(problem.message));
    arrive();
  }
  chat.rest();
}

function leave(why) {
  tasks.stop();
  room.hidden = true;
  byId("door").hidden = false;
  openDoor(why);
}

async function signOut() {
  try {
    await tasks.settled();
    await session.leave();
  } catch (problem) {
    alarm(problem.message);
  }
}

/** After signing out, here or in another tab. */
function forget() {
  localStorage.clear();
  sessionStorage.clear();
  history.replaceState(null, "", "/");
  location.reload();
}

async function begin() {
  try {
    if (!session.isKnown || !(await session.refresh())) leave("");
  } catch (problem) {
    leave(problem.message);
  }
}

// ------------------------------------------------------------ the open conversation: its id is the fragment of the URL, so that back and forward work

function addressed() {
  try {
    return decodeURIComponent(/^#c\/(.+)$/.exec(location.hash)?.[1] ?? "") || null;
  } catch {
    return null; // typed by hand
  }
}

function go(id) {
  view("chat");
  if (id === addressed()) return arrive();
  history.pushState(null, "", id === null ? "/" : `#c/${encodeURIComponent(id)}`);
  arrive();
}

async function arrive() {
  const id = addressed();
  try {
    if (!(await chat.open(id))) return;
    conversations.mark(id);
    chat.rest();
  } catch (problem) {
    if (id !== addressed()) return; // another conversation was opened in the meantime
    if (problem.status === 404) {
      history.replaceState(null, "", "/");
      await arrive();
      alarm("That conversation no longer exists. This is a new one.");
    } else alarm(problem.message);
  }
}

chat.addEventListener("replied", () => {
  if (chat.conversationId !== null && chat.conversationId !== addressed()) history.replaceState(null, "", `#c/${encodeURIComponent(chat.conversationId)}`);
  conversations.said(chat.conversationId);
  tasks.loadSoon();
});

// ------------------------------------------------------------ views, keys, the connection

function view(name) {
  room.dataset.view = name;
  for (const tab of document.querySelectorAll(".views [data-view]")) {
    if (tab.dataset.view === name) tab.setAttribute("aria-current", "true");
    else tab.removeAttribute("aria-current");
  }
}

function connection({ detail: isThere }) {
  const line = byId("connection");
  const text = isThere ? (line.textContent === "" ? "" : "Reconnected") : "Connection lost. Reconnecting…";
  line.textContent = text;
  line.classList.toggle("lost", !isThere);
  if (text === "Reconnected") setTimeout(() => line.textContent === text && (line.textContent = ""), 4000);
}

function key(event) {
  if (room.hidden || event.defaultPrevented || byId("question").open) return;
  const types = event.target.closest?.("input:not([type=checkbox]), textarea, select");
  if (event.key === "/" && !types && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    view("chat");
    chat.focus();
  } else if (event.key === "Escape") calm();
}

setUpDoor();
session.addEventListener("change", ({ detail }) => (session.subject === null ? leave(detail.why) : enter()));
session.addEventListener("left", forget);
for (const part of [tasks, chat]) part.addEventListener("connection", connection);
for (const tab of document.querySelectorAll(".views [data-view]")) tab.addEventListener("click", () => view(tab.dataset.view));
for (const example of document.querySelectorAll("[data-example]")) example.addEventListener("click", () => chat.suggest(example.textContent));
byId("skip").addEventListener("click", (event) => (event.preventDefault(), view("chat"), chat.focus()));
byId("sign-out").addEventListener("click", signOut);
addEventListener("popstate", () => owner !== null && arrive());
document.addEventListener("keydown", key);
begin();
