// The thread: a container for every turn, and mounted turns only near what is seen.
import { h } from "./dom";
import { names } from "./generation";
import { Conversation, Turn } from "./tree";
import { TurnHooks, TurnView } from "./turn";
import { t } from "./strings";

const AT_REST = 6; // turns mounted while nothing moves, unless more of them are seen
const MOVING = 14; // at most so many while scrolling
const UNKNOWN_HEIGHT = 160; // px, for turns that were never mounted

interface Slot { turn: Turn; container: HTMLElement; view: TurnView | null }

export class Thread {
  readonly element = h("div", { ...names("thread"), class: "thread" });
  private slots: Slot[] = [];
  private conversation: Conversation | null = null;
  private pinned = true;
  private rest = 0;

  constructor(private scroller: HTMLElement, private hooks: TurnHooks) {
    scroller.addEventListener("scroll", () => {
      this.pinned = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
      this.arrange(MOVING);
      clearTimeout(this.rest);
      this.rest = window.setTimeout(() => this.arrange(AT_REST), 400);
    }, { passive: true });
    new ResizeObserver(() => this.stick()).observe(this.element);
    new ResizeObserver(() => { this.stick(); this.arrange(AT_REST); }).observe(scroller);
  }

  /** Shows the conversation as it is now; null empties the thread. */
  show(conversation: Conversation | null): void {
    const fresh = conversation !== this.conversation;
    if (fresh) {
      this.conversation = conversation;
      this.slots = [];
      this.pinned = true;
      this.element.replaceChildren();
    }
    if (!conversation) {
      this.element.replaceChildren(h("h1", { class: "hello" }, t("hello")));
      return;
    }
    if (!this.element.querySelector(':scope > [data-turn-id-container="client-created-root"]')) {
      this.element.prepend(h("div", { "data-turn-id-container": "client-created-root" }));
    }
    const turns = conversation.turns();
    const known = new Map(this.slots.map((slot) => [slot.turn.key, slot]));
    const grown = turns.length > this.slots.length;
    this.slots = turns.map((turn) => {
      const slot = known.get(turn.key) ?? { turn, container: h("div", { "data-turn-id-container": turn.key, class: "turn-holder", "data-is-intersecting": "false" }), view: null };
      known.delete(turn.key);
      slot.turn = turn;
      return slot;
    });
    for (const slot of known.values()) slot.container.remove();
    this.slots.forEach((slot, index) => {
      const before = this.element.children[index + 1];
      if (before !== slot.container) this.element.insertBefore(slot.container, before ?? null);
      if (!slot.view && !slot.container.style.height) this.size(slot, UNKNOWN_HEIGHT);
    });
    if (grown) this.pinned = true;
    for (const slot of this.slots) if (slot.view) slot.view.show(slot.turn, slot === this.slots.at(-1));
    this.element.toggleAttribute("data-has-turns", turns.length > 0);
    this.scroller.toggleAttribute("data-stream-active", turns.some((turn) => turn.live));
    if (fresh || grown) this.toEnd();
    else {
      this.arrange(AT_REST);
      this.stick();
    }
  }

  private toEnd(): void {
    // Heights are estimates until a turn is mounted: mounting moves the end, so go there until it stays.
    for (let round = 0; round < 4; round++) {
      this.mount(Math.max(0, this.slots.length - AT_REST), this.slots.length);
      this.scroller.scrollTop = this.scroller.scrollHeight;
      this.arrange(AT_REST);
    }
    this.stick();
  }

  private stick(): void {
    if (this.pinned && this.slots.length) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  // Mounts the turns that are seen and their neighbours, `most` in all (those that are seen may be more, up to MOVING).
  private arrange(most: number): void {
    if (!this.slots.length) return;
    const frame = this.scroller.getBoundingClientRect();
    let first = -1, last = -1;
    this.slots.forEach((slot, index) => {
      const box = slot.container.getBoundingClientRect();
      const seen = box.bottom > frame.top && box.top < frame.bottom;
      const sign = String(seen);
      if (slot.container.dataset.isIntersecting !== sign) slot.container.dataset.isIntersecting = sign;
      if (seen && first < 0) first = index;
      if (seen) last = index;
    });
    if (first < 0) first = last = this.slots.length - 1;
    last = Math.min(last, first + MOVING - 1);
    let from = first, to = last + 1;
    while (to - from < most && (from > 0 || to < this.slots.length)) {
      if (from > 0) from--;
      if (to < this.slots.length && to - from < most) to++;
    }
    this.mount(from, to);
  }

  private mount(from: number, to: number): void {
    this.slots.forEach((slot, index) => {
      const wanted = index >= from && index < to;
      if (wanted && !slot.view) {
        slot.view = new TurnView(this.conversation!, this.hooks);
        slot.view.show(slot.turn, index === this.slots.length - 1);
        slot.container.style.removeProperty("height");
        slot.container.replaceChildren(slot.view.section);
      } else if (!wanted && slot.view) {
        this.size(slot, slot.container.getBoundingClientRect().height);
        slot.container.replaceChildren();
        slot.view = null;
      }
    });
  }

  private size(slot: Slot, height: number): void {
    slot.container.style.setProperty("--last-known-height", `${Math.round(height)}px`);
    slot.container.style.height = "var(--last-known-height)";
  }
}
