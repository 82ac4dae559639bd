// Which model and effort the next send asks for, and the menus in which a person chooses them.
import { h, icon } from "./dom";
import { api, call, scenario } from "./net";
import { Item, inform, menu, toast } from "./overlays";
import { t } from "./strings";

interface Effort { thinking_effort: string; full_label: string }
interface Model { slug: string; title: string; thinking_efforts: Effort[] }

const FIRST: Model = { slug: "gpt-5-5", title: "GPT-5.5", thinking_efforts: [] };

export class Picker {
  readonly button = h("button", { type: "button", "data-testid": "model-switcher-dropdown-button", "aria-haspopup": "menu", class: "model-btn", click: () => this.open() });
  private model = FIRST;
  private effort = "standard";
  private shown = "";

  constructor() {
    this.show();
  }

  /** What the next send is made with. */
  choice(): { model: string; effort: string } {
    const other = scenario("model-replaced");
    if (!other) return { model: this.model.slug, effort: this.effort };
    toast(String(other.notice), "error");
    return { model: String(other.model) || this.model.slug, effort: String(other.effort) || this.effort };
  }

  private show(): void {
    const label = this.model.title.replace(/^GPT-/, "") + (this.effort === "standard" ? "" : ` • ${effortName(this.effort, this.effort)}`);
    if (label === this.shown) return;
    this.shown = label;
    this.button.setAttribute("aria-label", t("model", label));
    this.button.replaceChildren(h("span", {}, "ChatGPT ", h("span", { class: "muted" }, label)), icon("down", 16));
  }

  private async open(): Promise<void> {
    const { models } = await call<{ models: Model[] }>("GET", api("/models"));
    menu(this.button, offered(models, (one) => one.slug).map((model) => this.row({
      label: `ChatGPT ${model.title.replace(/^GPT-/, "")}`, testid: `model-switcher-${model.slug}`, checked: model.slug === this.model.slug,
      run: () => this.choose(model, this.effort),
      more: model.thinking_efforts.length ? { label: t("effort"), testid: `model-switcher-${model.slug}-thinking-effort`, run: () => this.efforts(model) } : undefined,
    }, model.slug)));
  }

  private efforts(model: Model): void {
    menu(this.button, offered(model.thinking_efforts, (one) => one.thinking_effort).map((one) => this.row({
      label: effortName(one.thinking_effort, one.full_label), checked: one.thinking_effort === this.effort, run: () => this.choose(model, one.thinking_effort),
    }, one.thinking_effort)));
  }

  /** A row as it is, or with what a scenario does to the choice `what`. */
  private row(item: Item, what: string): Item {
    const limit = scenario("picker-limit");
    const lock = scenario("picker-locked");
    if (limit?.what === what) return { ...item, off: String(limit.notice) };
    if (lock?.what === what) return { ...item, run: () => inform(String(lock.notice)) };
    return item;
  }

  private choose(model: Model, effort: string): void {
    const before: [Model, string] = [this.model, this.effort];
    [this.model, this.effort] = [model, model.thinking_efforts.some((one) => one.thinking_effort === effort) ? effort : "standard"];
    this.show();
    const reverts = scenario("picker-reverts");
    const revert = (): void => { [this.model, this.effort] = before; this.show(); };
    if (reverts?.at === "paste") document.addEventListener("paste", revert, { once: true });
    else if (reverts) revert();
  }
}

const offered = <T>(all: T[], name: (one: T) => string): T[] => all.filter((one) => name(one) !== scenario("picker-lacks")?.what);

function effortName(word: string, otherwise: string): string {
  return word === "standard" ? t("effortStandard") : word === "extended" ? t("effortExtended") : otherwise;
}
