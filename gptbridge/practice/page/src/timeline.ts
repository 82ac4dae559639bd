// The second generation's thread: rounds of a prompt and its answer, the newest at hand, older ones brought when somebody scrolls up.
import { assign, h } from "./dom";
import { names } from "./generation";
import { t } from "./strings";
import { Conversation, Turn } from "./tree";
import { TurnHooks, TurnView } from "./turn";

const STEP = 6; // rounds at hand, and so many more each time
const NEAR = 400; // px to the oldest one at which more are brought
const BRINGING = 120; // ms that it takes

interface Round { key: string; turns: Turn[]; element: HTMLElement; views: TurnView[] }

/** Its scroller is a reversed column: 0 is the newest end, older lies below zero. What is not at hand has no place on the page. */
export class Timeline {
  readonly element = h("div", { ...names("thread"), class: "thread" });
  private conversation: Conversation | null = null;
  private rounds = new Map<string, Round>();
  private most = STEP;
  private bringing = 0;
  private total = 0;

  constructor(private scroller: HTMLElement, private hooks: TurnHooks) {
    scroller.addEventListener("scroll", () => this.look(), { passive: true });
  }

  /** Shows the conversation as it is now; null empties the thread. */
  show(conversation: Conversation | null): void {
    if (conversation !== this.conversation) {
      this.conversation = conversation;
      this.rounds.clear();
      this.most = STEP;
      this.element.replaceChildren();
      this.scroller.scrollTop = 0;
    }
    if (!conversation) {
      this.element.replaceChildren(h("h1", { class: "hello" }, t("hello")));
      return;
    }
    const parts = grouped(conversation.turns());
    this.total = parts.length;
    const wanted = parts.slice(-this.most).map((turns, index) => this.round(turns, parts.length - Math.min(this.most, parts.length) + index));
    this.rounds = new Map(wanted.map((round) => [round.turns[0].key, round]));
    for (const child of [...this.element.children]) if (!wanted.some((round) => round.element === child)) child.remove();
    wanted.forEach((round, index) => {
      const before = this.element.children[index];
      if (before !== round.element) this.element.insertBefore(round.element, before ?? null);
      this.fill(round, index === wanted.length - 1);
    });
    if (this.scroller.scrollHeight <= this.scroller.clientHeight) this.look();
  }

  // More where the oldest at hand comes near or nothing can be scrolled, less back at the newest end.
  private look(): void {
    const { scroller } = this;
    const older = scroller.scrollHeight - scroller.clientHeight + scroller.scrollTop;
    if (older >= NEAR && scroller.scrollTop > -NEAR && this.most > STEP) this.hold(STEP);
    else if (older < NEAR && !this.bringing && this.total > this.most) {
      this.bringing = window.setTimeout(() => { this.bringing = 0; this.hold(this.most + STEP); }, BRINGING);
    }
  }

  private hold(rounds: number): void {
    this.most = rounds;
    this.show(this.conversation);
  }

  private round(turns: Turn[], at: number): Round {
    const known = this.rounds.get(turns[0].key);
    const asked = turns[0].role === "user";
    const key = !asked ? `fallback-turn-${at}` : this.conversation!.id ? turns[0].key : "pending-chatgpt-submit";
    return known ? Object.assign(known, { key, turns }) : { key, turns, element: h("div", { class: "round" }), views: [] };
  }

  private fill(round: Round, isLast: boolean): void {
    assign(round.element, { "data-turn-key": round.key, "data-talvt-turn-state": round.turns.some((turn) => turn.live) ? "in_progress" : "complete" });
    round.turns.forEach((turn, index) => {
      const view = round.views[index] ?? (round.views[index] = new TurnView(this.conversation!, this.hooks));
      view.show(turn, isLast, round.key);
      if (view.section.parentNode !== round.element) round.element.append(view.section);
    });
    for (const view of round.views.splice(round.turns.length)) view.section.remove();
  }
}

// A prompt opens a round; what answers it belongs there.
function grouped(turns: Turn[]): Turn[][] {
  const out: Turn[][] = [];
  for (const turn of turns) {
    if (turn.role === "user" || !out.length) out.push([turn]);
    else out[out.length - 1].push(turn);
  }
  return out;
}
