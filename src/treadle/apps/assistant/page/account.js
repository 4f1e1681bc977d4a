// Signing in and creating an account, with forms that password managers recognize. The page is not reloaded, and rejected input stays in its field.

import { byId } from "/assets/document.js";
import { session } from "/assets/session.js";

const LEAST = 8;

export function openDoor(why = "") {
  show("sign-in");
  byId("sign-in-wrong").textContent = why;
}

export function setUpDoor() {
  for (const link of document.querySelectorAll("[data-door]")) link.addEventListener("click", () => show(link.dataset.door));
  for (const toggle of document.querySelectorAll("[data-shows]")) toggle.addEventListener("click", () => reveal(toggle));
  byId("sign-in").addEventListener("submit", (event) => enter(event, "login"));
  byId("register").addEventListener("submit", (event) => enter(event, "register"));
}

function show(which) {
  const other = which === "sign-in" ? "register" : "sign-in";
  byId(`${which}-name`).value ||= byId(`${other}-name`).value;
  byId(other).hidden = true;
  byId(which).hidden = false;
  byId(`${which}-wrong`).textContent = "";
  byId(byId(`${which}-name`).value === "" ? `${which}-name` : `${which}-password`).focus();
}

function reveal(toggle) {
  const isShown = toggle.getAttribute("aria-pressed") === "true";
  toggle.setAttribute("aria-pressed", String(!isShown));
  byId(toggle.dataset.shows).type = isShown ? "password" : "text";
}

async function enter(event, kind) {
  event.preventDefault();
  const form = event.currentTarget;
  const { username, password } = form.elements;
  const wrong = form.querySelector(".wrong");
  for (const field of [username, password]) field.removeAttribute("aria-invalid");
  wrong.textContent = "";
  const found = fault(kind, username, password);
  if (found !== null) return refuse(wrong, ...found);
  const submit = form.querySelector("[type=submit]");
  submit.disabled = true;
  try {
    await session.enter(kind, username.value.trim(), password.value);
    form.reset();
  } catch (problem) {
    refuse(wrong, problem.status === 409 || problem.status === 422 ? username : password, problem.message);
  } finally {
    submit.disabled = false;
  }
}

/** Check the form without the server. Returns [field, sentence], or null. */
function fault(kind, username, password) {
  if (username.value.trim() === "") return [username, "Enter your username."];
  if (password.value === "") return [password, "Enter your password."];
  if (kind === "register" && [...password.value].length < LEAST) return [password, `The password is too short. Use at least ${LEAST} characters.`];
  return null;
}

function refuse(wrong, field, sentence) {
  wrong.textContent = sentence;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", [wrong.id, wrong.id.startsWith("register") && field.name === "password" ? "register-hint" : ""].join(" ").trim());
  field.focus();
}
