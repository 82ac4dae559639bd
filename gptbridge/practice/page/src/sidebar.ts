// The sidebar: who is here, and the list of conversations.
import { Child, h, icon, iconButton } from "./dom";
import { isSecond, names } from "./generation";
import { api, call, whoami } from "./net";
import { ask, menu, toast } from "./overlays";
import { t } from "./strings";

export interface Row { id: string; title: string | null; gizmo_id?: string | null }
export interface SidebarHooks { open(path: string): void; fresh(): void; removed(id: string): void; renamed(id: string, title: string): void }

export class Sidebar {
  readonly element: HTMLElement;
  readonly bar: HTMLElement;
  private list = h("div", { ...names("history"), class: "history" });
  private rows: Row[] = [];
  private active: string | null = null;
  private shown = "";

  constructor(private hooks: SidebarHooks) {
    const { user } = whoami();
    // The second generation has no links here.
    const home = (attributes: Record<string, string>, ...inside: Child[]): HTMLElement => {
      const click = (event: Event): void => { event.preventDefault(); hooks.fresh(); };
      return isSecond() ? h("button", { type: "button", ...attributes, click }, ...inside) : h("a", { href: "/", ...attributes, click }, ...inside);
    };
    const brand = home({ class: "brand", "aria-label": "ChatGPT" }, h("img", { src: "/assets/favicon.svg", alt: "", width: 26, height: 26 }), h("span", { class: "badge" }, t("practice")));
    const compose = home({ class: "__menu-item", "data-testid": "create-new-chat-button" }, icon("compose"), h("span", { class: "truncate" }, t("newChat")));
    const profile = user && h("button", { type: "button", class: "__menu-item profile", "data-testid": "accounts-profile-button", "aria-haspopup": "menu", "aria-label": t("profile"), click: () => this.profileMenu(profile!) },
      h("span", { class: "avatar", "aria-hidden": "true" }, (user.name ?? user.id).slice(0, 1).toUpperCase()), h("span", { class: "truncate" }, user.name ?? user.id)) || null;
    const guest = user ? null : h("div", { class: "guest" }, h("p", {}, t("guestNote")));
    this.element = h(isSecond() ? "aside" : "div", { ...names("sidebar"), class: "side" },
      h("nav", { "aria-label": t("history"), class: "sidebar" },
        h("div", { class: "sidebar-head" }, brand, iconButton("menu", t("closeSidebar"), { "data-testid": "close-sidebar-button", click: () => this.toggle(false) }, 20)),
        compose, user ? h("h2", { class: "history-title" }, t("chats")) : null, this.list, guest, h("div", { class: "sidebar-foot" }, profile)));
    this.bar = h("div", { ...names("bar"), class: "tiny-bar" },
      iconButton("menu", t("openSidebar"), { "data-testid": "open-sidebar-button", click: () => this.toggle(true) }, 20),
      iconButton("compose", t("newChat"), { click: () => hooks.fresh() }, 20));
    this.show();
  }

  toggle(open: boolean): void {
    document.body.classList.toggle("sidebar-open", open);
    document.body.classList.toggle("sidebar-closed", !open);
    (open ? this.element : this.bar).querySelector<HTMLElement>("button")?.focus({ preventScroll: true });
  }

  /** Reads the list anew; keeps the old one when the site refuses. */
  async refresh(): Promise<void> {
    if (!whoami().user) return;
    try {
      const { items } = await call<{ items: Row[] }>("GET", api("/conversations?offset=0&limit=28&order=updated"));
      this.rows = items;
      this.show();
    } catch { /* throttled or refused: the old list is better than none */ }
  }

  /** Marks the open conversation, and puts a new one or a new title in at once. */
  mark(id: string | null, title: string | null): void {
    const row = id ? this.rows.find((one) => one.id === id) : undefined;
    if (this.active === id && (!row || !title || row.title === title)) return;
    this.active = id;
    if (row && title) row.title = title;
    this.show();
  }

  add(id: string, title: string | null): void {
    if (this.rows.some((row) => row.id === id)) return;
    this.rows.unshift({ id, title });
    this.show();
  }

  private show(): void {
    const sign = JSON.stringify([this.active, this.rows.map((row) => [row.id, row.title, row.gizmo_id])]);
    if (sign === this.shown) return;
    this.shown = sign;
    if (!this.rows.length) {
      this.list.replaceChildren(whoami().user ? h("p", { class: "muted no-chats" }, t("noChats")) : "");
      return;
    }
    this.list.replaceChildren(...this.rows.map((row, index) => {
      const path = row.gizmo_id ? `/g/${row.gizmo_id}/c/${row.id}` : `/c/${row.id}`;
      const title = row.title || t("untitled");
      const options: HTMLElement = iconButton("more", t("options"), { "data-testid": `history-item-${index}-options`, "aria-haspopup": "menu", click: () => conversationMenu(options, row.id, row.title ?? "", this.hooks) });
      const open = (event: MouseEvent | KeyboardEvent): void => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        if (innerWidth < 760) this.toggle(false);
        this.hooks.open(path);
      };
      const shared = { class: "__menu-item", dir: "auto", "data-active": row.id === this.active ? "" : null, "aria-current": row.id === this.active ? "page" : null, click: open };
      const entry = isSecond()
        ? h("div", { ...shared, role: "button", tabindex: 0, "aria-label": title, "data-sidebar-chatgpt-conversation-key": `chatgpt:conversation:${row.id}`, keydown: (event: KeyboardEvent) => { if (event.key === "Enter") open(event); } },
          h("div", { class: "truncate", "data-thread-title": "true" }, title))
        : h("a", { ...shared, href: path, "data-testid": `history-item-${index}` }, h("div", { class: "truncate", title }, h("span", { dir: "auto" }, title)));
      return h("div", { class: "history-row" }, entry, options);
    }));
  }

  private profileMenu(anchor: HTMLElement): void {
    menu(anchor, [{ label: t("logOut"), icon: "close", testid: "log-out-menu-item", run: async () => {
      await fetch("/practice/scenario", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ name: "signed-out" }) });
      location.assign("/");
    } }]);
  }
}

/** Rename, archive, delete: the same from the list and from the header. */
export function conversationMenu(anchor: HTMLElement, id: string, title: string, hooks: SidebarHooks): void {
  const patch = (body: object): Promise<boolean> => call("PATCH", api(`/conversation/${encodeURIComponent(id)}`), body).then(() => true, () => { toast(t("failed"), "error"); return false; });
  menu(anchor, [
    { label: t("rename"), icon: "edit", run: async () => {
      const name = (await ask(t("renamePrompt"), title))?.trim();
      if (name && await patch({ title: name })) hooks.renamed(id, name);
    } },
    { label: t("archive"), icon: "file", run: async () => { if (await patch({ is_archived: true })) hooks.removed(id); } },
    { label: t("remove"), icon: "close", danger: true, testid: "delete-chat-menu-item", run: async () => { if (await patch({ is_visible: false })) hooks.removed(id); } },
  ]);
}
