// Messages at the edge of the page: an error with the next step, or a finished action with an undo button. One of each at a time.

import { button, byId, element } from "/assets/document.js";

const STAYS_MS = 8000;

/** Show an error until it is closed or replaced. */
export function alarm(message) {
  const box = byId("alarm");
  const close = button("Close", "quiet", () => box.replaceChildren());
  box.replaceChildren(element("p", { dir: "auto" }, message), close);
}

export const calm = () => byId("alarm").replaceChildren();

let end = () => {};

/**
 * Show a finished action. `undo` reverts it; `over` is called when that is no longer possible. The notice stays while the
 * pointer is over it or it has the focus.
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

/** Make the action that can still be undone final. */
export const settle = () => end();
