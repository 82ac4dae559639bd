"""Secret: the script that guards a document or worker from inside, and the words that steer it.

Guarantees: each realm starts closed; opened, it lets one send-shaped request through and is spent for ever; what is shaped like
a send and comes at any other time is rejected as a network error would be, by the page's own process, so also after ours died
(GT-11). A send-shaped socket frame is never let through: it cannot be held. Touches the realm's `fetch`, `XMLHttpRequest`,
`sendBeacon` and `WebSocket`, through proxies that look native; leaves one property under a random symbol. Fails closed.
Limit: a document, frame or worker that is made after our death has no guard; edge/sentry.py stands for these.
"""

from __future__ import annotations

import json

from gptbridge.core.send_request import DEPTH
from gptbridge.edge.chatgpt_requests import SEND_PATH, SENDING_MESSAGES_JS

_SOURCE = r"""
((secret, binding, initial, path, keep, find) => {
  "use strict";
  const root = globalThis, key = Symbol.for(secret);
  if (root[key]) return;
  let state = initial;
  const parse = JSON.parse, stringify = JSON.stringify, apply = Reflect.apply;
  const isJson = (text) => { try { parse(text); return true; } catch { return false; } };
  const later = (then) => root.setTimeout(then, 0);  // a worker has it only after it was started
  const direct = root[binding];
  // Workers that outlive one gate keep the name, so that the next gate hears them too.
  if (!keep) delete root[binding];
  const tell = (kind, where, messages) => {
    const channel = keep ? root[binding] : direct;
    if (typeof channel !== "function") return;
    try { channel(stringify({kind, path: where, ids: messages.map((m) => String(m && m.id))})); } catch {}
  };
  const sendPath = new RegExp(path);
  const base = () => (root.document ? root.document.baseURI : root.location.href);
  const pathOf = (url) => { try { return new URL(String(url), base()).pathname; } catch { return ""; } };
  // The text of a body that can be read now; undefined where it cannot.
  const textOf = (body) => {
    if (typeof body === "string") return body;
    if (body === null || body === undefined) return "";
    if (body instanceof URLSearchParams) return String(body);
    if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return new TextDecoder().decode(body);
    if (root.FormData && body instanceof FormData) return stringify([...body.values()].filter((v) => typeof v === "string"));
    return undefined;
  };
  const may = (kind, where, text) => {
    const readable = text !== undefined && isJson(text);
    const messages = (readable && find(text)) || (!readable && kind !== "socket" && sendPath.test(where) ? [] : null);
    if (messages === null) return true;
    if (state === "open" && kind !== "socket") { state = "spent"; return true; }
    tell(kind, where, messages);
    return false;
  };
  // A file on its way: its bytes may look like anything, and nobody reads them for that.
  const isFile = (method, body, where) => /^PUT$/i.test(method) && body instanceof Blob && !sendPath.test(where);
  const hasBody = (method) => !/^(GET|HEAD|OPTIONS)$/i.test(method);
  const wrap = (owner, name, handler) => {
    // A window owns `fetch` itself; a worker inherits it.
    while (owner && !Object.hasOwn(owner, name)) owner = Object.getPrototypeOf(owner);
    const place = owner && Object.getOwnPropertyDescriptor(owner, name);
    if (!place || typeof place.value !== "function") return;
    Object.defineProperty(owner, name, {...place, value: new Proxy(place.value, {apply: handler})});
  };

  wrap(root, "fetch", (native, self, args) => {
    const go = () => apply(native, self, args);
    const no = () => Promise.reject(new TypeError("Failed to fetch"));
    let where, text, waiting;
    try {
      const [input, init] = args, request = input instanceof Request;
      const method = (init && init.method) || (request ? input.method : "GET");
      if (!hasBody(String(method))) return go();
      where = pathOf(request ? input.url : input);
      const body = init && init.body !== undefined && init.body !== null ? init.body : undefined;
      if (isFile(String(method), body, where)) return go();
      if (body instanceof Blob) waiting = body.text();
      else if (body === undefined && request && input.body && !input.bodyUsed) waiting = input.clone().text();
      else text = textOf(body);
    } catch { return go(); }
    if (waiting) return waiting.then((read) => (may("fetch", where, read) ? go() : no()), go);
    return may("fetch", where, text) ? go() : no();
  });

  if (root.XMLHttpRequest) {
    const opened = new WeakMap();
    wrap(XMLHttpRequest.prototype, "open", (native, self, args) => {
      if (self instanceof XMLHttpRequest) opened.set(self, {method: String(args[0]), where: pathOf(args[1]), sync: args[2] === false});
      return apply(native, self, args);
    });
    wrap(XMLHttpRequest.prototype, "send", (native, self, args) => {
      const go = () => apply(native, self, args);
      const asked = opened.get(self);
      if (!asked || !hasBody(asked.method) || isFile(asked.method, args[0], asked.where)) return go();
      const no = () => { later(() => ["error", "loadend"].forEach((name) => self.dispatchEvent(new ProgressEvent(name)))); };
      if (args[0] instanceof Blob && !asked.sync) {
        args[0].text().then((read) => (may("xhr", asked.where, read) ? go() : no()));
        return undefined;
      }
      return may("xhr", asked.where, textOf(args[0])) ? go() : no();
    });
  }

  if (root.Navigator) wrap(Navigator.prototype, "sendBeacon", (native, self, args) => {
    const go = () => apply(native, self, args), where = pathOf(args[0]);
    if (args[1] instanceof Blob) { args[1].text().then((read) => { if (may("beacon", where, read)) go(); }); return true; }
    return may("beacon", where, textOf(args[1])) ? go() : false;
  });

  if (root.WebSocket) wrap(WebSocket.prototype, "send", (native, self, args) => {
    const text = textOf(args[0]);
    return text === undefined || may("socket", pathOf(self.url), text) ? apply(native, self, args) : undefined;
  });

  Object.defineProperty(root, key, {value: (word) => {
    if (word === "open" && state === "closed") state = "open";
    if (word === "close" && state === "open") state = "closed";
    if (word === "spend") state = "spent";
    return state;
  }});
})
"""


def source(secret: str, binding: str, *, state: str = "closed", keep: bool = False) -> str:
    """The script for one realm. `secret` names the steering property, `binding` the channel for refusals, `state` the first state."""
    arguments = ", ".join(json.dumps(value) for value in (secret, binding, state, SEND_PATH, keep))
    return f"{_SOURCE.strip()}({arguments}, {SENDING_MESSAGES_JS}({DEPTH}));"


def word(secret: str, said: str) -> str:
    """The expression that steers a guard ("open", "close", "spend", "state") and gives its state; "absent" where there is none."""
    return f"((f) => f ? f({json.dumps(said)}) : 'absent')(globalThis[Symbol.for({json.dumps(secret)})])"
