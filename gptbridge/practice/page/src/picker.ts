// How the first generation chooses model and effort: a menu below the header's button, and one of efforts behind a model's row.
import { Choosing, Model, effortName, lockOf, offFor } from "./choosing";
import { h, icon } from "./dom";
import { Item, inform, menu } from "./overlays";
import { t } from "./strings";

export class Picker {
  readonly button = h("button", { type: "button", "data-testid": "model-switcher-dropdown-button", "aria-haspopup": "menu", class: "model-btn", click: () => void this.open() });
  readonly choosing = new Choosing(() => this.show());

  constructor() {
    this.show();
  }

  private show(): void {
    this.button.setAttribute("aria-label", t("model", this.choosing.label));
    this.button.replaceChildren(h("span", {}, "ChatGPT ", h("span", { class: "muted" }, this.choosing.label)), icon("down", 16));
  }

  private async open(): Promise<void> {
    const { choosing } = this;
    menu(this.button, (await choosing.models()).map((model) => row(model.slug, {
      label: `ChatGPT ${model.title.replace(/^GPT-/, "")}`, testid: `model-switcher-${model.slug}`, checked: model.slug === choosing.model.slug,
      run: () => choosing.choose(model, choosing.effort),
      more: model.thinking_efforts.length ? { label: t("effort"), testid: `model-switcher-${model.slug}-thinking-effort`, run: () => this.efforts(model) } : undefined,
    })));
  }

  private efforts(model: Model): void {
    menu(this.button, model.thinking_efforts.map((one) => row(one.thinking_effort, {
      label: effortName(one), checked: one.thinking_effort === this.choosing.effort, run: () => this.choosing.choose(model, one.thinking_effort),
    })));
  }
}

/** The row of the choice `what`, or what a scenario makes of it. */
function row(what: string, item: Item): Item {
  const lock = lockOf(what);
  return { ...item, off: offFor(what), run: lock === undefined ? item.run : () => inform(lock) };
}
