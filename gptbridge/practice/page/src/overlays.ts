// What lies over the page: toasts, menus, dialogs.
import { h, icon } from "./dom";
import { isSecond } from "./generation";
import { t } from "./strings";

const toasts = h("div", { class: "toast-stack" });

/** A message that goes away by itself after `seconds`. */
export function toast(text: string, kind: "info" | "error" = "info", seconds = 6): void {
  if (!toasts.isConnected) document.body.append(toasts);
  const box = h("div", { class: `toast-root toast-${kind}`, "data-testid": isSecond() ? "toast" : null },
    h("div", { role: kind === "error" ? "alert" : "status", class: "toast" }, text),
    h("button", { type: "button", class: "icon-btn", "aria-label": t("close"), click: () => box.remove() }, icon("close", 14)));
  toasts.append(box);
  setTimeout(() => box.remove(), seconds * 1000);
}

export interface Item { label: string; icon?: string; checked?: boolean; testid?: string; danger?: boolean; off?: string; more?: Omit<Item, "more">; run: () => void }

/** The same row, switched off where `off` says why, which is told to whoever points there. */
export function whyOff<T extends HTMLElement>(row: T, off: string | undefined): T {
  if (off === undefined) return row;
  const note = `why-${crypto.randomUUID()}`;
  row.setAttribute("aria-disabled", "true");
  row.dataset.disabled = "";
  row.addEventListener("pointerenter", () => {
    if (document.getElementById(note)) return;
    row.setAttribute("aria-describedby", note);
    row.append(h("span", { role: "tooltip", id: note, class: "muted" }, off));
  });
  return row;
}

function menuItem(item: Item, close: () => void): HTMLElement {
  const row = whyOff(h("button", {
    type: "button", role: item.checked === undefined ? "menuitem" : "menuitemradio", "aria-checked": item.checked === undefined ? null : String(item.checked),
    "data-testid": item.testid, "data-model-picker-thinking-effort-menu-item": item.more ? "true" : null,
    class: item.danger ? "menu-item text-error" : "menu-item", click: () => { if (item.off === undefined) { close(); item.run(); } },
  }, item.icon ? icon(item.icon, 18) : null, h("span", { class: "menu-label" }, item.label), item.checked ? icon("check", 16) : null), item.off);
  const more = item.more;
  return more ? h("div", { class: "menu-row", "data-model-picker-thinking-effort-row": "true" }, row, h("button", {
    type: "button", class: "icon-btn", "aria-label": more.label, "data-testid": more.testid, "aria-haspopup": "menu", "data-model-picker-thinking-effort-action": "true",
    click: () => { close(); more.run(); },
  }, icon("right", 16))) : row;
}

/** A menu below or above `anchor`; arrow keys move, Escape closes and gives the focus back. */
export function menu(anchor: HTMLElement, items: Item[]): void {
  document.querySelector(".menu")?.dispatchEvent(new Event("close"));
  const close = (back: boolean): void => {
    box.remove();
    document.removeEventListener("pointerdown", outside, true);
    anchor.setAttribute("aria-expanded", "false");
    if (back) anchor.focus();
  };
  const outside = (event: Event): void => { if (!box.contains(event.target as Node) && !anchor.contains(event.target as Node)) close(false); };
  const box = h("div", { role: "menu", class: "menu", close: () => close(false), keydown: (event: KeyboardEvent) => {
    const all = [...box.querySelectorAll<HTMLElement>("[role^=menuitem]")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); all[(all.indexOf(document.activeElement as HTMLElement) + step + all.length) % all.length].focus(); }
    if (event.key === "Escape" || event.key === "Tab") { event.preventDefault(); close(true); }
  } }, ...items.map((item) => menuItem(item, () => close(true))));
  document.body.append(box);
  const place = anchor.getBoundingClientRect();
  const size = box.getBoundingClientRect();
  const below = place.bottom + size.height + 8 < innerHeight;
  box.style.left = `${Math.max(8, Math.min(place.left, innerWidth - size.width - 8))}px`;
  box.style.top = `${Math.max(8, below ? place.bottom + 4 : place.top - size.height - 4)}px`;
  anchor.setAttribute("aria-expanded", "true");
  document.addEventListener("pointerdown", outside, true);
  box.querySelector<HTMLElement>("[role^=menuitem]")?.focus();
}

/** The dialog "Too many requests", whose backdrop swallows every click; while `again()` says so it comes back after closing. */
export function throttleDialog(again: () => Promise<boolean>): void {
  if (document.getElementById("modal-throttled")) return;
  const close = (): void => {
    backdrop.remove();
    setTimeout(async () => { if (await again()) throttleDialog(again); }, 1200);
  };
  const button = h("button", { type: "button", class: "btn btn-primary", click: close }, t("gotIt"));
  const backdrop = h("div", { id: "modal-throttled", class: "fixed inset-0 z-50", "data-state": "open" },
    h("div", { role: "dialog", "aria-modal": "true", "aria-labelledby": "modal-throttled-title", class: "dialog", keydown: (event: KeyboardEvent) => {
      if (event.key === "Tab") event.preventDefault();
    } }, h("h2", { id: "modal-throttled-title" }, t("tooMany")), h("p", {}, t("tooManyText")), h("div", { class: "dialog-buttons" }, button)));
  document.body.append(backdrop);
  button.focus();
}

/** A dialog that only tells something. */
export function inform(text: string): void {
  const box = h("dialog", { class: "dialog", role: "dialog", close: () => box.remove() },
    h("p", {}, text), h("form", { method: "dialog", class: "dialog-buttons" }, h("button", { type: "submit", class: "btn btn-primary" }, t("gotIt"))));
  document.body.append(box);
  box.showModal();
}

/** Asks for one line of text; null when the person cancels. */
export function ask(title: string, before: string): Promise<string | null> {
  return new Promise((resolve) => {
    const input = h("input", { type: "text", value: before, class: "field", "aria-label": title });
    const box = h("dialog", { class: "dialog", "aria-label": title, close: () => { box.remove(); resolve(box.returnValue === "ok" ? input.value : null); } },
      h("form", { method: "dialog" }, h("h2", {}, title), input, h("div", { class: "dialog-buttons" },
        h("button", { type: "button", class: "btn", click: () => box.close() }, t("cancel")), h("button", { type: "submit", class: "btn btn-primary", value: "ok" }, "OK"))));
    document.body.append(box);
    box.showModal();
    input.select();
  });
}
