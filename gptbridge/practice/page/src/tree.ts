// The conversation's tree of messages, and the turns that its selected branch is shown as.
export interface Message {
  id: string; author: { role: string; name?: string | null }; create_time?: number | null; status?: string; end_turn?: boolean | null;
  content: { content_type: string; parts?: unknown[]; thoughts?: { summary?: string; content?: string }[]; content?: string; text?: string };
  metadata?: Record<string, unknown>; recipient?: string; channel?: string | null;
}
export interface TreeNode { id: string; parent: string | null; children: string[]; message: Message | null }
export interface Turn { key: string; number: number; role: "user" | "assistant"; nodes: TreeNode[]; live: boolean; failure: string | null; stopped: boolean }
interface Stored { title?: string; conversation_id?: string; current_node?: string; mapping: Record<string, TreeNode>; async_status?: unknown; default_model_slug?: string; update_time?: number | null; create_time?: number }

export const ROOT = "client-created-root";
// Seconds after which an answer that is stored as "in progress" counts as forgotten (the site keeps such ones for ever),
const LIVE_FOR = 2 * 3600;
// and a message without any answer as stopped.
const UNANSWERED_FOR = 600;

const hidden = (message: Message | null): boolean =>
  !message || message.author.role === "system" || message.metadata?.is_visually_hidden_from_conversation === true;

/** The text of a message's parts, joined with blank lines as the site shows them. */
export const textOf = (message: Message): string =>
  (message.content.parts ?? []).filter((part): part is string => typeof part === "string" && part !== "").join("\n\n");

/** A text of the assistant that a person sees. */
export const isAnswer = (message: Message | null): boolean =>
  !!message && !hidden(message) && message.author.role === "assistant" && (message.recipient ?? "all") === "all"
  && ["text", "multimodal_text"].includes(message.content.content_type);

export const isThought = (message: Message | null): boolean =>
  !!message && ["thoughts", "reasoning_recap"].includes(message.content.content_type);

export class Conversation {
  readonly nodes = new Map<string, TreeNode>();
  readonly failures = new Map<string, string>(); // user message id -> what is shown in place of the answer
  readonly stopped = new Set<string>();
  readonly localId = `WEB:${crypto.randomUUID()}`;
  id: string | null = null;
  title: string | null = null;
  current = ROOT;
  liveUser: string | null = null; // the user message whose answer is on its way
  prefix = ""; // "/g/g-p-..." of a conversation in a project
  private keys = new Map<string, string>();

  constructor() {
    this.nodes.set(ROOT, { id: ROOT, parent: null, children: [], message: null });
  }

  get path(): string {
    return `${this.prefix}/c/${this.id ?? this.localId}`;
  }

  /** Takes over what the site stores, keeping what only the page knows (turn ids, failures). */
  load(stored: Stored): void {
    this.id = stored.conversation_id ?? this.id;
    this.title = stored.title ?? this.title;
    this.nodes.clear();
    for (const [id, node] of Object.entries(stored.mapping)) this.nodes.set(id, { ...node, id, children: [...(node.children ?? [])] });
    const newest = [...this.nodes.values()].filter((node) => !node.children.length)
      .sort((a, b) => (b.message?.create_time ?? 0) - (a.message?.create_time ?? 0))[0];
    this.current = stored.current_node && this.nodes.has(stored.current_node) ? stored.current_node : newest?.id ?? ROOT;
    const leaf = this.nodes.get(this.current)?.message ?? null;
    const user = this.userAbove(this.current);
    const age = Date.now() / 1000 - (stored.update_time ?? leaf?.create_time ?? 0);
    const waiting = stored.async_status != null || leaf?.author.role === "user" || leaf?.status === "in_progress"
      || (isThought(leaf) && leaf?.end_turn !== true) || (isAnswer(leaf) && leaf?.channel === "commentary" && leaf.end_turn !== true);
    this.liveUser = user && waiting && age < (leaf?.author.role === "user" ? UNANSWERED_FOR : LIVE_FOR) && !this.failures.has(user) ? user : null;
    const details = leaf?.metadata?.finish_details as { type?: string } | undefined;
    if (user && details?.type === "interrupted") this.stopped.add(user);
    if (user && leaf && (leaf.status === "error" || leaf.metadata?.is_error === true)) this.failures.set(user, isAnswer(leaf) ? "" : textOf(leaf));
  }

  /** Adds a message below `parent`, or replaces the one of the same id, and selects it. */
  put(message: Message, parent: string): void {
    const known = this.nodes.get(message.id);
    if (known) known.message = message;
    else {
      this.nodes.set(message.id, { id: message.id, parent, children: [], message });
      this.nodes.get(parent)?.children.push(message.id);
    }
  }

  /** The server stored our message under another id. */
  rename(from: string, to: string): void {
    const node = this.nodes.get(from);
    if (!node || from === to) return;
    this.nodes.delete(from);
    this.nodes.set(to, { ...node, id: to, message: node.message && { ...node.message, id: to } });
    const siblings = this.nodes.get(node.parent ?? "")?.children;
    if (siblings) siblings.splice(siblings.indexOf(from), 1, to);
    for (const child of node.children) this.nodes.get(child)!.parent = to;
    if (this.current === from) this.current = to;
    if (this.liveUser === from) this.liveUser = to;
    const failure = this.failures.get(from);
    if (failure !== undefined) this.failures.set(to, failure);
  }

  /** The nearest user message at or above a node. */
  userAbove(id: string | null): string | null {
    for (let node = this.nodes.get(id ?? ""); node; node = this.nodes.get(node.parent ?? "")) {
      if (node.message?.author.role === "user" && !hidden(node.message)) return node.id;
    }
    return null;
  }

  /** The siblings of a node that a person can switch between. */
  variants(id: string): string[] {
    const node = this.nodes.get(id);
    return this.nodes.get(node?.parent ?? "")?.children.filter((child) => !hidden(this.nodes.get(child)?.message ?? null)) ?? [];
  }

  /** Selects the branch through a node: its newest leaf. */
  select(id: string): void {
    this.current = id;
    for (let node = this.nodes.get(id); node?.children.length; node = this.nodes.get(this.current)) this.current = node.children[node.children.length - 1];
  }

  turns(): Turn[] {
    const path: TreeNode[] = [];
    const seen = new Set<string>();
    for (let node = this.nodes.get(this.current); node && !seen.has(node.id); node = this.nodes.get(node.parent ?? "")) {
      seen.add(node.id);
      path.push(node);
    }
    path.reverse();
    const turns: Turn[] = [];
    let user = "";
    const open = (role: "user" | "assistant", key: string): Turn => {
      const turn = { key, number: turns.length + 1, role, nodes: [], live: false, failure: null, stopped: false };
      turns.push(turn);
      return turn;
    };
    const answer = (): Turn => {
      const last = turns[turns.length - 1];
      return last?.role === "assistant" ? last : open("assistant", this.answerKey(user, turns.length));
    };
    const close = (): void => {
      if (!user) return;
      const failure = this.failures.get(user);
      if (this.liveUser !== user && failure === undefined && turns[turns.length - 1]?.role !== "assistant") return;
      Object.assign(answer(), { live: this.liveUser === user, failure: failure ?? null, stopped: this.stopped.has(user) });
    };
    for (const node of path) {
      if (hidden(node.message)) continue;
      if (node.message!.author.role === "user") {
        close();
        user = node.id;
        open("user", node.id).nodes.push(node);
      } else answer().nodes.push(node);
    }
    close();
    return turns;
  }

  // Never the message's id: the answer's turn has a name before it has a message, and keeps it.
  private answerKey(user: string, index: number): string {
    const place = `${user}#${index}`;
    if (!this.keys.has(place)) this.keys.set(place, `request-${this.id ?? this.localId}-${(index - 1) >> 1}`);
    return this.keys.get(place)!;
  }
}
