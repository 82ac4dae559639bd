// How a file gets to the site: announce, put the bytes, have them processed; and the chip that shows it.
import { h, icon } from "./dom";
import { isSecond } from "./generation";
import { Refusal, call, headers, scenario } from "./net";
import { toast } from "./overlays";
import { t } from "./strings";

export interface Attachment { id: string; name: string; size: number; mime_type: string; source: "local"; is_big_paste?: boolean }

export class Upload {
  state: "uploading" | "ready" | "failed" = "uploading";
  id = "";
  readonly chip = isSecond() ? h("span", { class: "chip group/composer-attachment" }) : h("div", { role: "group", class: "chip group/file-tile" });

  constructor(readonly file: File, readonly name: string, private number: number, private pasted: boolean, private changed: (upload: Upload, gone: boolean) => void) {
    if (!isSecond()) this.chip.setAttribute("aria-label", this.label);
    this.show();
    void this.run();
  }

  /** What the chip says: scenario `upload-cut-label` cuts it in the middle. */
  private get label(): string {
    return scenario("upload-cut-label") ? `${this.name.slice(0, 3)}…${this.name.slice(-3)}` : this.name;
  }

  get attachment(): Attachment {
    const out: Attachment = { id: this.id, name: this.name, size: this.file.size, mime_type: this.file.type || "application/octet-stream", source: "local" };
    if (this.pasted) out.is_big_paste = true;
    return out;
  }

  private async run(): Promise<void> {
    try {
      const image = this.file.type.startsWith("image/");
      const use_case = image ? "multimodal" : "my_files";
      const announced = await call<{ upload_url: string; file_id: string }>("POST", "/backend-api/files", {
        file_name: this.name, file_size: this.file.size, use_case, mime_type: this.file.type || "application/octet-stream", entry_surface: "chat_composer",
      });
      const foreign = new URL(announced.upload_url, location.href).origin !== location.origin;
      const kind = { "Content-Type": this.file.type || "application/octet-stream", "x-ms-blob-type": "BlockBlob" };
      const put = await fetch(announced.upload_url, { method: "PUT", headers: foreign ? kind : headers(kind), body: this.file });
      if (!put.ok) throw new Error(`upload answered ${put.status}`);
      if (scenario("upload-stalls")) return;
      const processed = await fetch("/backend-api/files/process_upload_stream", {
        method: "POST", headers: headers({ "Content-Type": "application/json" }),
        body: JSON.stringify({ file_id: announced.file_id, use_case, index_for_retrieval: false, file_name: this.name }),
      });
      if (processed.status === 404) await call("POST", `/backend-api/files/${encodeURIComponent(announced.file_id)}/uploaded`, {});
      else if (!processed.ok || !(await processed.text()).includes("file_ready")) throw new Error("the file was not processed");
      this.id = announced.file_id;
      this.state = "ready";
    } catch (error) {
      this.state = "failed";
      toast(error instanceof Refusal && error.text ? error.text : t("uploadFailed"), "error", 8);
    }
    this.show();
    this.changed(this, false);
  }

  private show(): void {
    const state = this.state === "uploading" && scenario("upload-early-send") ? "ready" : this.state;
    if (!isSecond()) this.chip.dataset.state = state;
    const kind = state === "failed" ? t("uploadFailed") : state === "uploading" ? t("uploading") : this.file.type.startsWith("image/") ? t("image") : t("document");
    const face = [
      h("span", { class: "chip-icon" }, state === "uploading" ? h("span", { role: "progressbar", class: "spinner", "aria-label": t("uploading") }) : icon("file")),
      h("span", { class: "chip-lines" }, h("span", { class: "truncate" }, this.label), h("span", { class: `truncate chip-kind${state === "failed" ? " text-error" : ""}` }, kind)),
    ];
    const remove = isSecond() ? t("removeHint", this.name) : t("removeFile", this.number, this.name);
    this.chip.replaceChildren(
      ...(isSecond() ? [h("span", { class: "chip-open composer-attachment-surface" }, ...face, h("button", { type: "button", class: "chip-over", "aria-label": t("preview") }))] : face),
      h("button", { type: "button", class: "chip-remove", "aria-label": remove, click: () => this.changed(this, true) }, icon("close", 14)),
    );
  }
}

/** A name that no other file of the message has: `name(1).ext`. */
export function distinctName(name: string, taken: Set<string>): string {
  const dot = name.lastIndexOf(".");
  const [stem, suffix] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ""];
  for (let count = 0; ; count++) {
    const tried = count ? `${stem}(${count})${suffix}` : name;
    if (!taken.has(tried)) return tried;
  }
}

/** The tile of a file in a message that was sent. */
export function fileTile(name: string, mime: string): HTMLElement {
  const kind = mime.startsWith("image/") ? t("image") : t("document");
  const lines = h("span", { class: "chip-lines" }, h("span", { class: "truncate", title: isSecond() && name }, name), h("span", { class: "truncate chip-kind" }, kind));
  const face = [h("span", { class: "chip-icon" }, icon("file")), lines];
  if (isSecond()) return h("span", { class: "chip group/resource-card" }, h("button", { type: "button", class: "chip-over", "aria-label": name }), ...face);
  return h("div", { role: "group", "aria-label": name, class: "chip group/file-tile" }, h("button", { type: "button", "aria-label": name, class: "chip-open" }, ...face));
}
