// By which road a send leaves the page: fetch, and the detours that scenarios ask for.
import { parameter, scenario } from "./net";

export interface Answer { status: number; type: string; chunks: AsyncIterable<string> }
type Road = (url: string, headers: Record<string, string>, body: string, signal: AbortSignal) => Promise<Answer>;

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function* texts(body: ReadableStream<Uint8Array> | null): AsyncIterable<string> {
  const decoder = new TextDecoder();
  const reader = body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) yield decoder.decode(part.value, { stream: true });
}

const byFetch: Road = async (url, headers, body, signal) => {
  const answer = await fetch(url, { method: "POST", headers, body, signal });
  return { status: answer.status, type: answer.headers.get("content-type") ?? "", chunks: texts(answer.body) };
};

/** A queue between callbacks and `for await`. */
function pipe(): { push(text: string): void; end(error?: Error): void; chunks: AsyncIterable<string> } {
  const waiting: string[] = [];
  const state: { closed: Error | true | null } = { closed: null };
  let wake = (): void => {};
  return {
    push(text) { waiting.push(text); wake(); },
    end(error) { state.closed ??= error ?? true; wake(); },
    chunks: (async function* () {
      for (;;) {
        while (waiting.length) yield waiting.shift()!;
        if (state.closed instanceof Error) throw state.closed;
        if (state.closed) return;
        await new Promise<void>((resolve) => { wake = resolve; });
      }
    })(),
  };
}

// Scenario `send-from-worker`.
const byWorker: Road = (url, headers, body, signal) => new Promise((resolve, reject) => {
  const { port } = new SharedWorker("/assets/send-worker.js");
  const { push, end, chunks } = pipe();
  signal.addEventListener("abort", () => end(new DOMException("aborted", "AbortError")));
  port.onmessage = ({ data }) => {
    if (data.kind === "head") resolve({ status: data.status, type: data.type, chunks });
    else if (data.kind === "chunk") push(data.text);
    else if (data.kind === "end") end();
    else { end(new TypeError(data.message)); reject(new TypeError(data.message)); }
  };
  port.postMessage({ url: new URL(url, location.href).href, headers, body });
});

// Scenario `send-by-socket`: the body is a frame, and the answer's events come back as frames.
const bySocket: Road = (_url, _headers, body, signal) => new Promise((resolve, reject) => {
  const address = new URL("/backend-api/ws", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(address);
  const { push, end, chunks } = pipe();
  signal.addEventListener("abort", () => { socket.close(); end(new DOMException("aborted", "AbortError")); });
  socket.onopen = () => socket.send(body);
  socket.onmessage = ({ data }) => {
    const value = JSON.parse(String(data));
    if (value.type === "status") resolve({ status: value.status, type: value.status < 400 ? "text/event-stream" : "application/json", chunks });
    else if (value.type === "item") push(value.encoded_item);
    else if (value.type === "error") push(value.body);
    else if (value.type === "end") { end(); socket.close(); }
  };
  socket.onclose = () => { end(); reject(new TypeError("the socket closed")); };
});

// Scenario `send-by-beacon`: nothing comes back.
const byBeacon: Road = async (url, _headers, body) => {
  navigator.sendBeacon(url, new Blob([body], { type: "application/json" }));
  return { status: 200, type: "text/event-stream", chunks: (async function* () {})() };
};

// Scenario `page-haunts`: from the first answer on the page posts the same send over and over, each time from something that it makes anew.
const HAUNTS = "practice-haunts";
const every = 20; // ms
const postFrom: Record<string, (url: string, init: RequestInit) => void> = {
  document: (url, init) => void fetch(url, init).catch(() => {}),
  frame: (url, init) => {
    const frame = document.createElement("iframe");
    document.body.append(frame);
    void frame.contentWindow!.fetch(url, init).catch(() => {});
  },
  worker: (url, init) => {
    const source = `fetch(${JSON.stringify(url)}, ${JSON.stringify(init)}).catch(() => {})`;
    new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  },
  reload: (url, init) => { sessionStorage.setItem(HAUNTS, JSON.stringify({ url, init })); location.reload(); },
};

function haunt(by: string, url: string, init: RequestInit): void {
  const address = new URL(url, location.href).href;
  const timer = setInterval(() => { postFrom[by]?.(address, init); if (by === "reload") clearInterval(timer); }, every);
}

/** A page that was reloaded by `page-haunts` goes on with it. */
export function hauntOn(): void {
  const kept = sessionStorage.getItem(HAUNTS);
  if (kept === null) return;
  const { url, init } = JSON.parse(kept) as { url: string; init: RequestInit };
  postFrom.document(url, init);
  setTimeout(() => location.reload(), every);
}

/** Posts a send by the road that the scenarios name; tries again by itself only while `page-retries` or `page-haunts` is on. */
export async function post(url: string, headers: Record<string, string>, body: string, signal: AbortSignal): Promise<Answer> {
  const road = scenario("send-by-socket") ? bySocket : scenario("send-from-worker") ? byWorker : scenario("send-by-beacon") ? byBeacon : byFetch;
  const retries = scenario("page-retries") ? Math.min(3, parameter("page-retries", "times", 1)) : 0;
  for (let round = 0; ; round++) {
    try {
      const answer = await road(url, headers, body, signal);
      if (scenario("page-haunts")) haunt(String(scenario("page-haunts")!.by), url, { method: "POST", headers, body });
      if (answer.status < 500 || round >= retries) return answer;
    } catch (error) {
      if (round >= retries || signal.aborted) throw error;
    }
    await pause(200);
  }
}

/** Scenario `service-worker`: registered and in control while it is on, gone when it is off. */
export async function arrangeServiceWorker(): Promise<void> {
  if (!("serviceWorker" in navigator)) return;
  if (!scenario("service-worker")) {
    for (const registration of await navigator.serviceWorker.getRegistrations()) await registration.unregister();
    return;
  }
  const active = (await navigator.serviceWorker.getRegistration("/"))?.active;
  await navigator.serviceWorker.register("/sw.js", { scope: "/" });
  await navigator.serviceWorker.ready;
  // One that was active before and is not in control now is bypassed by the browser: nothing to wait for.
  if (navigator.serviceWorker.controller || active) return;
  await Promise.race([new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve, { once: true })), pause(5000)]);
}
