// How the second generation chooses model and effort: a control of the composer whose menu has a slider, and the models behind it.
import { Choosing, Model, effortName, lockOf, offFor } from "./choosing";
import { h, icon } from "./dom";
import { inform, whyOff } from "./overlays";
import { t } from "./strings";

export class Dial {
  readonly element = h("button", {
    type: "button", id: "radix-picker", class: "picker-btn", "aria-label": t("selectModel"), "aria-haspopup": "menu", "aria-expanded": "false", "data-state": "closed",
    "data-codex-intelligence-trigger": "true", "data-composer-navigation-target": "reasoning", click: () => void this.toggle(),
  });
  readonly choosing = new Choosing(() => this.name());
  private models: Model[] = [];
  private menu: HTMLElement | null = null;
  private outside = (event: Event): void => {
    if (!this.menu?.contains(event.target as Node) && !this.element.contains(event.target as Node)) this.close(false);
  };

  constructor() {
    this.name();
  }

  private name(): void {
    const open = !!this.menu;
    this.element.setAttribute("aria-expanded", String(open));
    this.element.dataset.state = open ? "open" : "closed";
    this.element.dataset.selectedReasoningEffort = this.choosing.effort;
    this.element.replaceChildren(h("span", {}, open ? t("effort") : this.choosing.label), icon("down", 14));
  }

  private async toggle(): Promise<void> {
    if (this.menu) return this.close(true);
    const box = h("div", { role: "menu", id: "radix-picker-menu", class: "menu picker", "aria-labelledby": this.element.id, "data-radix-menu-content": true, "data-state": "open",
      keydown: (event: KeyboardEvent) => { if (event.key === "Escape" || event.key === "Tab") { event.preventDefault(); this.close(true); } } });
    this.menu = h("div", { "data-radix-popper-content-wrapper": true }, box);
    this.name();
    document.addEventListener("pointerdown", this.outside, true);
    this.models = await this.choosing.models().catch(() => this.models);
    if (!this.menu) return;
    this.element.setAttribute("aria-controls", box.id);
    document.body.append(this.menu);
    this.fill(box, false);
  }

  private close(back: boolean): void {
    this.menu?.remove();
    this.menu = null;
    document.removeEventListener("pointerdown", this.outside, true);
    this.element.removeAttribute("aria-controls");
    this.name();
    if (back) this.element.focus();
  }

  /** Two panes, one of them at a time: the slider, and the models. */
  private fill(box: HTMLElement, advanced: boolean): void {
    const pane = (view: string, active: boolean, ...rows: (HTMLElement | null)[]): HTMLElement =>
      h("div", { "data-model-picker-view": view, "data-active": String(active), "aria-hidden": !active && "true", inert: !active, class: "picker-pane" }, ...rows);
    const turn = row("menuitem", { "aria-label": t("selectModel"), "data-model-picker-view-toggle": "true" }, () => this.fill(box, true), this.choosing.model.title, icon("right", 16));
    const models = this.models.map((model) => {
      const chosen = model.slug === this.choosing.model.slug;
      return row("menuitemradio", { "aria-checked": String(chosen), "data-model-selected": chosen && "true" }, () => this.choose(model), model.title, chosen ? icon("check", 16) : null, offFor(model.slug));
    });
    box.replaceChildren(pane("simple", !advanced, turn, ...this.slider(box)), pane("advanced", advanced, ...models));
    const place = this.element.getBoundingClientRect(), size = box.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(place.left, innerWidth - size.width - 8))}px`;
    box.style.top = `${place.top - size.height - 6 > 8 ? place.top - size.height - 6 : place.bottom + 6}px`;
    box.querySelector<HTMLElement>(advanced ? "[role=menuitemradio]" : "[data-reasoning-slider], [data-model-picker-view-toggle]")?.focus();
  }

  private slider(box: HTMLElement): HTMLElement[] {
    const efforts = this.models.find((one) => one.slug === this.choosing.model.slug)?.thinking_efforts ?? [];
    const now = Math.max(0, efforts.findIndex((one) => one.thinking_effort === this.choosing.effort));
    if (!efforts.length) return [];
    const called = effortName(efforts[now]);
    const slide = (event: KeyboardEvent): void => {
      const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: efforts.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const word = efforts[Math.max(0, Math.min(efforts.length - 1, to))].thinking_effort;
      if (offFor(word) === undefined) this.choosing.choose(this.choosing.model, word);
      this.fill(box, false);
    };
    return [
      h("span", { role: "status", "aria-live": "polite", id: "picker-status", class: "sr-only" }, t("effortOf", called, now + 1, efforts.length)),
      h("div", { role: "menuitem", tabindex: "0", class: "menu-item", "aria-label": t("power"), "aria-describedby": "picker-status", "data-reasoning-slider": "true", keydown: slide },
        h("span", { class: "menu-label" }, called),
        h("div", { "data-model-picker-power-slider": true, class: "power" }, ...efforts.map((_, index) => h("span", { class: index <= now ? "power-on" : "" })),
          h("span", { role: "slider", class: "power-thumb", "aria-hidden": "true", "aria-valuemin": "0", "aria-valuemax": String(efforts.length - 1), "aria-valuenow": String(now) }))),
    ];
  }

  private choose(model: Model): void {
    this.close(true);
    const lock = lockOf(model.slug);
    if (lock === undefined) this.choosing.choose(model, this.choosing.effort);
    else inform(lock);
  }
}

function row(role: string, attributes: Record<string, string | false>, act: () => void, label: string, sign: SVGSVGElement | null, off?: string): HTMLElement {
  return whyOff(h("div", { role, tabindex: "0", class: "menu-item", ...attributes, click: () => { if (off === undefined) act(); },
    keydown: (event: KeyboardEvent) => { if (event.key === "Enter" && off === undefined) act(); } }, h("span", { class: "menu-label" }, label), sign), off);
}
