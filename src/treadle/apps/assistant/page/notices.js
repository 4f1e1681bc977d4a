// What is said at the edge of the page: an error with what to do, or what was done with a way back. One of each at a time.

import { button, byId, element } from "/assets/document.js";

const STAYS_MS = 8000;

/** An error, until it is closed or another one comes. */
export function alarm(message) {
  const box = byId("alarm");
  const close = button("Close", "quiet", () => box.replaceChildren());
  box.replaceChildren(element("p", { dir: "auto" }, message), close);
}

export const calm = () => byId("alarm").replaceChildren();

let end = () => {};

/**
 * What was done; `undo` takes it back, `over` is called when it can no longer be. It stays while it is looked at:
 * under the pointer or with the focus in it.
 */
export function notice(message, { undo = null, over = () => {} } = {}) {
  end();
  const box = byId("notice");
  let timer;
  const close = (then) => {
    clearTimeout(timer);
    box.replaceChildren();
    end = () => {};
    then();
  };
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => (box.matches(":hover, :focus-within") ? wait() : close(over)), STAYS_MS);
  };
  end = () => close(over);
  box.replaceChildren(element("p", { dir: "auto" }, message));
  if (undo !== null) box.append(button("Undo", "link", () => close(undo)));
  box.append(button("Close", "quiet", () => close(over)));
  wait();
}

/** What can still be undone is done now. */
export const settle = () => end();
