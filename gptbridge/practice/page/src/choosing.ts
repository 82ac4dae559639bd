// Which model and effort the next send asks for, whatever the picker looks like; and what scenarios do to a choice.
import { api, call, scenario } from "./net";
import { toast } from "./overlays";
import { t } from "./strings";

export interface Effort { thinking_effort: string; full_label: string }
export interface Model { slug: string; title: string; thinking_efforts: Effort[] }

const STANDARD = "standard";

export class Choosing {
  model: Model = { slug: "gpt-5-5", title: "GPT-5.5", thinking_efforts: [] };
  effort = STANDARD;

  /** `changed` is called with every new choice. */
  constructor(private changed: () => void) {}

  /** The model's name without its family, and the effort where it is not the usual one. */
  get label(): string {
    const effort = this.model.thinking_efforts.find((one) => one.thinking_effort === this.effort);
    return this.model.title.replace(/^GPT-/, "") + (effort && this.effort !== STANDARD ? ` • ${effortName(effort)}` : "");
  }

  /** What the next send is made with. */
  asked(): { model: string; effort: string } {
    const other = scenario("model-replaced");
    if (!other) return { model: this.model.slug, effort: this.effort };
    toast(String(other.notice), "error");
    return { model: String(other.model) || this.model.slug, effort: String(other.effort) || this.effort };
  }

  /** What the site offers, as far as the picker shows it. */
  async models(): Promise<Model[]> {
    const lacks = scenario("picker-lacks")?.what;
    const { models } = await call<{ models: Model[] }>("GET", api("/models"));
    return models.filter((one) => one.slug !== lacks).map((one) => ({ ...one, thinking_efforts: one.thinking_efforts.filter((effort) => effort.thinking_effort !== lacks) }));
  }

  choose(model: Model, effort: string): void {
    const before: [Model, string] = [this.model, this.effort];
    const set = (chosen: Model, word: string): void => {
      this.model = chosen;
      this.effort = chosen.thinking_efforts.some((one) => one.thinking_effort === word) ? word : STANDARD;
      this.changed();
    };
    set(model, effort);
    const reverts = scenario("picker-reverts");
    if (reverts?.at === "paste") document.addEventListener("paste", () => set(...before), { once: true });
    else if (reverts) set(...before);
  }
}

/** Why a model or effort is switched off now; undefined where it is not. */
export const offFor = (what: string): string | undefined => notice("picker-limit", what);

/** What a dialog says instead of choosing it. */
export const lockOf = (what: string): string | undefined => notice("picker-locked", what);

function notice(name: string, what: string): string | undefined {
  const found = scenario(name);
  return found?.what === what ? String(found.notice) : undefined;
}

export function effortName(effort: Effort): string {
  return { standard: t("effortStandard"), extended: t("effortExtended") }[effort.thinking_effort] ?? effort.full_label;
}
