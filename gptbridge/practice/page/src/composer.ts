// The composer: form, editor, chips, and the one slot that is voice, send or stop.
import { draftOf, keepDraft } from "./drafts";
import { h, icon, iconButton } from "./dom";
import { Editor } from "./editor";
import { isSecond, names } from "./generation";
import { parameter, scenario } from "./net";
import { menu, toast } from "./overlays";
import { t } from "./strings";
import { Attachment, Upload, distinctName } from "./uploads";

export interface Composed { text: string; attachments: Attachment[]; hints: string[] }

export class Composer {
  readonly element: HTMLElement;
  readonly form: HTMLFormElement;
  private surface = h("div", {
    ...names("editor"), class: "ProseMirror", contenteditable: "true", role: "textbox", "aria-multiline": "true", "aria-label": t(isSecond() ? "askGpt" : "chatWith"),
    translate: "no", spellcheck: "true", dir: "auto",
  });
  private files = fileInput("upload-files", t("addFiles"), { multiple: true });
  private chips = h("div", { ...names("attachments"), class: "chips", hidden: true });
  private pills = h("div", { class: "pills" });
  private slot = h("div", { class: "slot" });
  private editor: Editor | null = null;
  private uploads: Upload[] = [];
  private hints = new Set<string>();
  private generating = false;
  private blocked = false;
  private shown = "";
  private touched = false; // somebody typed since the page was loaded
  private counter = 0;

  /** `dial`: what chooses model and effort, where that stands in the composer. */
  constructor(private conversation: string, private submit: (byClick: boolean) => void, private stop: () => void, dial: HTMLElement | null) {
    this.surface.append(h("p", { "data-placeholder": t("placeholder"), class: "placeholder" }, h("br", { class: "ProseMirror-trailingBreak" })));
    // The second generation has all of them in the form, and the one for documents last.
    const photos = fileInput("upload-photos", t("addPhotos"), { "data-testid": "upload-photos-input", accept: "image/*", multiple: true });
    const other = isSecond() ? fileInput("", t("addPhotos"), { accept: "image/*,video/*", multiple: true }) : fileInput("upload-camera", "", { accept: "image/*", capture: "environment" });
    for (const input of [this.files, photos, other]) input.addEventListener("change", () => this.add([...(input.files ?? [])], input));
    const plus = iconButton("plus", t("plus"), { ...names("plus"), "data-testid": "composer-plus-btn", "aria-haspopup": "menu", click: () => this.plusMenu(plus) }, 20);
    const fallback = isSecond() ? null : h("textarea", { name: "prompt-textarea", placeholder: t("placeholder"), style: "display: none", tabindex: "-1", "aria-hidden": "true" });
    this.form = h("form", { ...names("form"), class: "composer" },
      ...(isSecond() ? [other, photos] : []), this.files, this.chips,
      h("div", { class: "composer-text" }, fallback, this.surface),
      h("div", { class: "composer-bar", "data-testid": "composer-footer-actions" }, plus, this.pills,
        h("div", { class: "composer-trailing" }, dial, iconButton("mic", t("dictate"), { "data-testid": "composer-dictate-button", click: () => toast(t("noVoice")) }, 20), this.slot)));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("click", (event) => { if (!(event.target as Element).closest("button, input, .ProseMirror")) this.focus(); });
    this.form.addEventListener("dragover", (event) => event.preventDefault());
    this.form.addEventListener("drop", (event) => {
      const dropped = [...(event.dataTransfer?.files ?? [])];
      if (dropped.length) { event.preventDefault(); this.add(dropped); }
    });
    this.element = h("div", { class: "composer-holder" }, this.form, ...(isSecond() ? [] : [photos, other]));
    this.render();
  }

  /** Makes the editor live. Text that was typed before is lost; the conversation's draft comes back. */
  hydrate(): void {
    this.editor = new Editor(this.surface, {
      placeholder: () => t("placeholder"),
      limit: () => scenario("truncate-composer") ? parameter("truncate-composer", "at", 4000) : Infinity,
      changed: (text, typed) => {
        this.touched ||= typed;
        keepDraft(this.conversation, text);
        this.render();
      },
      submit: () => this.press(false),
      files: (files) => this.add(files),
      pasted: (text) => {
        if (!scenario("paste-becomes-file") || text.length <= parameter("paste-becomes-file", "at", 4000)) return false;
        this.attach(new File([text], "Pasted text.txt", { type: "text/plain" }), true);
        return true;
      },
    });
    this.open(this.conversation);
    if (scenario("tool-pill")) this.hint("search"); // as an earlier visit left it
  }

  /** What would be sent now; null while there is nothing, or a file is not ready. */
  composed(): Composed | null {
    const text = this.editor?.text ?? "";
    const ready = this.uploads.filter((upload) => upload.state === "ready");
    const early = !!scenario("upload-early-send"); // what is not there yet does not go along
    if (!this.editor || this.blocked || this.generating || (ready.length < this.uploads.length && !early)) return null;
    if (!text.trim() && !this.uploads.length) return null;
    const attachments = ready.map((upload) => upload.attachment);
    if (scenario("upload-lost")) attachments.pop();
    if (scenario("upload-extra")) attachments.push({ id: "file_00000000000000000000000000000000", name: "left over.txt", size: 1, mime_type: "text/plain", source: "local" });
    return { text, attachments, hints: [...this.hints] };
  }

  clear(): void {
    this.uploads = [];
    this.editor?.set("");
    this.showChips();
  }

  /** Goes over to another conversation's draft. */
  open(conversation: string): void {
    this.conversation = conversation;
    this.uploads = [];
    const draft = this.touched ? undefined : scenario("draft");
    this.editor?.set(draft ? String(draft.text ?? "an old draft") : draftOf(conversation));
    if (draft && !draft.kept) keepDraft(conversation, ""); // it lasts as long as its scenario
    const file = this.touched ? undefined : scenario("draft-file");
    if (file) this.attach(new File(["left over"], String(file.name ?? "left over.txt"), { type: "text/plain" }), false);
    this.showChips();
  }

  /** The same conversation got another name (its real id). */
  rename(conversation: string): void {
    if (this.conversation === conversation) return;
    const text = this.editor?.text ?? "";
    keepDraft(this.conversation, "");
    this.conversation = conversation;
    keepDraft(conversation, text);
  }

  wipe(): void {
    this.editor?.set("");
  }

  /** `work`: the second generation's composer bears another name in Work mode. */
  set(state: { generating?: boolean; blocked?: boolean; work?: boolean }): void {
    if (state.work !== undefined && isSecond()) this.form.toggleAttribute("data-chatgpt-composer", !state.work);
    this.generating = state.generating ?? this.generating;
    this.blocked = state.blocked ?? this.blocked;
    this.render();
  }

  focus(): void {
    this.editor?.focus();
  }

  private press(byClick: boolean): void {
    if (this.composed()) this.submit(byClick);
  }

  private render(): void {
    const full = !!this.editor?.text.trim() || this.uploads.length > 0;
    const wanted = this.generating ? "stop" : full ? "send" : "voice";
    if (wanted !== this.shown) {
      this.shown = wanted;
      this.slot.replaceChildren(this.button(wanted));
    }
    if (wanted === "send") (this.slot.firstChild as HTMLButtonElement).disabled = this.composed() === null;
  }

  private button(kind: string): HTMLButtonElement {
    const make = (label: string, name: string, attributes: Record<string, string | boolean | (() => void)>): HTMLButtonElement =>
      h("button", { type: "button", class: "round-btn", title: label, "aria-label": label, ...attributes }, icon(name, 20));
    if (kind === "stop") return make(t(isSecond() ? "stopShort" : "stop"), isSecond() ? "square" : "stop", { ...names("stop"), "data-testid": "stop-button", click: () => this.stop() });
    if (kind === "send") return make(t(isSecond() ? "sendEdit" : "send"), "up", { ...names("send"), "data-testid": "send-button", click: () => this.press(true) });
    return make(t("voice"), "voice", { "data-testid": "composer-speech-button", class: "round-btn voice", click: () => toast(t("noVoice")) });
  }

  private add(files: File[], input?: HTMLInputElement): void {
    for (const file of files) this.attach(file, false);
    if (input && !scenario("upload-no-chip")) input.value = "";
  }

  private attach(file: File, pasted: boolean): void {
    const taken = this.uploads.map((upload) => upload.name);
    const name = distinctName(file.name, new Set(scenario("upload-renames") ? [...taken, file.name] : taken));
    this.uploads.push(new Upload(file, name, ++this.counter, pasted, (upload, gone) => {
      if (gone) this.uploads = this.uploads.filter((other) => other !== upload);
      this.showChips();
    }));
    this.showChips();
  }

  private showChips(): void {
    this.chips.replaceChildren(...(scenario("upload-no-chip") ? [] : this.uploads.map((upload) => upload.chip)));
    this.chips.hidden = !this.chips.childElementCount;
    if (isSecond()) this.chips.toggleAttribute("data-visible-attachments", !this.chips.hidden);
    this.render();
  }

  private plusMenu(anchor: HTMLElement): void {
    menu(anchor, [
      { label: t("addFiles"), icon: "file", run: () => this.files.click() },
      { label: t("search"), icon: "globe", checked: this.hints.has("search"), run: () => this.hint("search") },
    ]);
  }

  private hint(name: string): void {
    if (!this.hints.delete(name)) this.hints.add(name);
    this.pills.replaceChildren(...[...this.hints].map((hint) =>
      h("button", { type: "button", class: "__composer-pill", "aria-label": t("removeHint", t("search")), click: () => this.hint(hint) }, icon("globe", 16), t("search"))));
    this.focus();
  }
}

const fileInput = (id: string, label: string, more: Record<string, string | boolean>): HTMLInputElement =>
  h("input", { type: "file", class: "sr-only", tabindex: "-1", "aria-hidden": "true", ...(isSecond() ? { "aria-label": label } : { id }), ...more });
