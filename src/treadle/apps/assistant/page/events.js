// Server-sent events of a streamed response. EventSource is not used, because it cannot send an Authorization header.

const SILENT_MS = 40_000; // the server sends at least a comment every 15 seconds

/** Yield {id, type, data}, with data parsed from JSON. Ends with the stream; raises if it breaks or is silent for too long. */
export async function* eventsOf(response, silentMs = SILENT_MS) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await within(reader.read(), silentMs);
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const event = eventOf(block);
        if (event !== null) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function eventOf(block) {
  const event = { id: null, type: "message", data: "" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon < 1) continue; // a comment: keeps the connection alive
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (line.startsWith("id:")) event.id = value;
    else if (line.startsWith("event:")) event.type = value;
    else if (line.startsWith("data:")) event.data += value;
  }
  return event.data === "" ? null : { ...event, data: JSON.parse(event.data) };
}

function within(promise, ms) {
  let timer;
  const silence = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("the stream was silent for too long")), ms)));
  return Promise.race([promise, silence]).finally(() => clearTimeout(timer));
}

/** Wait, but not longer than until the browser is online again or the page becomes visible. */
export function pause(ms) {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      removeEventListener("online", over);
      document.removeEventListener("visibilitychange", over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    addEventListener("online", over);
    document.addEventListener("visibilitychange", over);
  });
}
