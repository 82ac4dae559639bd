// How elements are made: attributes and text only, never markup from outside.
import { isSecond, keeps } from "./generation";

export type Child = Node | string | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: never) => void);

/** Sets an attribute; one that is as it should be is not touched. */
export function set(element: Element, name: string, value: string): void {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** An element with attributes (`true` = empty attribute, functions = listeners of that event, null/false = left out). */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Record<string, Value> = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function" && name === "click" && attributes["aria-haspopup"] === "menu" && isSecond()) opens(element, value as () => void);
    else if (typeof value === "function") element.addEventListener(name, value as EventListener);
  }
  assign(element, attributes);
  for (const child of children) if (child) element.append(child);
  return element;
}

/** Sets attributes as `h` does; what is as it should be is not touched. */
export function assign(element: Element, attributes: Record<string, Value>): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function" || value === null || value === undefined || value === false || !keeps(name, value)) continue;
    set(element, name, value === true ? "" : String(value));
  }
}

// The second generation's menus open when the pointer goes down, or by the keyboard; a click alone does nothing.
function opens(element: Element, act: () => void): void {
  element.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // the focus goes into the menu and stays there
    act();
  });
  element.addEventListener("keydown", (event) => {
    if (!["Enter", " ", "ArrowDown"].includes((event as KeyboardEvent).key)) return;
    event.preventDefault();
    act();
  });
}

const PATHS: Record<string, string> = {
  plus: "M12 5v14M5 12h14",
  up: "M12 19V6M6 11.5 12 5.5l6 6",
  stop: "M6.5 6.5h11v11h-11z",
  // The square by which the second generation's control is known in every language (2026-09): on a grid of 20.
  square: "M4.5 5.75C4.5 5.05964 5.05964 4.5 5.75 4.5H14.25C14.9404 4.5 15.5 5.05964 15.5 5.75V14.25C15.5 14.9404 14.9404 15.5 14.25 15.5H5.75C5.05964 15.5 4.5 14.9404 4.5 14.25Z",
  voice: "M5 10v4M9 7v10M13 4v16M17 8v8M21 10.5v3",
  mic: "M12 4a2.5 2.5 0 0 1 2.5 2.5v5a2.5 2.5 0 0 1-5 0v-5A2.5 2.5 0 0 1 12 4zM6 11.5a6 6 0 0 0 12 0M12 17.5V21",
  copy: "M9 9h10v10H9zM5 15V5h10",
  check: "M5 12.5l4.5 4.5L19 7.5",
  edit: "M4 20l1-4L16 5l3 3L8 19z",
  good: "M7 11v9H4v-9zM7 11l4-7c1.5 0 2.3 1 2 2.5L12.5 10H19l-1.6 8.5c-.2.9-.9 1.5-1.8 1.5H7",
  bad: "M17 13V4h3v9zM17 13l-4 7c-1.5 0-2.3-1-2-2.5l.5-3.5H5l1.6-8.5C6.8 4.6 7.5 4 8.4 4H17",
  share: "M12 15V4M8 8l4-4 4 4M5 13v6h14v-6",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  compose: "M13 5H6a1.5 1.5 0 0 0-1.5 1.5V18A1.5 1.5 0 0 0 6 19.5h11.5A1.5 1.5 0 0 0 19 18v-7M10 14.5l.7-3L18.5 3.7l2.3 2.3-7.8 7.8z",
  menu: "M4 8h16M4 16h10",
  close: "M6 6l12 12M18 6L6 18",
  down: "M7 10l5 5 5-5",
  left: "M14 7l-5 5 5 5",
  right: "M10 7l5 5-5 5",
  file: "M7 3.5h7l4 4v13H7zM14 3.5v4h4",
  speaker: "M4 10v4h3l5 4V6l-5 4zM15.5 9a4.2 4.2 0 0 1 0 6M18 6.5a7.8 7.8 0 0 1 0 11",
  globe: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17zM3.5 12h17M12 3.5c2.5 2.4 3.7 5.2 3.7 8.5S14.5 18.1 12 20.5C9.5 18.1 8.3 15.3 8.3 12S9.5 5.9 12 3.5z",
};

/** One of the page's own line icons, hidden from assistive technology. */
export function icon(name: keyof typeof PATHS | string, size = 20): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  for (const [key, value] of Object.entries({
    viewBox: name === "square" ? "0 0 20 20" : "0 0 24 24", width: size, height: size, fill: ["stop", "square"].includes(name) ? "currentColor" : "none", stroke: "currentColor",
    "stroke-width": name === "more" ? 2.6 : 1.7, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true",
  })) svg.setAttribute(key, String(value));
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A button that shows only an icon; the label is its accessible name and tooltip. */
export function iconButton(name: string, label: string, attributes: Record<string, Value> = {}, size = 18): HTMLButtonElement {
  return h("button", { type: "button", class: "icon-btn", "aria-label": label, title: label, ...attributes }, icon(name, size));
}

/** Copies text, also where the asynchronous clipboard is not available. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const holder = h("textarea", { class: "sr-only", "aria-hidden": "true" });
    holder.value = text;
    document.body.append(holder);
    holder.select();
    document.execCommand("copy");
    holder.remove();
  }
}

/** Copies and shows a tick in the button for a moment. */
export async function copyFrom(button: HTMLButtonElement, text: string): Promise<void> {
  await copyText(text);
  const before = button.querySelector("svg");
  if (!before) return;
  const tick = icon("check", Number(before.getAttribute("width")));
  before.replaceWith(tick);
  setTimeout(() => tick.replaceWith(before), 1500);
}
