// The page's header: model, Chat or Work, sharing, signing in.
import { Choosing } from "./choosing";
import { copyText, h, icon, iconButton } from "./dom";
import { isSecond, names } from "./generation";
import { scenario, whoami } from "./net";
import { toast } from "./overlays";
import { Picker } from "./picker";
import { t } from "./strings";

export class Header {
  readonly element: HTMLElement;
  private picker = new Picker();
  private mode = "chat";
  private shown = "";
  private radios = h("div", { ...names("modes"), "aria-label": t("mode"), class: "modes" });
  private actions = h("div", { ...names("headerActions"), class: "header-actions" });

  /** `bar` is the narrow bar of the closed sidebar; `options` opens the open conversation's menu; `turned` hears of another mode. */
  constructor(bar: HTMLElement, private options: (anchor: HTMLElement) => void, private turned: (work: boolean) => void) {
    const { user } = whoami();
    if (scenario("work-mode")) this.mode = "work";
    const title = h("div", { ...names("titlebar"), class: "titlebar" }, isSecond() ? null : this.picker.button, user ? this.radios : null, h("div", { class: "spacer" }), this.actions);
    this.element = h("header", { ...names("header"), class: "page-header" }, bar, title,
      scenario("stop-control-elsewhere") ? iconButton("speaker", t("stopReading"), { class: "icon-btn" }) : null,
      ...(user ? [] : [
        h("button", { type: "button", class: "btn btn-primary", "data-testid": "login-button", click: () => location.assign("/auth/login") }, t("login")),
        h("button", { type: "button", class: "btn signup", "data-testid": "signup-button", click: () => location.assign("/auth/login") }, t("signup")),
      ]));
    this.show(false);
  }

  /** In which mode the next send is to be made. */
  choice(): { mode: string } {
    return { mode: this.work ? "work_assistant" : "primary_assistant" };
  }

  get choosing(): Choosing {
    return this.picker.choosing;
  }

  get work(): boolean {
    return this.mode === "work";
  }

  show(conversation: boolean): void {
    const sign = `${conversation}|${this.mode}`;
    if (sign === this.shown) return;
    this.shown = sign;
    this.radios.replaceChildren(...(["chat", "work"] as const).map((mode) => h("button", {
      type: "button", ...(isSecond() ? { role: "tab", "aria-selected": String(mode === this.mode) } : { role: "radio", "aria-checked": String(mode === this.mode), "data-state": mode === this.mode ? "on" : "off" }),
      tabindex: mode === this.mode ? 0 : -1,
      click: () => this.turnTo(mode), keydown: (event: KeyboardEvent) => { if (event.key.startsWith("Arrow")) { this.turnTo(mode === "chat" ? "work" : "chat"); this.radios.querySelector<HTMLElement>("[tabindex='0']")!.focus(); } },
    }, t(mode))));
    const options: HTMLElement = iconButton("more", t("options2"), { "data-testid": "conversation-options-button", "aria-haspopup": "menu", click: () => this.options(options) });
    this.actions.replaceChildren(...(conversation && whoami().user ? [
      h("button", { type: "button", class: "btn btn-quiet", "data-testid": "share-chat-button", "aria-label": t("share"), click: async () => { await copyText(location.href); toast(t("copied")); } }, icon("share", 18), h("span", { class: "wide-only" }, t("share"))),
      options,
    ] : []));
  }

  private turnTo(mode: "chat" | "work"): void {
    this.mode = mode;
    this.turned(this.work);
    this.show(this.actions.childElementCount > 0);
  }
}
