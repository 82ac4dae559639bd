// How one turn looks: the hooks that tools look for, around text that is never markup.
import { assign, copyFrom, h, icon, iconButton, set } from "./dom";
import { isSecond, names } from "./generation";
import { renderMarkdown } from "./markdown";
import { call, scenario } from "./net";
import { menu } from "./overlays";
import { t } from "./strings";
import { Conversation, Message, TreeNode, Turn, isAnswer, isThought, textOf } from "./tree";
import { fileTile } from "./uploads";

export interface TurnHooks {
  retry(user: string): void;
  regenerate(user: string): void;
  edit(user: string, text: string): void;
  select(node: string): void;
}

const CONTROLS = (): string => isSecond() ? " turn-action-controls" : "";

/** The inside of one turn's container; `show` may be called again and again and keeps what did not change. */
export class TurnView {
  readonly section: HTMLElement = h((isSecond() ? "div" : String(scenario("turn-tag")?.tag ?? "section")) as "section", { dir: "auto", class: "turn" });
  private parts = new Map<string, { element: HTMLElement; sign: string }>();
  private openThoughts = new Set<string>();
  private wholeMessage = false;
  private editing = false;
  private round = "";

  constructor(private conversation: Conversation, private hooks: TurnHooks) {}

  /** `round`: the key of the round that the turn belongs to. */
  show(turn: Turn, isLast: boolean, round = ""): void {
    this.round = round;
    this.section.classList.toggle("turn-user", turn.role === "user");
    if (!isSecond()) {
      assign(this.section, {
        "data-turn-id": turn.key, "data-turn-id-container": turn.key, "data-testid": `conversation-turn-${turn.number}`, "data-turn": turn.role,
        "data-scroll-anchor": String(isLast),
      });
    }
    if (turn.role === "user") this.showUser(turn);
    else this.showAnswer(turn, isLast);
  }

  private showUser(turn: Turn): void {
    if (this.editing) return;
    const node = turn.nodes[0];
    const text = textOf(node.message!);
    const attachments = (node.message!.metadata?.attachments as { name: string; mime_type?: string; mimeType?: string }[] | undefined) ?? [];
    const variants = this.conversation.variants(node.id);
    this.keep(this.section, [
      ["head", "", () => h("h4", { class: "sr-only" }, t("youSaid"))],
      ["message", `${node.id}|${this.round}|${text.length}|${attachments.length}`, () => h("div", { ...this.message("user", [node.id, node.id], 0), dir: "auto", class: "user-message group/user-message" },
        ...attachments.map((file) => fileTile(file.name, file.mime_type ?? file.mimeType ?? "")), text ? this.bubble(text) : null)],
      ["actions", `${node.id}|${variants.length}`, () => {
        const copy = iconButton("copy", t("copy"), { "data-testid": "copy-turn-action-button", click: () => void copyFrom(copy, text) });
        return h("div", { role: "group", "aria-label": t("yourActions"), class: `actions actions-user${CONTROLS()}` },
          copy, iconButton("edit", t("edit"), { click: () => this.edit(node, text) }), this.branches(node.id, variants));
      }],
    ]);
  }

  // What names a message: its id and role, or where it stands in its round and the ids that it is made of.
  private message(role: "user" | "assistant", ids: string[], at: number): Record<string, string> {
    if (!isSecond()) return { "data-message-author-role": role, "data-message-id": ids[ids.length - 1] };
    const unit = `${this.round}:${at}:${role}`;
    return { "data-chatgpt-search-unit-key": unit, "data-content-search-unit-key": unit, "data-chatgpt-search-message-ids": ids.join(" ") };
  }

  private bubble(text: string): HTMLElement {
    const long = text.length > 1500 || text.split("\n").length > 14;
    // The second generation shows a prompt that holds a block of code as it shows an answer.
    const rich = isSecond() && /^```/m.test(text);
    const said = rich ? h("div", { "data-markdown-text-tone": "user-message", class: "prose" }) : h("div", { ...names("said"), class: "whitespace-pre-wrap" }, text);
    if (rich) renderMarkdown(said, text, [], false);
    const content = h("div", { "data-testid": "collapsible-user-message-content", class: long && !this.wholeMessage ? "collapsed" : "" }, said);
    const toggle = long && h("button", { type: "button", "data-testid": "collapsible-user-message-toggle", "aria-expanded": String(this.wholeMessage), class: "link-btn", click: (event: Event) => {
      this.wholeMessage = !this.wholeMessage;
      content.classList.toggle("collapsed", !this.wholeMessage);
      const button = event.currentTarget as HTMLElement;
      button.textContent = t(this.wholeMessage ? "showLess" : "showMore");
      button.setAttribute("aria-expanded", String(this.wholeMessage));
    } }, t(this.wholeMessage ? "showLess" : "showMore"));
    return h("div", { ...names("bubble"), class: "user-message-bubble-color" }, h("div", { "data-testid": "collapsible-user-message-root" }, content, toggle));
  }

  private edit(node: TreeNode, text: string): void {
    this.editing = true;
    const field = h("textarea", { class: "field", rows: String(Math.min(12, text.split("\n").length + 1)), "aria-label": t("edit") });
    field.value = text;
    const end = (): void => {
      this.editing = false;
      this.parts.clear();
      this.section.replaceChildren();
    };
    const box = h("div", { class: "edit-box" }, field, h("div", { class: "dialog-buttons" },
      h("button", { type: "button", class: "btn", click: () => { end(); this.hooks.select(this.conversation.current); } }, t("cancel")),
      h("button", { type: "button", class: "btn btn-primary", click: () => { end(); this.hooks.edit(node.id, field.value); } }, t("sendEdit"))));
    this.section.querySelector(".user-message")!.replaceWith(box);
    this.section.querySelector(".actions")!.remove();
    field.focus();
  }

  private branches(id: string, variants: string[]): HTMLElement | null {
    if (variants.length < 2) return null;
    const at = variants.indexOf(id);
    const step = (name: string, label: string, to: number): HTMLElement =>
      iconButton(name, label, { disabled: !variants[to], click: () => this.hooks.select(variants[to]) }, 16);
    return h("div", { class: "branches" }, step("left", t("previous"), at - 1), h("div", { class: "tabular-nums" }, `${at + 1}/${variants.length}`), step("right", t("next"), at + 1));
  }

  private showAnswer(turn: Turn, isLast: boolean): void {
    const user = this.conversation.userAbove(turn.nodes[0]?.id ?? this.conversation.current) ?? "";
    const blocks: [string, string, () => HTMLElement][] = [];
    const answers = turn.nodes.filter((node) => isAnswer(node.message) && (textOf(node.message!) || node.message!.content.content_type !== "text"));
    let thoughts: Message[] = [];
    const flush = (later: boolean): void => {
      if (!thoughts.length) return;
      const run = thoughts;
      const open = this.openThoughts.has(run[0].id);
      const sign = `${JSON.stringify(run.map((one) => one.content)).length}|${later}|${turn.live}|${turn.stopped}|${open}`;
      blocks.push([`thought:${run[0].id}`, sign, () => this.thinking(run, turn.live && !later, turn.stopped && !later)]);
      thoughts = [];
    };
    const last = answers[answers.length - 1];
    for (const node of turn.nodes) {
      const { message } = node;
      if (message && isThought(message)) thoughts.push(message);
      else if (answers.includes(node)) {
        flush(true);
        const streaming = turn.live && node === last;
        const text = textOf(node.message!);
        const at = turn.nodes.indexOf(node) + 1;
        const before = turn.nodes.slice(turn.nodes.indexOf(answers[answers.indexOf(node) - 1]) + 1, at - 1);
        blocks.push([`answer:${node.id}`, `${this.round}|${text.length}|${streaming}|${node.message!.status}`, () => this.answer(node, text, streaming, node === answers[0], before, at)]);
      } else if (message?.author.role === "tool" && message.content.content_type === "multimodal_text") {
        flush(true);
        blocks.push([`images:${node.id}`, "", () => this.images(message)]);
      }
    }
    flush(false);
    if (turn.live && !blocks.length) blocks.push(["waiting", "", () => isSecond()
      ? h("div", { role: "status", "aria-busy": "true", class: "waiting" }, h("span", { class: "pulse" }))
      : h("div", { class: "markdown prose result-streaming waiting", "data-streaming-response-status": "thinking" }, h("span", { class: "pulse" }))]);
    if (turn.stopped && !turn.live && !answers.length && !thoughts.length) blocks.push(["stopped", "", () => h("p", { class: "muted" }, t("interrupted"))]);
    if (turn.failure !== null && !turn.live) blocks.push(["failure", turn.failure, () => this.failure(user, turn.failure!)]);
    const agent = this.section.querySelector<HTMLElement>(":scope > .agent-turn") ?? h("div", { class: "agent-turn" });
    this.keep(agent, blocks);
    const first = turn.nodes[0]?.id ?? "";
    const variants = first ? this.conversation.variants(first) : [];
    const head = (): HTMLElement => isSecond() ? h("span", { hidden: true, "data-chatgpt-agent-turn-start": true }) : h("h4", { class: "sr-only" }, t("gptSaid"));
    const rows: [string, string, () => HTMLElement][] = [["head", "", head], ["agent", "", () => agent]];
    if (!turn.live && turn.failure === null && answers.length) {
      rows.push(["actions", `${first}|${variants.length}|${isLast}`, () => this.actions(answers, user, this.branches(first, variants), isLast)]);
    }
    this.keep(this.section, rows);
  }

  private answer(node: TreeNode, text: string, streaming: boolean, first: boolean, before: TreeNode[], at: number): HTMLElement {
    const message = node.message!;
    const known = this.parts.get(`answer:${node.id}`)?.element;
    const body = known?.querySelector<HTMLElement>(".prose") ?? h("div", names("body"));
    const { class: own = "" } = names("body");
    set(body, "class", `${own} prose${streaming ? ` streaming${isSecond() ? "" : " result-streaming streaming-animation"}` : ""}`.trim());
    renderMarkdown(body, text, (message.metadata?.content_references as never[]) ?? [], streaming);
    const called = this.message("assistant", [...before.map((one) => one.id), node.id], at);
    if (known) {
      assign(known, called);
      return known;
    }
    if (isSecond()) {
      return h("div", { ...called, dir: "auto", class: "assistant-message" },
        first ? h("h4", { class: "sr-only", "data-conversation-role": "assistant" }, t("gptSaid")) : null,
        h("div", { "data-chatgpt-selection-message-id": node.id }, body));
    }
    return h("div", {
      ...called, dir: "auto", "data-message-model-slug": String(message.metadata?.model_slug ?? "gpt-5-5"), "data-turn-start-message": first ? "true" : null, class: "assistant-message",
    }, body);
  }

  private thinking(run: Message[], live: boolean, stopped: boolean): HTMLElement {
    const id = run[0].id;
    const open = this.openThoughts.has(id);
    const recap = run.find((one) => one.content.content_type === "reasoning_recap");
    const seconds = run.map((one) => one.metadata?.finished_duration_sec).find((value) => typeof value === "number");
    const done = recap?.content.content ?? (typeof seconds === "number" ? t("thoughtFor", Math.round(seconds)) : t("thoughtMoment"));
    const label = live ? t("thinking") : stopped ? t("stoppedThinking") : document.documentElement.lang === "en" ? String(done) : String(done).replace(/^Thought for (\d+)s$/, (_, n: string) => t("thoughtFor", n));
    const button = h("button", { type: "button", class: `thinking-toggle${isSecond() ? " group/activity-header" : ""}`, "aria-expanded": String(open), click: () => {
      if (!this.openThoughts.delete(id)) this.openThoughts.add(id);
      this.hooks.select(this.conversation.current);
    } }, h("span", { class: live ? "loading-shimmer" : "" }, label), icon("down", 16));
    const panel = open && h("div", { class: "thoughts" }, ...run.flatMap((one) => one.content.thoughts ?? []).map((thought) =>
      h("div", { class: "thought" }, h("div", { class: "thought-head" }, thought.summary ?? ""), h("div", { class: "whitespace-pre-wrap" }, thought.content ?? ""))));
    return h("div", { "data-testid": "cot-v5", class: "thinking", ...(live && !isSecond() ? { "data-streaming-response-status": "thinking" } : {}) }, button, panel);
  }

  private images(message: Message): HTMLElement {
    const box = h("div", { id: !isSecond() && `image-${message.id}`, class: "images" });
    for (const part of message.content.parts ?? []) {
      const id = /^(?:sediment|file-service):\/\/([^#]+)/.exec((part as { asset_pointer?: string })?.asset_pointer ?? "")?.[1];
      if (!id) continue;
      const image = h("img", { alt: t("imageAlt"), class: "imagegen-image" });
      box.append(h("div", { class: isSecond() ? "group/generated-image-preview" : "group/imagegen-image" }, image));
      const query = this.conversation.id ? `?conversation_id=${encodeURIComponent(this.conversation.id)}&inline=false` : "";
      call<{ download_url?: string }>("GET", `/backend-api/files/download/${encodeURIComponent(id)}${query}`)
        .then(({ download_url }) => { if (download_url) image.src = download_url; }, () => image.replaceWith(h("p", { class: "muted" }, t("failed"))));
    }
    return box;
  }

  private failure(user: string, text: string): HTMLElement {
    return h("div", { class: `failure${isSecond() ? "" : " text-token-text-error"}`, role: "alert" }, h("div", { class: "text-error" }, h("strong", {}, t("wrong")), text && text !== t("wrong") ? h("div", {}, text) : null),
      h("button", { type: "button", class: "btn", "data-testid": "regenerate-thread-error-button", click: () => this.hooks.retry(user) }, icon("retry", 16), t("retry")));
  }

  private actions(answers: TreeNode[], user: string, branches: HTMLElement | null, isLast: boolean): HTMLElement {
    const text = answers.map((node) => textOf(node.message!)).join("\n\n");
    const copy = iconButton("copy", t("copy"), { "data-testid": "copy-turn-action-button", click: () => void copyFrom(copy, text) });
    const vote = (name: string, label: string): HTMLElement => {
      const button = iconButton(name, label, { "data-testid": `${name}-response-turn-action-button`, "aria-pressed": "false", click: () => {
        const on = button.getAttribute("aria-pressed") !== "true";
        button.parentElement!.querySelectorAll("[aria-pressed]").forEach((one) => one.setAttribute("aria-pressed", "false"));
        button.setAttribute("aria-pressed", String(on));
      } });
      return button;
    };
    const share = iconButton("share", t("share"), { click: () => void copyFrom(share, location.href) });
    const again = { label: t("regenerate"), icon: "retry", run: () => this.hooks.regenerate(user) };
    const model = iconButton("retry", t("switchModel"), { "aria-haspopup": "menu", click: () => menu(model, [again]) });
    const reading = !!scenario("stop-control-elsewhere");
    const more = iconButton("more", t("more"), { "aria-haspopup": "menu", click: () => menu(more, [{ label: t("copy"), icon: "copy", run: () => void copyFrom(copy, text) }, again]) });
    const loud = reading && iconButton("speaker", t("stopReading"), { "data-testid": "voice-play-turn-action-button" });
    return h("div", { role: "group", "aria-label": t("responseActions"), class: `actions${CONTROLS()}${isLast ? " actions-last" : ""}` }, copy, vote("good", t("good")), vote("bad", t("bad")), share, loud, model, more, branches);
  }

  // Brings `parent`'s children to the list: elements whose key and sign did not change stay the same elements.
  private keep(parent: HTMLElement, wanted: [string, string, () => HTMLElement][]): void {
    const elements = wanted.map(([key, sign, make]) => {
      const known = this.parts.get(key);
      if (known && known.sign === sign) return known.element;
      const element = make();
      if (known && known.element !== element && known.element.parentNode === parent) {
        const focused = known.element.contains(document.activeElement);
        known.element.replaceWith(element);
        if (focused) element.querySelector("button")?.focus();
      }
      this.parts.set(key, { element, sign });
      return element;
    });
    for (const child of [...parent.children]) if (!elements.includes(child as HTMLElement)) child.remove();
    elements.forEach((element, index) => { if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null); });
  }
}
