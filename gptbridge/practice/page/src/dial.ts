// How the second generation chooses model and effort: a control of the composer whose menu has a slider, and the models behind it.
import { h, icon } from "./dom";
import { t } from "./strings";

const MODELS: [string, string][] = [["gpt-5-5", ""], ["gpt-5-6-sol", "GPT-5.6 Sol"], ["gpt-5-4", "GPT-5.4"]]; // the first is called the latest
const EFFORTS = ["instant", "medium", "high", "xhigh", "pro"] as const;

export class Dial {
  readonly element = h("button", {
    type: "button", id: "radix-picker", class: "picker-btn", "aria-label": t("selectModel"), "aria-haspopup": "menu", "aria-expanded": "false", "data-state": "closed",
    "data-codex-intelligence-trigger": "true", "data-composer-navigation-target": "reasoning", click: () => this.toggle(),
  });
  private model = MODELS[0][0];
  private effort = 1;
  private advanced = false;
  private menu: HTMLElement | null = null;
  private outside = (event: Event): void => {
    if (!this.menu?.contains(event.target as Node) && !this.element.contains(event.target as Node)) this.close(false);
  };

  constructor() {
    this.name();
  }

  /** What the next send is to be made with. */
  choice(): { model: string; effort: string } {
    return { model: this.model, effort: EFFORTS[this.effort] };
  }

  private name(): void {
    const open = !!this.menu;
    this.element.setAttribute("aria-expanded", String(open));
    this.element.dataset.state = open ? "open" : "closed";
    this.element.dataset.selectedReasoningEffort = EFFORTS[this.effort];
    this.element.replaceChildren(h("span", {}, open ? t("effort") : t(EFFORTS[this.effort])), icon("down", 14));
  }

  private toggle(): void {
    if (this.menu) return this.close(true);
    this.advanced = false;
    const box = h("div", { role: "menu", id: "radix-picker-menu", class: "menu picker", "aria-labelledby": this.element.id, "data-radix-menu-content": true, "data-state": "open",
      keydown: (event: KeyboardEvent) => { if (event.key === "Escape" || event.key === "Tab") { event.preventDefault(); this.close(true); } } });
    this.menu = h("div", { "data-radix-popper-content-wrapper": true }, box);
    this.element.setAttribute("aria-controls", box.id);
    document.body.append(this.menu);
    document.addEventListener("pointerdown", this.outside, true);
    this.fill(box);
    this.name();
  }

  private close(back: boolean): void {
    this.menu?.remove();
    this.menu = null;
    document.removeEventListener("pointerdown", this.outside, true);
    this.element.removeAttribute("aria-controls");
    this.name();
    if (back) this.element.focus();
  }

  private fill(box: HTMLElement): void {
    const pane = (view: string, active: boolean, ...rows: HTMLElement[]): HTMLElement =>
      h("div", { "data-model-picker-view": view, "data-active": String(active), "aria-hidden": !active && "true", inert: !active, class: "picker-pane" }, ...rows);
    const called = t(EFFORTS[this.effort]);
    const status = h("span", { role: "status", "aria-live": "polite", id: "picker-status", class: "sr-only" }, t("effortOf", called, this.effort + 1, EFFORTS.length));
    const slider = h("div", { role: "menuitem", tabindex: "0", class: "menu-item", "aria-label": t("power"), "aria-describedby": status.id, "data-reasoning-slider": "true",
      keydown: (event: KeyboardEvent) => this.slide(event, box) },
      h("span", { class: "menu-label" }, called),
      h("div", { "data-model-picker-power-slider": true, class: "power" }, ...EFFORTS.map((_, index) => h("span", { class: index <= this.effort ? "power-on" : "" })),
        h("span", { role: "slider", class: "sr-only", "aria-hidden": "true", "aria-valuemin": "0", "aria-valuemax": String(EFFORTS.length - 1), "aria-valuenow": String(this.effort) })));
    const shown = (model: string): string => MODELS.find(([id]) => id === model)![1] || t("latest");
    const turn = h("div", { role: "menuitem", tabindex: "0", class: "menu-item", "aria-label": t("selectModel"), "data-model-picker-view-toggle": "true",
      click: () => { this.advanced = true; this.fill(box); }, keydown: (event: KeyboardEvent) => { if (event.key === "Enter") { this.advanced = true; this.fill(box); } } },
      h("span", { class: "menu-label" }, shown(this.model)), icon("right", 16));
    const rows = MODELS.map(([id]) => h("div", { role: "menuitemradio", tabindex: "0", class: "menu-item", "aria-checked": String(id === this.model), "data-model-selected": id === this.model && "true",
      click: () => this.choose(id), keydown: (event: KeyboardEvent) => { if (event.key === "Enter") this.choose(id); } }, h("span", { class: "menu-label" }, shown(id)), id === this.model ? icon("check", 16) : null));
    box.replaceChildren(pane("simple", !this.advanced, turn, status, slider), pane("advanced", this.advanced, ...rows));
    const place = this.element.getBoundingClientRect(), size = box.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(place.left, innerWidth - size.width - 8))}px`;
    box.style.top = `${place.top - size.height - 6 > 8 ? place.top - size.height - 6 : place.bottom + 6}px`;
    box.querySelector<HTMLElement>(this.advanced ? "[role=menuitemradio]" : "[data-reasoning-slider]")!.focus();
  }

  private choose(model: string): void {
    this.model = model;
    this.close(true);
  }

  private slide(event: KeyboardEvent, box: HTMLElement): void {
    const to = { ArrowRight: this.effort + 1, ArrowLeft: this.effort - 1, Home: 0, End: EFFORTS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.effort = Math.max(0, Math.min(EFFORTS.length - 1, to));
    this.fill(box);
  }
}
