// What a site does to tools overnight: the same page with other names, decoys, and things that stand in the way. One scenario each; all of it
// is laid over the page from outside, so that it is the same for every generation.
import { h } from "./dom";
import { parameter, scenario } from "./net";
import { t } from "./strings";

const FORM = "form:has([contenteditable])";
const CONTROL = `${FORM} .slot button`; // voice, send or stop
const stops = (): HTMLElement | null => (document.querySelector(".slot svg[fill=currentColor]")?.closest("button") as HTMLElement | null) ?? null;

// Words that are called `x-...` from now on: names of attributes, classes, whole values.
function renamed(element: Element, words: Set<string>): void {
  for (const { name, value } of [...element.attributes]) {
    const now = (word: string): string => (words.has(word) ? `x-${word}` : word);
    const wanted = name === "class" ? value.split(" ").map(now).join(" ") : now(value);
    if (now(name) !== name) element.removeAttribute(name);
    if (element.getAttribute(now(name)) !== wanted) element.setAttribute(now(name), wanted);
  }
}

/** A dialog whose backdrop swallows every click. Nothing but a person closes it. */
function standing(id: string, title: string, text: string, ...buttons: [string, () => void][]): void {
  if (document.getElementById(id)) return;
  const box = h("div", { id, class: "fixed inset-0 z-50", "data-state": "open" },
    h("div", { role: "dialog", "aria-modal": "true", "aria-labelledby": `${id}-title`, class: "dialog" }, h("h2", { id: `${id}-title` }, title), h("p", {}, text),
      h("div", { class: "dialog-buttons" }, ...buttons.map(([label, act]) => h("button", { type: "button", class: "btn", click: () => { box.remove(); act(); } }, label)))));
  document.body.append(box);
}

const over = (name: string): void => void fetch("/practice/scenario", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ name, on: false }) });

const RULES: Record<string, () => void> = {
  renamed: () => {
    const words = new Set(String(scenario("renamed")!.what).split(" ").filter(Boolean));
    for (const element of document.body.querySelectorAll("*")) renamed(element, words);
  },
  "nested-messages": () => {
    const names = ["data-message-id", "data-message-author-role", "data-chatgpt-search-unit-key", "data-chatgpt-search-message-ids"];
    for (const message of document.querySelectorAll(".user-message, .assistant-message")) {
      for (const name of names.filter((one) => message.hasAttribute(one))) {
        const inner = message.lastElementChild;
        if (inner && inner.getAttribute(name) !== message.getAttribute(name)) inner.setAttribute(name, message.getAttribute(name)!);
      }
    }
  },
  "answer-now": () => {
    for (const place of document.querySelectorAll(".thinking, .waiting")) {
      if (!place.querySelector(".skip-ahead")) place.append(h("div", { class: "markdown prose skip-ahead" }, h("button", { type: "button", class: "btn" }, "Answer now")));
    }
  },
  "early-bar": () => {
    for (const place of document.querySelectorAll(".assistant-message")) {
      if (!place.querySelector(".early-bar")) place.append(h("div", { class: "early-bar" }, h("button", { type: "button", "data-testid": "copy-turn-action-button" }), h("button", { type: "button", "data-testid": "good-response-turn-action-button" })));
    }
  },
  "notice-in-turn": () => {
    for (const place of document.querySelectorAll(".user-message")) {
      if (!place.querySelector(".turn-notice")) place.append(h("div", { role: "status", class: "turn-notice muted" }, "Still working on it"));
    }
  },
  "stop-lingers": () => {
    const stop = stops();
    const form = stop?.closest("form");
    if (form && !form.querySelector(".lingers")) {
      const copy = stop!.cloneNode(true) as HTMLElement;
      copy.classList.add("lingers");
      form.append(copy);
    }
  },
  "files-pill": () => {
    const chips = document.querySelector(`${FORM} .chips`);
    const count = chips?.querySelectorAll(".chip").length;
    if (chips && count) chips.replaceChildren(h("button", { type: "button", class: "files-pill" }, `${count} files`));
  },
  "lazy-input": () => document.querySelectorAll("input[type=file]").forEach((input) => input.remove()),
  "cap-notice": () => {
    const send = document.querySelector<HTMLButtonElement>(CONTROL);
    if (send && !send.disabled) send.disabled = true;
    const form = document.querySelector(FORM);
    if (form && !document.querySelector(".cap-notice")) form.before(h("div", { role: "alert", class: "cap-notice" }, t("capped")));
  },
  dialog: () => standing("modal-notice", t("noticeTitle"), t("noticeText"), [t("gotIt"), () => undefined]),
  "tool-approval": () => {
    if (stops()) standing("modal-approval", t("approvalTitle"), t("approvalText"), [t("allowOnce"), () => over("tool-approval")], [t("deny"), () => over("tool-approval")]);
  },
  promo: () => {
    if (!document.querySelector(".promo")) {
      document.body.append(h("aside", { class: "promo", role: "dialog", style: "position: fixed; right: 8px; top: 8px; width: 120px" }, "Try something new", h("button", { type: "button", "data-testid": "close-button" }, "x")));
    }
  },
  "challenge-script": () => {
    if (!document.querySelector("script[src*='/challenge-platform/']")) document.head.append(h("script", { src: "/cdn-cgi/challenge-platform/scripts/jsd/main.js", defer: true }));
  },
};

/** Lays what is switched on over the page, and keeps it there. */
export function drift(): void {
  const rules = Object.entries(RULES).filter(([name]) => scenario(name)).map(([, rule]) => rule);
  const all = (): void => rules.forEach((rule) => rule());
  if (rules.length) new MutationObserver(all).observe(document.body, { subtree: true, childList: true, attributes: true });
  all();
  if (scenario("stop-flickers")) setInterval(() => { const stop = stops(); if (stop) stop.style.display = stop.style.display ? "" : "none"; }, 60);
  if (scenario("leaves") && location.pathname.includes("/c/")) setTimeout(() => location.replace("/"), parameter("leaves", "seconds", 0.4) * 1000);
}

/** A page that stands where the chat should be. True when there is one. */
export function standsInstead(): boolean {
  const person = (name: string): HTMLElement => h("div", { role: "button", tabindex: "0" }, h("span", {}, name), h("span", {}, `${name.toLowerCase()}@example.org`));
  if (scenario("account-picker")) {
    document.body.replaceChildren(h("main", {}, h("h1", {}, t("welcomeBack")), h("p", {}, t("chooseAccount")), person("Ada"), person("Grace")));
    return true;
  }
  if (scenario("security-block")) {
    document.body.replaceChildren(h("main", {}, h("h1", {}, "Suspicious activity detected"), h("p", {}, "To protect you, access is limited. Secure your account to regain access."), h("button", { type: "button" }, "Secure account")));
    return true;
  }
  return false;
}
