// One send and the answer to it: the request's body, the reading of the stream, the end in every case.
import { Refusal, api, call, headers, scenario, wording } from "./net";
import { DeltaDecoder, EventReader } from "./sse";
import { t } from "./strings";
import { post } from "./transport";
import { Conversation, Message } from "./tree";
import { Composed } from "./composer";

export interface Choice { model: string; effort: string; mode: string }
export interface ExchangeHooks { changed(conversation: Conversation): void; named(conversation: Conversation): void; ended(conversation: Conversation): void }

const POLL = 1000; // ms between two looks at a conversation whose answer is on its way

/** The conversation as the site stores it. While `json-refused` is on, the page alone has another way to it. */
export const readConversation = (id: string) =>
  call<Parameters<Conversation["load"]>[0]>("GET", scenario("json-refused") ? `/practice/conversations/${encodeURIComponent(id)}` : api(`/conversation/${encodeURIComponent(id)}`));

/** The user's message with an id of the client's own making. */
export function userMessage(composed: Composed): Message {
  const metadata: Record<string, unknown> = { selected_sources: [], serialization_metadata: { custom_symbol_offsets: [] } };
  if (composed.attachments.length) metadata.attachments = composed.attachments;
  return {
    id: crypto.randomUUID(), author: { role: "user" }, create_time: Date.now() / 1000,
    content: { content_type: "text", parts: [composed.text] }, metadata,
  };
}

export class Exchange {
  private abort = new AbortController();
  private complete = false;

  /** `parent` is the node to answer below; the message is in the tree already. */
  constructor(private conversation: Conversation, private message: Message, private parent: string, private hints: string[], private choice: Choice, private hooks: ExchangeHooks, private action: "next" | "variant" = "next") {}

  async run(): Promise<void> {
    const { conversation } = this;
    try {
      const answer = await this.send();
      let said = "";
      const reader = new EventReader();
      const deltas = new DeltaDecoder();
      const streaming = answer.status < 400 && answer.type.includes("event-stream");
      for await (const text of answer.chunks) {
        if (!streaming) { said += text; continue; }
        for (const frame of reader.push(text)) this.take(frame.event, frame.data, deltas);
        this.hooks.changed(conversation);
      }
      if (!streaming) this.fail(wording(said) || `HTTP ${answer.status}`);
    } catch (error) {
      if (error instanceof Refusal) this.fail(error.message);
      else if (!this.abort.signal.aborted && !conversation.id) this.fail(t("networkError"));
    }
    const user = this.message.id;
    if (conversation.stopped.has(user)) this.complete = true;
    if (!this.complete && !conversation.failures.has(user) && conversation.id) await follow(conversation, this.hooks, user);
    else if (!this.complete && !conversation.failures.has(user)) this.fail(t("networkError"));
    if (conversation.liveUser === user) conversation.liveUser = null;
    this.hooks.ended(conversation);
  }

  /** Asks the site to stop; goes away by itself when the stream does not end soon. */
  async stop(): Promise<void> {
    const { conversation } = this;
    conversation.stopped.add(this.message.id);
    const cut = setTimeout(() => this.abort.abort(), conversation.id ? 3000 : 0);
    if (conversation.id) await call("POST", api("/stop_conversation"), { conversation_id: conversation.id }).catch(() => { clearTimeout(cut); this.abort.abort(); });
  }

  private async send() {
    const { conversation, choice } = this;
    const place: Record<string, unknown> = { parent_message_id: this.parent, model: choice.model, thinking_effort: choice.effort };
    if (conversation.id) place.conversation_id = conversation.id;
    const zone = { timezone_offset_min: new Date().getTimezoneOffset(), timezone: Intl.DateTimeFormat().resolvedOptions().timeZone };
    const shared = { action: this.action, ...place, ...zone, conversation_mode: { kind: choice.mode }, system_hints: this.hints, supports_buffering: true, supported_encodings: ["v1"] };
    const sentinel = await call<{ token?: string }>("POST", api("/sentinel/chat-requirements"), { p: null });
    const prepared = await call<{ conduit_token?: string }>("POST", api("/f/conversation/prepare"), shared);
    const body = JSON.stringify({
      ...shared, messages: [this.message], history_and_training_disabled: false, enable_message_followups: true,
      client_contextual_info: {
        is_dark_mode: matchMedia("(prefers-color-scheme: dark)").matches, time_since_loaded: Math.round(performance.now() / 1000),
        page_height: innerHeight, page_width: innerWidth, pixel_ratio: devicePixelRatio, screen_height: screen.height, screen_width: screen.width, app_name: "chatgpt.com",
      },
    });
    const extra: Record<string, string> = { "Content-Type": "application/json", Accept: "text/event-stream" };
    if (sentinel.token) extra["OpenAI-Sentinel-Chat-Requirements-Token"] = sentinel.token;
    if (prepared.conduit_token) extra["X-Conduit-Token"] = prepared.conduit_token;
    return post(api("/f/conversation"), headers(extra), body, this.abort.signal);
  }

  private take(event: string, data: string, deltas: DeltaDecoder): void {
    if (event === "delta_encoding") return;
    if (data === "[DONE]") { this.complete = true; return; }
    let value: Record<string, unknown>;
    try { value = JSON.parse(data); } catch { return; }
    if (event === "delta") value = deltas.apply(value) ?? {};
    if (typeof value.conversation_id === "string") this.learn(value.conversation_id);
    if (value.error) this.fail(typeof value.error === "string" ? value.error : String((value.error as { message?: string }).message ?? ""));
    const message = value.message as Message | null | undefined;
    if (message?.id && message.author?.role !== "user") this.put(message);
    if (value.type === "message_stream_complete") this.complete = true;
    if (value.type === "title_generation" && typeof value.title === "string") {
      this.conversation.title = value.title;
      this.hooks.named(this.conversation);
    }
    const echo = value.type === "input_message" ? (value.input_message as Message | undefined) : undefined;
    if (echo?.id && echo.id !== this.message.id) {
      this.conversation.rename(this.message.id, echo.id);
      this.message = { ...this.message, id: echo.id };
    }
  }

  private put(message: Message): void {
    const { conversation } = this;
    const above = message.metadata?.parent_id;
    // Another branch may be selected by now: it stays selected.
    const selected = conversation.userAbove(conversation.current) === this.message.id;
    const last = selected ? conversation.current : this.message.id;
    conversation.put(message, typeof above === "string" && conversation.nodes.has(above) && above !== message.id ? above : last);
    if (selected) conversation.current = message.id;
    if (message.status === "error" || message.metadata?.is_error === true) this.conversation.failures.set(this.message.id, this.conversation.failures.get(this.message.id) ?? "");
  }

  private learn(id: string): void {
    if (this.conversation.id === id) return;
    this.conversation.id = id;
    this.hooks.named(this.conversation);
  }

  private fail(text: string): void {
    this.conversation.failures.set(this.message.id, text);
  }
}

/** Looks at the stored conversation until its answer is there; used when a stream breaks and when a page opens in mid-answer. */
export async function follow(conversation: Conversation, hooks: ExchangeHooks, mine: string | null = null): Promise<void> {
  const began = Date.now();
  let failed = 0;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL));
    try {
      const stored = await readConversation(conversation.id!);
      failed = 0;
      // The store may be a turn behind: what we sent is not gone because of that.
      if (mine && !(mine in stored.mapping) && Date.now() - began < 10_000) continue;
      conversation.load(stored);
      hooks.changed(conversation);
      if (!conversation.liveUser) return hooks.ended(conversation);
    } catch {
      if (++failed < 5) continue;
      if (conversation.liveUser) conversation.failures.set(conversation.liveUser, t("networkError"));
      conversation.liveUser = null;
      return hooks.ended(conversation);
    }
  }
}

