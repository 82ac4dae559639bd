// The page: builds it, makes it live, and keeps address, thread, composer and sidebar telling the same story.
import { Composer, Composed } from "./composer";
import { Dial } from "./dial";
import { assign, h } from "./dom";
import { drift, standsInstead } from "./drift";
import { Choice, Exchange, ExchangeHooks, follow, readConversation, userMessage } from "./exchange";
import { isSecond, names, settle } from "./generation";
import { Header } from "./header";
import { Refusal, parameter, refreshScenarios, refreshSession, scenario } from "./net";
import { throttleDialog, toast } from "./overlays";
import { Sidebar, SidebarHooks, conversationMenu } from "./sidebar";
import { speak, t } from "./strings";
import { Thread } from "./thread";
import { Timeline } from "./timeline";
import { arrangeServiceWorker, hauntOn } from "./transport";
import { Conversation, Message, ROOT } from "./tree";
import { TurnHooks } from "./turn";

const HYDRATES_AFTER = 150; // ms from the first look of the page until its editor is live

class Page implements SidebarHooks, ExchangeHooks {
  private conversation: Conversation | null = null;
  private known = new Map<string, Conversation>(); // conversations whose answers this page reads, by address
  private exchanges = new Map<Conversation, Exchange>();
  private opening = 0;
  private sending = false;
  private swallowed = 0;
  private pending = 0;
  private cost = 0; // ms that the last look took: a long answer is shown less often
  private main = h("main", { ...names("main"), tabindex: "-1" });
  // What scrolls: all of the first generation's main, the thread alone in the second one's.
  private scroller = isSecond() ? h("div", { ...names("scroller"), class: "scroller timeline" }) : this.main;
  private polite = h("div", { id: "live-region-polite", class: "sr-only", "aria-live": "polite", "aria-atomic": "true" });
  private assertive = h("div", { id: "live-region-assertive", class: "sr-only", "aria-live": "assertive", "aria-atomic": "true" });
  private sidebar = new Sidebar(this);
  private header = new Header(this.sidebar.bar, (anchor) => this.options(anchor), (work) => this.composer.set({ work }));
  private dial = isSecond() ? new Dial() : null;
  private composer = new Composer(draftKey(), (byClick) => void this.submit(byClick), () => void this.stop(), this.dial?.element ?? null);
  private turns: TurnHooks = {
    retry: (user) => this.again(user),
    regenerate: (user) => this.again(user),
    edit: (user, text) => this.branch(user, { text, attachments: [], hints: [] }),
    select: (node) => { this.conversation?.select(node); this.show(); },
  };
  private thread = isSecond() ? new Timeline(this.scroller, this.turns) : new Thread(this.scroller, this.turns);
  private bottom = h("div", { ...names("footer"), class: "thread-bottom" }, this.composer.element, h("div", { class: "disclaimer", "data-testid": "thread-disclaimer" }, t("disclaimer")));

  build(): void {
    if (isSecond()) this.main.append(this.scroller);
    else assign(this.main, { ...names("scroller"), class: "scroller" });
    this.scroller.append(this.thread.element);
    this.main.append(this.bottom);
    this.composer.set({ work: this.header.work });
    document.body.append(
      h("a", { href: `#${names("main").id}`, class: "skip" }, t("chatWith")),
      h("div", { class: "stage" }, this.sidebar.element, h("div", { class: "scrim", click: () => this.sidebar.toggle(false) }), h("div", { class: "stage-main" }, this.header.element, this.main)),
      this.polite, this.assertive);
    addEventListener("popstate", () => void this.open(location.pathname, false));
    this.thread.show(null);
  }

  /** The editor comes alive; text typed before is gone. */
  hydrate(): void {
    this.composer.hydrate();
    if (!isSecond()) document.body.append(h("span", { "data-testid": "blocking-initial-modals-done", hidden: true }));
    if (matchMedia("(hover: hover)").matches) this.composer.focus();
    if (scenario("wipes-early-text")) setTimeout(() => this.composer.wipe(), parameter("wipes-early-text", "seconds", 0.5) * 1000);
  }

  /** Goes to an address of this site: `/`, `/c/<id>`, `/g/<...>/c/<id>`. */
  async open(path: string, push = true): Promise<void> {
    const turn = ++this.opening;
    const [, prefix = "", id] = /^((?:\/g\/[^/]+)?)\/c\/([^/?#]+)/.exec(path) ?? [];
    if (push) history.pushState(null, "", path);
    const live = this.known.get(path);
    this.composer.set({ blocked: false });
    if (!id || live) return this.turnTo(live ?? null);
    const conversation = new Conversation();
    conversation.id = decodeURIComponent(id);
    conversation.prefix = prefix;
    this.turnTo(conversation);
    this.composer.set({ blocked: true });
    try {
      conversation.load(await readConversation(conversation.id));
    } catch (error) {
      if (turn !== this.opening) return;
      this.composer.set({ blocked: false });
      toast(t("unable", conversation.id), "error", 8);
      this.assertive.textContent = t("unable", conversation.id);
      if (error instanceof Refusal && error.status === 429) this.throttle();
      history.replaceState(null, "", "/");
      return this.turnTo(null);
    }
    if (turn !== this.opening) return;
    this.composer.set({ blocked: false });
    this.show();
    if (conversation.liveUser) void follow(conversation, this);
  }

  fresh(): void {
    void this.open("/");
    this.composer.focus();
  }

  removed(id: string): void {
    void this.sidebar.refresh();
    if (this.conversation?.id === id) this.fresh();
  }

  renamed(id: string, title: string): void {
    if (this.conversation?.id === id) this.conversation.title = title;
    void this.sidebar.refresh();
    this.show();
  }

  changed(conversation: Conversation): void {
    // A timer instead of an animation frame: those stand still in a window that nobody sees.
    if (conversation !== this.conversation || this.pending) return;
    this.pending = window.setTimeout(() => {
      this.pending = 0;
      const began = performance.now();
      this.show();
      this.cost = performance.now() - began;
    }, Math.max(30, 3 * this.cost));
  }

  named(conversation: Conversation): void {
    if (conversation.id) {
      this.known.delete(`${conversation.prefix}/c/${conversation.localId}`);
      this.known.set(conversation.path, conversation);
      this.sidebar.add(conversation.id, conversation.title);
    }
    if (conversation !== this.conversation) return;
    if (conversation.id) {
      this.composer.rename(conversation.id);
      if (location.pathname !== conversation.path) history.replaceState(null, "", conversation.path + location.search);
    }
    this.show();
  }

  ended(conversation: Conversation): void {
    this.exchanges.delete(conversation);
    this.known.delete(conversation.path);
    if (conversation === this.conversation) {
      this.show();
      this.polite.textContent = t("done");
    }
    void this.sidebar.refresh();
  }

  start(): void {
    void this.open(location.pathname, false);
    void this.sidebar.refresh();
    if (scenario("throttled")) this.throttle();
  }

  private turnTo(conversation: Conversation | null): void {
    this.conversation = conversation;
    this.composer.open(conversation?.id ?? conversation?.localId ?? "new");
    this.show();
  }

  private show(): void {
    const { conversation } = this;
    this.thread.show(conversation);
    this.composer.set({ generating: !!conversation?.liveUser });
    this.header.show(!!conversation?.id);
    this.sidebar.mark(conversation?.id ?? null, conversation?.title ?? null);
    document.title = conversation?.title || "ChatGPT";
    document.body.classList.toggle("empty-thread", !conversation);
    const last = conversation?.userAbove(conversation.current);
    this.bottom.toggleAttribute("data-has-thread-error", !!last && !!conversation?.failures.has(last));
  }

  private async submit(byClick: boolean): Promise<void> {
    const composed = this.composer.composed();
    if (!composed || this.sending) return;
    this.sending = true;
    try {
      await refreshScenarios();
      await arrangeServiceWorker();
      const swallow = byClick && scenario("swallow-click");
      if (swallow && (!Number(swallow.times ?? 0) || ++this.swallowed <= Number(swallow.times))) return;
      const target = this.conversation;
      const parent = target?.current ?? ROOT;
      for (let press = scenario("nervous-click") ? 2 : 1; press > 0; press--) this.send(composed, target ?? new Conversation(), parent);
      this.composer.clear();
    } finally {
      this.sending = false;
    }
  }

  private send(composed: Composed, conversation: Conversation, parent: string): void {
    const message = userMessage(composed);
    conversation.put(message, parent);
    this.exchange(conversation, message, parent, composed.hints, "next");
  }

  // The answer to `message` is asked for and shown as it comes.
  private exchange(conversation: Conversation, message: Message, parent: string, hints: string[], action: "next" | "variant"): void {
    conversation.current = message.id;
    conversation.liveUser = message.id;
    conversation.failures.delete(message.id);
    conversation.stopped.delete(message.id);
    const exchange = new Exchange(conversation, message, parent, hints, this.choice(), this, action);
    this.exchanges.set(conversation, exchange);
    this.known.set(conversation.path, conversation);
    if (this.conversation !== conversation) {
      history.pushState(null, "", conversation.path + location.search);
      this.composer.clear();
      this.turnTo(conversation);
    } else this.show();
    this.polite.textContent = t("generating");
    void exchange.run();
  }

  // Another answer to a message; one that never arrived is posted as it was.
  private again(user: string): void {
    const { conversation } = this;
    const node = conversation?.nodes.get(user);
    if (!conversation || !node?.message || conversation.liveUser) return;
    const action = conversation.id && node.children.length ? "variant" : "next";
    const message = node.message;
    void refreshScenarios().then(() => this.exchange(conversation, message, node.parent ?? ROOT, [], action));
  }

  // A new message beside `user`, below the same parent.
  private branch(user: string, composed: Composed): void {
    const { conversation } = this;
    if (!conversation || conversation.liveUser || !composed.text.trim()) return;
    void refreshScenarios().then(() => this.send(composed, conversation, conversation.nodes.get(user)?.parent ?? ROOT));
  }

  private async stop(): Promise<void> {
    const { conversation } = this;
    if (!conversation) return;
    const exchange = this.exchanges.get(conversation);
    await (exchange ?? new Exchange(conversation, { id: conversation.liveUser ?? "", author: { role: "user" }, content: { content_type: "text" } }, ROOT, [], this.choice(), this)).stop();
  }

  private choice(): Choice {
    return { ...this.header.choice(), ...(this.dial?.choosing ?? this.header.choosing).asked() };
  }

  private options(anchor: HTMLElement): void {
    if (this.conversation?.id) conversationMenu(anchor, this.conversation.id, this.conversation.title ?? "", this);
  }

  private throttle(): void {
    throttleDialog(async () => !!(await refreshScenarios()).throttled);
  }
}

function draftKey(): string {
  return /\/c\/([^/?#]+)/.exec(location.pathname)?.[1] ?? "new";
}

async function begin(): Promise<void> {
  hauntOn();
  await Promise.all([refreshScenarios(), refreshSession()]);
  settle();
  const localised = scenario("localised");
  speak(new URLSearchParams(location.search).get("hl") ?? (localised ? String(localised.language ?? "de") : "en"));
  if (standsInstead()) return;
  const page = new Page();
  page.build();
  drift();
  if (document.readyState !== "complete") await new Promise((resolve) => addEventListener("load", resolve, { once: true }));
  await Promise.all([new Promise((resolve) => setTimeout(resolve, HYDRATES_AFTER)), arrangeServiceWorker()]);
  page.hydrate();
  page.start();
}

void begin();
