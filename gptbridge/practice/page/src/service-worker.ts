// Service worker of the scenario `service-worker`: it answers the send by a fetch of its own, out of the page target's sight.
interface FetchEventLike extends Event { request: Request; respondWith(answer: Promise<Response>): void }
interface ExtendableLike extends Event { waitUntil(work: Promise<unknown>): void }
const scope = self as unknown as {
  skipWaiting(): Promise<void>; clients: { claim(): Promise<void> };
  addEventListener(kind: string, listener: (event: never) => void): void;
};

scope.addEventListener("install", (event: ExtendableLike) => event.waitUntil(scope.skipWaiting()));
scope.addEventListener("activate", (event: ExtendableLike) => event.waitUntil(scope.clients.claim()));
scope.addEventListener("fetch", (event: FetchEventLike) => {
  const url = new URL(event.request.url);
  if (event.request.method === "POST" && /\/backend-(api|anon)\/(f\/)?conversation$/.test(url.pathname)) {
    event.respondWith(fetch(event.request));
  }
});
